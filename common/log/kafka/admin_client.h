#ifndef MILLSTREAM_COMMON_LOG_KAFKA_ADMIN_CLIENT_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_ADMIN_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/log/kafka/client.h"

namespace millstream::kafka {

// What the brokers say about a topic.
struct TopicFacts {
  std::string name;
  std::string id;  // empty before Kafka 2.8
  int partitions = 0;
  int replication_factor = 0;
  bool internal = false;  // __consumer_offsets and the like
};

using TopicConfig = std::map<std::string, std::string>;

// What an admin call gave, with the client it came from, which must outlive it.
class Answer {
 public:
  Answer(std::shared_ptr<Client> client, Owned<rd_kafka_event_t> event)
      : client_(std::move(client)), event_(std::move(event)) {}
  Answer(Answer&&) = default;
  Answer& operator=(Answer&&) = delete;  // would let the client go first

  rd_kafka_event_t* get() const { return event_.get(); }

 private:
  std::shared_ptr<Client> client_;
  Owned<rd_kafka_event_t> event_;  // goes first
};

// The log's own client, for what is asked about the cluster rather than read or written: one admin call at a time and
// thread, each within the log's deadline, transient errors repeated until then. Readers and writers use it too.
// Thread-safe; calls block.
class AdminClient {
 public:
  static absl::StatusOr<std::unique_ptr<AdminClient>> New(std::shared_ptr<const ClientContext> context);

  // NOT_FOUND if there is none.
  absl::StatusOr<TopicFacts> Describe(const std::string& topic);
  // Unknown ones are left out.
  absl::StatusOr<std::vector<TopicFacts>> Describe(const std::vector<std::string>& topics);
  absl::StatusOr<std::vector<std::string>> TopicNames();

  // Settings in force by topic. A topic whose settings we may not see (ACL DescribeConfigs) has none.
  absl::StatusOr<std::map<std::string, TopicConfig>> TopicConfigs(const std::vector<std::string>& topics);
  // A setting of the broker; nullopt if we may not see it.
  std::optional<std::string> BrokerSetting(const std::string& name);

  // Largest batch the topic takes (max.message.bytes), remembered for kLimitAge; nullopt if we may not see
  // it, or do not within kLimitWait.
  std::optional<int64_t> MaxMessageBytes(const std::string& topic);
  // The next MaxMessageBytes asks again.
  void ForgetLimit(const std::string& topic);

  // Topics written to so far by any writer of this log, for the next one to know before its first transaction.
  std::vector<std::string> WrittenTopics();
  void NoteWritten(const std::string& topic);

  // Runs an admin call of librdkafka: `start` issues it. The answer, or the error of the whole call; repeats calls
  // whose error passes by itself. `what` says what is being done, for errors. Calls about one group go to its
  // coordinator, wherever that has moved.
  using Tune = std::function<rd_kafka_error_t*(rd_kafka_AdminOptions_t*)>;
  using Start = std::function<void(rd_kafka_t*, const rd_kafka_AdminOptions_t*, rd_kafka_queue_t*)>;
  absl::StatusOr<Answer> Call(rd_kafka_admin_op_t op, std::string_view what, const Start& start,
                              const Tune& tune = nullptr, std::optional<absl::Duration> wait = std::nullopt);
  // Repeats `attempt` while its error passes by itself (UNAVAILABLE), up to the deadline. Of errors in answers about a
  // group it learns that a coordinator has moved.
  absl::Status UntilSettled(const std::function<absl::Status()>& attempt);

  // For calls that are none of Call's; made anew if the access has changed.
  std::shared_ptr<Client> client() { return CurrentClient(/*for_group=*/false); }
  absl::Duration deadline() const { return context_->options.admin_deadline; }
  std::string ConnectionTrouble() { return client()->ConnectionTrouble(); }

 private:
  static constexpr absl::Duration kLimitAge = absl::Minutes(5);
  // Asked for inside of transactions: it must not eat their time, and an answer is not needed.
  static constexpr absl::Duration kLimitWait = absl::Seconds(1), kLimitRetry = absl::Seconds(30);
  static constexpr size_t kMostTopics = 1000;  // that are remembered: more than a processor may have

  struct Limit {
    std::optional<int64_t> bytes;
    absl::Duration until;
  };

  absl::StatusOr<std::map<std::string, TopicConfig>> TopicConfigs(const std::vector<std::string>& topics,
                                                                  absl::Duration wait);
  absl::Status UntilSettled(const std::function<absl::Status()>& attempt, absl::Duration wait);
  AdminClient(std::shared_ptr<const ClientContext> context, std::shared_ptr<Client> client)
      : context_(std::move(context)), client_(std::move(client)) {}
  static absl::StatusOr<std::unique_ptr<Client>> NewClient(std::shared_ptr<const ClientContext> context);
  std::shared_ptr<Client> CurrentClient(bool for_group);
  // If the error says so: the next call about a group is made by a client that asks who coordinates it.
  void NoteMovedCoordinator(const absl::Status& status);
  // False: none answers within `wait`.
  static bool AwaitBroker(const Client& client, absl::Duration wait);
  absl::StatusOr<Answer> CallOnce(rd_kafka_admin_op_t op, std::string_view what, const Start& start, const Tune& tune,
                                  absl::Duration wait);

  const std::shared_ptr<const ClientContext> context_;
  const Clock& clock_ = SystemClock();
  absl::Mutex mutex_;
  std::shared_ptr<Client> client_ ABSL_GUARDED_BY(mutex_);
  // Instead of client_ for calls about groups, once a coordinator has moved.
  std::shared_ptr<Client> group_client_ ABSL_GUARDED_BY(mutex_);
  absl::Duration group_client_made_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  absl::flat_hash_map<std::string, Limit> limits_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> written_ ABSL_GUARDED_BY(mutex_);
};

// Empty where the broker has no ids (before Kafka 2.8).
std::string TopicId(const rd_kafka_TopicDescription_t* described);
// A partition list with one entry.
Owned<rd_kafka_topic_partition_list_t> PartitionList(const std::string& topic, int32_t partition, int64_t offset);
// For librdkafka's int milliseconds; at least 1.
int Millis(absl::Duration duration);

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_ADMIN_CLIENT_H_
