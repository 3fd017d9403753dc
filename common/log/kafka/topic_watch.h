#ifndef MILLSTREAM_COMMON_LOG_KAFKA_TOPIC_WATCH_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_TOPIC_WATCH_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/log/kafka/admin_client.h"

namespace millstream::kafka {

// Whether the topics of a reader are still the ones it was told to read. librdkafka goes on at the old offset in a
// topic that was deleted and made again; topic ids tell (Kafka 2.8 and newer; before that only a topic that is gone is
// noticed). Asks every kInterval, and soon after something looked wrong. Thread-compatible; never blocks but in Learn.
class TopicWatch {
 public:
  // Both outlive it. `client` is the reader's, which the questions go through.
  TopicWatch(rd_kafka_t* client, AdminClient* admin)
      : client_(client), admin_(admin), answers_(rd_kafka_queue_new(client)) {}

  // The reader's client from now on; an answer to the one before is not waited for.
  void Use(rd_kafka_t* client);

  // One more user of the topic; asks the cluster about it unless it is known. NOT_FOUND if it has no such partition.
  absl::Status Learn(const TopicPartition& of);
  void Forget(const std::string& topic);

  // Something about a topic looked wrong: ask soon.
  void Suspect();

  // Topics that are not what they were, with the reason, each once. To be called now and then; asks by itself.
  std::vector<std::pair<std::string, absl::Status>> Check();
  bool asking() const { return asking_ || next_ <= clock_.Monotonic() + kSoon; }

 private:
  static constexpr absl::Duration kInterval = absl::Seconds(10);
  static constexpr absl::Duration kSoon = absl::Milliseconds(200);
  // A broker that has just started may not know the topic yet: so many answers in a row must agree.
  static constexpr int kMissingForSure = 2;

  struct Watched {
    std::string id;
    int partitions = 0;
    int users = 0;
    int missing = 0;
    bool reported = false;
  };

  void Ask();

  rd_kafka_t* client_;
  AdminClient* const admin_;
  const Clock& clock_ = SystemClock();
  Owned<rd_kafka_queue_t> answers_;
  std::map<std::string, Watched> topics_;
  bool asking_ = false;
  absl::Duration next_ = clock_.Monotonic() + kInterval;
};

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_TOPIC_WATCH_H_
