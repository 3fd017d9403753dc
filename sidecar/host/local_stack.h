#ifndef MILLSTREAM_SIDECAR_HOST_LOCAL_STACK_H_
#define MILLSTREAM_SIDECAR_HOST_LOCAL_STACK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/metrics.h"
#include "common/log/kafka/cluster_access.h"
#include "common/spec/manifest.h"
#include "sidecar/host/backend.h"
#include "sidecar/host/data_folder.h"
#include "sidecar/host/early_queries.h"
#include "sidecar/host/secret_watch.h"
#include "sidecar/host/sidecar.h"
#include "sidecar/server/http_endpoints.h"

namespace millstream::host {

struct LocalStackOptions {
  std::string data;     // folder
  std::string program;  // what others call this process while it holds the folder
  std::vector<spec::Manifest> manifests;
  std::vector<std::string> socket_paths;  // where workers connect, per manifest
  // How each processor reaches its Kafka, per manifest; empty: all are on the embedded log of the folder.
  std::vector<kafka::ClusterAccess> clusters;
  // The same again, with secrets as they are at that time, from a thread of each processor: rotated secrets are
  // followed. Empty: they are those of `clusters` for ever.
  std::function<absl::StatusOr<kafka::ClusterAccess>(const spec::KafkaSpec& kafka)> read_cluster;
  SecretWatchOptions secret_watch;
  std::string member_name;          // who this process is in its groups; empty: the folder's random id
  std::string owner = "localhost";  // who answers queries
  std::string cluster = "local";    // in the owner stamps of its groups
  bool leaves = true;               // its groups, when it stops; false: it comes back soon under the same name
  // Orders to begin with, asked when a sidecar starts; may be empty.
  std::function<std::optional<Orders>()> orders;
  // Of input topics that have to be made. On Kafka, where topics are somebody's, they are made only if it is set.
  std::optional<int> partitions;
  std::optional<std::string> http_address;  // unset: no HTTP
  int http_port = 0;                        // 0: free ones; otherwise this one and the following ones
  int64_t memory_bytes = 0;                 // 0: DefaultMemoryBytes
  // Ends waiting: for a folder that a short command holds, for brokers or rights.
  std::function<bool()> interrupted;
  // Told what is waited for, each time that changes: brokers that do not answer, a missing right.
  std::function<void(const std::string& what)> on_wait;
};

// The sidecars of some processors on one data folder: lock, log, topics, sidecars, HTTP; in that order, and back.
// Topics are in the folder's embedded log or in a Kafka; then the folder holds state, ids and the lock. Used by
// `millstream run` and `millstream-sidecar`. One thread.
class LocalStack {
 public:
  struct Processor {
    spec::Manifest manifest;
    std::string socket_path;
    Backend* backend = nullptr;
    int tasks = 0;
    std::vector<int> output_partitions;
    std::unique_ptr<MetricsRegistry> metrics;
    std::unique_ptr<SecretWatch> secrets;  // nullptr: they are not followed
    std::unique_ptr<Sidecar> sidecar;
    std::unique_ptr<EarlyQueries> queries;        // what HTTP asks
    std::unique_ptr<server::HttpEndpoints> http;  // nullptr: off
  };

  // FAILED_PRECONDITION names who holds the folder, topics that do not fit, or a group of another processor. On Kafka
  // it waits for brokers that do not answer and for rights that are missing; meanwhile HTTP tells the condition.
  static absl::StatusOr<std::unique_ptr<LocalStack>> Start(LocalStackOptions options);
  ~LocalStack();

  const DataFolder& folder() const { return *folder_; }
  // Of the first processor.
  log::Log* log() { return backends_.front()->log(); }
  std::vector<Processor>& processors() { return processors_; }
  const std::vector<std::string>& created_topics() const { return created_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

  void BeginDrain(absl::Duration deadline);
  bool drained() const;
  // Ends every sidecar; call once, after the drain or instead of it. False if not everything was drained.
  bool Stop();
  // Calls of the log that never came back: with any the log cannot be closed, and the process must end by _Exit after
  // Stop.
  int stuck_calls() const;

 private:
  LocalStack() = default;
  absl::Status OpenFolder(const LocalStackOptions& options);
  absl::Status OpenBackends(LocalStackOptions* options);
  static void WatchSecrets(const LocalStackOptions& options, std::shared_ptr<kafka::LiveAccess> access,
                           const std::string& client_id, Processor* processor);
  const std::string& MemberName(const LocalStackOptions& options) const;
  absl::Status PrepareWithPatience(const LocalStackOptions& options);
  absl::Status PrepareProcessors(const LocalStackOptions& options);
  absl::Status StartSidecar(const LocalStackOptions& options, Processor* processor, PreparedTopics topics);
  absl::Status StartHttp(const LocalStackOptions& options, int index);

  std::unique_ptr<DataFolder> folder_;
  std::vector<std::unique_ptr<Backend>> backends_;  // one for all, or one per processor
  std::unique_ptr<store::StateEnvironment> environment_;
  MemoryShares memory_;
  std::vector<Processor> processors_;
  std::vector<std::string> created_, warnings_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_LOCAL_STACK_H_
