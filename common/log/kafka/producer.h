#ifndef MILLSTREAM_COMMON_LOG_KAFKA_PRODUCER_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_PRODUCER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/log/kafka/admin_client.h"
#include "common/log/kafka/client.h"
#include "common/log/kafka/errors.h"
#include "common/log/writer.h"

namespace millstream::kafka {

// What both kinds of writers do: records into librdkafka's bounded queue, their fate back from it. Knows no
// transactions. Thread-compatible; delivery reports come inside the calls below, on the caller's thread.
class Producer : public DeliverySink {
 public:
  // `admin` outlives it.
  explicit Producer(AdminClient* admin) : admin_(admin) {}
  ~Producer() override;

  // Makes the client. Before anything else, once.
  absl::Status Open(std::shared_ptr<const ClientContext> context, ClientSpec spec);
  bool is_open() const { return client_ != nullptr; }
  Client& client() { return *client_; }
  rd_kafka_t* get() { return client_->get(); }

  // Asks for the metadata of topics that other writers of this log have written to: the first record of a topic that
  // a client does not know yet waits for up to a second.
  void WarmUp(absl::Duration wait);

  // Asked while a call waits: an error ends the wait. For what librdkafka tells nobody by itself (a transaction that
  // became void).
  using Probe = std::function<std::optional<TransactionError>()>;

  // Queues records in order; waits while the queue is full, until `deadline` (of the clock's Monotonic).
  std::optional<TransactionError> Append(const std::vector<log::OutgoingRecord>& records, absl::Duration deadline,
                                         const Probe& probe);
  // Waits until every record queued is acknowledged or failed.
  std::optional<TransactionError> Flush(absl::Duration deadline, const Probe& probe);

  // Highest acknowledged offsets since the last Forget.
  log::AcknowledgedOffsets Acknowledged() const;
  // Acknowledged offsets and the failure.
  void Forget();
  void ForgetFailure() { failure_.reset(); }
  // The topics it has written to, sorted: "a, b".
  std::string TopicNames() const;
  // Whether a record was refused or expired since then: it has a number that the ones behind it count on.
  bool refused() const;

  void Delivered(const rd_kafka_message_t& message) override;

 private:
  struct Topic {
    std::string name;
    Owned<rd_kafka_topic_t> handle;
    int partitions = 0;
    std::optional<int64_t> max_batch_bytes;  // max.message.bytes, where we may see it
  };
  // One partition written to. Its address travels with each message.
  struct Slot {
    TopicPartition to;
    Topic* topic = nullptr;
    int64_t bytes_under_way = 0, records_under_way = 0;
    Offset acknowledged = kNoOffset;
  };
  // The first delivery that failed; of records that are too large, the largest one.
  struct Failure {
    rd_kafka_resp_err_t code;
    std::string detail;
    size_t bytes = 0;
  };

  std::optional<TransactionError> AppendOne(const log::OutgoingRecord& record, absl::Duration deadline,
                                            const Probe& probe);
  rd_kafka_resp_err_t Produce(const log::OutgoingRecord& record, Slot* slot);
  absl::StatusOr<Slot*> SlotOf(const TopicPartition& to, absl::Duration deadline);
  // Waits for the topic's metadata.
  absl::Status Learn(Topic* topic, absl::Duration deadline);
  TransactionError FailureAsError(const Probe& probe);
  // Adds the reason of a fatal error, which the error itself does not tell.
  TransactionError Classify(rd_kafka_resp_err_t code, std::string detail, ErrorClass otherwise);

  AdminClient* const admin_;
  const Clock& clock_ = SystemClock();
  int64_t batch_bytes_ = 0;
  absl::flat_hash_map<std::string, std::unique_ptr<Topic>> topics_;
  absl::flat_hash_map<TopicPartition, std::unique_ptr<Slot>> slots_;
  Slot* last_slot_ = nullptr;  // runs of records for one partition are common
  std::optional<Failure> failure_;
  // Last: its end stops callbacks into the above, and topic handles must be gone by then (see the destructor).
  std::unique_ptr<Client> client_;
};

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_PRODUCER_H_
