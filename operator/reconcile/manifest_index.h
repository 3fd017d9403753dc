#ifndef MILLSTREAM_OPERATOR_RECONCILE_MANIFEST_INDEX_H_
#define MILLSTREAM_OPERATOR_RECONCILE_MANIFEST_INDEX_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/spec/manifest.h"
#include "operator/kube/resource.h"
#include "operator/reconcile/packed.h"
#include "operator/reconcile/problem.h"

namespace millstream::reconcile {

// One generation of a processor, read once. A plain value, never changed.
struct ReadManifest {
  std::string uid;
  int64_t generation = 0;
  std::string created;  // its creationTimestamp; RFC 3339 in UTC, so that the earlier one is the lesser text
  // INVALID_ARGUMENT: every error with its field, one a line.
  absl::StatusOr<spec::Manifest> manifest = absl::UnknownError("not read");
};

// The manifests of all processors that the operator knows, and what they claim for themselves in Kafka: consumer group
// and internal topics. The rules are those of `millstream validate` between documents of one call, with one difference:
// who came first keeps it. Kafka clusters are told apart by spec.kafka.bootstrapServers; two names of one cluster are
// noticed by the owner stamp in Kafka only. Thread-safe.
class ManifestIndex {
 public:
  using Keys = std::set<kube::ObjectKey>;

  // The processor is new or another generation. Returns the other processors that claim the same as it did or does now:
  // for them the answer of ConflictOf may be another. A manifest that cannot be read keeps the claims of the one
  // before.
  Keys Update(const Json& processor);
  Keys Remove(const kube::ObjectKey& key);

  std::shared_ptr<const ReadManifest> Find(const kube::ObjectKey& key) const;  // null: not known
  // Whether an older processor has what this one claims: reason GroupOwnedByAnother or TopicsOverlap, both named.
  std::optional<Problem> ConflictOf(const kube::ObjectKey& key) const;

 private:
  struct Claims {
    std::string group;                            // with its cluster, as the topics
    std::map<std::string, std::string> internal;  // topic -> what it is: "changelog of store totals"
    std::set<std::string> outputs;
  };
  struct Entry {
    std::shared_ptr<const ReadManifest> read;
    Claims claims;
  };
  static Claims ClaimsOf(const spec::StreamProcessorSpec& spec);
  void Enter(const kube::ObjectKey& key, const Claims& claims) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(const kube::ObjectKey& key, const Claims& claims) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddSharers(const Claims& claims, Keys* keys) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOlder(const kube::ObjectKey& a, const kube::ObjectKey& b) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<kube::ObjectKey, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Keys> by_group_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Keys> by_topic_ ABSL_GUARDED_BY(mutex_);  // internal ones and outputs
};

// apiVersion, kind, metadata {name, namespace} and spec of a processor, read by common/spec.
absl::StatusOr<spec::Manifest> ReadProcessor(const Json& processor);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_MANIFEST_INDEX_H_
