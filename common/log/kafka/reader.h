#ifndef MILLSTREAM_COMMON_LOG_KAFKA_READER_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_READER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/log/kafka/admin_client.h"
#include "common/log/kafka/client.h"
#include "common/log/kafka/topic_watch.h"
#include "common/log/reader.h"

namespace millstream::kafka {

// log::Reader on a librdkafka consumer whose partitions are assigned by hand.
//
// All partitions share the consumer's one queue, so that its bound is one of the reader. A partition that is paused for
// a moment keeps what comes of it in a small stash; only when that is full does the library stop fetching, since it
// throws away and fetches again what it holds of a paused partition.
class KafkaReader : public log::Reader {
 public:
  // `admin` outlives it.
  KafkaReader(std::shared_ptr<const ClientContext> context, AdminClient* admin, const log::ReaderOptions& options);

  absl::Status Add(const TopicPartition& from, Offset start) override;
  void Remove(const TopicPartition& from) override;
  absl::Status Seek(const TopicPartition& from, Offset to) override;
  void Pause(const TopicPartition& from) override;
  void Resume(const TopicPartition& from) override;
  absl::StatusOr<std::vector<log::ReaderEvent>> Poll(absl::Duration wait) override;
  void Wake() override;

 private:
  // What came of a partition while it was paused, in this order.
  struct Stash {
    std::vector<log::Record> records;
    int64_t bytes = 0;
    std::optional<Offset> end;
    absl::Status failure;

    bool empty() const { return records.empty() && !end && failure.ok(); }
  };
  struct Source {
    TopicPartition from;
    Offset position;                  // the next one to give to the caller or the stash
    Offset reported_end = kNoOffset;  // the last end told
    bool paused = false;              // by the caller
    bool held = false;                // by us, in the library, because the stash is full
    bool failed = false;              // until Seek
    bool asked_again = false;         // the library called the position out of range once
    Stash stash;
  };

  // What a Poll has gathered so far.
  struct Gathering {
    std::vector<log::ReaderEvent> events;
    int64_t bytes = 0;       // of all
    int64_t last_bytes = 0;  // of the last event, if it is one of records
  };

  void Take(const rd_kafka_message_t& message, Gathering* to);
  void TakeRecord(Source& source, const rd_kafka_message_t& message, Gathering* to);
  void TakeEnd(Source& source, Offset end, Gathering* to);
  void TakeError(Source& source, const rd_kafka_message_t& message, Gathering* to);
  void Failed(Source& source, absl::Status status, Gathering* to);
  void Give(Source& source, log::Record record, int64_t bytes, Gathering* to);
  void GiveStashes(Gathering* to);
  void CheckTopics(Gathering* to);
  Source* SourceOf(const rd_kafka_message_t& message);

  absl::StatusOr<std::unique_ptr<Client>> NewClient() const;
  void Use(std::unique_ptr<Client> client);
  // If the access has changed: goes on with another client where this one is.
  void RenewIfOutdated(Gathering* to);

  // The library's side. Each of them makes what it still holds of the partition void at once.
  absl::Status Assign(const TopicPartition& from, Offset at);
  void Unassign(const TopicPartition& from);
  void Hold(Source& source, bool hold);

  const std::shared_ptr<const ClientContext> context_;
  AdminClient* const admin_;
  const log::ReaderOptions options_;
  const int64_t stash_bytes_;  // of one partition
  const Clock& clock_ = SystemClock();

  absl::Status broken_;  // the client could not be made
  std::unique_ptr<Client> client_;
  absl::Duration renew_after_ = -absl::InfiniteDuration();  // an attempt that failed
  absl::Mutex queue_mutex_;
  Owned<rd_kafka_queue_t> queue_ ABSL_GUARDED_BY(queue_mutex_);  // the consumer's; for Wake
  std::unique_ptr<TopicWatch> watch_;

  absl::flat_hash_map<TopicPartition, std::unique_ptr<Source>> sources_;
  std::deque<TopicPartition> stashed_;  // resumed with something in their stash
  // The source of the last message: they come in runs.
  rd_kafka_topic_t* last_topic_ = nullptr;
  int32_t last_partition_ = -1;
  Source* last_source_ = nullptr;

  std::atomic<bool> woken_{false};
};

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_READER_H_
