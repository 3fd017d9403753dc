#ifndef MILLSTREAM_COMMON_LOG_KAFKA_CLIENT_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/log/kafka/live_access.h"
#include "common/log/kafka/open.h"
#include "common/log/kafka/rd.h"

namespace millstream::kafka {

// Names and values of librdkafka's properties, in the order they are set: the last one wins.
using Properties = std::vector<std::pair<std::string, std::string>>;

// What all clients of one log share. Outlives every client (they hold it).
struct ClientContext {
  explicit ClientContext(const KafkaLogOptions& log_options);

  // A client took the place of one whose access is not in force any more. `kind`: "reader", "writer".
  void CountRenewed(const char* kind) const;

  const KafkaLogOptions options;
  const std::shared_ptr<LiveAccess> access;  // in place of options.access
  Counter* sockets_closed = nullptr;         // null without a registry
  Counter* abandoned = nullptr;
};

// Hears of the fate of a client's messages, inside rd_kafka_poll and rd_kafka_flush of the thread that calls these.
class DeliverySink {
 public:
  virtual ~DeliverySink() = default;
  virtual void Delivered(const rd_kafka_message_t& message) = 0;
};

struct ClientSpec {
  rd_kafka_type_t type = RD_KAFKA_PRODUCER;
  std::string what;              // "reader", "writer orders-0-a": in log lines and errors
  Properties defaults;           // what the manifest's kafka.config may change
  Properties fixed;              // what it may not
  DeliverySink* sink = nullptr;  // for producers; outlives the client
};

// One rd_kafka_t with its callbacks: log lines go to ours, errors of connections are remembered as the reason of
// timeouts, closed sockets are counted (engine.md, R6), OAUTHBEARER tokens are fetched.
//
// Thread-safe as rd_kafka_t is. The destructor takes kDestroyWait at most: a client that does not end by then (a host
// name that does not resolve, a call stuck in another thread) is left to a thread of its own.
class Client {
 public:
  static constexpr absl::Duration kDestroyWait = absl::Seconds(5);

  // INVALID_ARGUMENT names the property that librdkafka refuses.
  static absl::StatusOr<std::unique_ptr<Client>> New(std::shared_ptr<const ClientContext> context, ClientSpec spec);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  rd_kafka_t* get() const { return handle_; }
  const ClientContext& context() const { return *context_; }
  // Whether its access is not the one in force any more: its owner makes another one when nothing is under way.
  bool outdated() const { return state_->access->version != context_->access->version(); }
  // How many sockets to brokers have been closed, by either side.
  uint64_t sockets_closed() const { return state_->sockets_closed.load(); }
  // "; last error of a connection 2 s ago: <reason>", if there was one in the last minute; else empty.
  std::string ConnectionTrouble() const;

 private:
  // What callbacks use. Lives until librdkafka's threads have ended, which may be later than the client.
  struct State {
    std::string what;
    const Clock* clock = nullptr;
    std::shared_ptr<const ClientContext> context;
    std::shared_ptr<const AccessInForce> access;  // when the client was made
    std::atomic<DeliverySink*> sink{nullptr};
    std::atomic<uint64_t> sockets_closed{0};

    absl::Mutex mutex;
    std::string trouble ABSL_GUARDED_BY(mutex);
    absl::Duration trouble_at ABSL_GUARDED_BY(mutex);
    // When a line of this facility may be logged again.
    absl::flat_hash_map<std::string, absl::Duration> quiet_until ABSL_GUARDED_BY(mutex);
  };

  Client(std::shared_ptr<const ClientContext> context, std::shared_ptr<State> state, rd_kafka_t* handle)
      : context_(std::move(context)), state_(std::move(state)), handle_(handle) {}

  static void OnLog(const rd_kafka_t* client, int level, const char* facility, const char* text);
  static void OnDelivery(rd_kafka_t* client, const rd_kafka_message_t* message, void* state);
  static int OnCloseSocket(int socket, void* state);
  static void OnTokenRefresh(rd_kafka_t* client, const char* config, void* state);
  static void NoteTrouble(State& state, std::string text);
  static void LogLine(State& state, int level, const char* facility, const char* text);

  const std::shared_ptr<const ClientContext> context_;
  const std::shared_ptr<State> state_;
  rd_kafka_t* const handle_;
};

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_CLIENT_H_
