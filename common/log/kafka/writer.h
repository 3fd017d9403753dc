#ifndef MILLSTREAM_COMMON_LOG_KAFKA_WRITER_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_WRITER_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/log/kafka/producer.h"
#include "common/log/writer.h"

namespace millstream::kafka {

// log::TransactionalWriter on librdkafka's transactional producer.
//
// What librdkafka may not be trusted with is done here: every call has its own deadline; a void transaction is noticed
// while waiting; a commit or abort without an answer is of unknown outcome; and if a socket closed while the
// transaction was open, its outcome stands but the writer must be re-created before the next one, because a delayed
// request could end that (engine.md, R6).
class KafkaTransactionalWriter : public log::TransactionalWriter {
 public:
  // `admin` outlives it.
  KafkaTransactionalWriter(std::shared_ptr<const ClientContext> context, AdminClient* admin,
                           const log::WriterOptions& options)
      : context_(std::move(context)), admin_(admin), options_(options), producer_(std::make_unique<Producer>(admin)) {}

  absl::Status Init() override;
  absl::Status Begin() override;
  absl::Status Append(std::vector<log::OutgoingRecord> records) override;
  absl::StatusOr<log::AcknowledgedOffsets> Flush() override;
  absl::Status SendOffsets(const log::GroupToken& token,
                           absl::Span<const std::pair<TopicPartition, log::GroupOffset>> offsets) override;
  absl::Status Commit() override;
  absl::Status Abort() override;

 private:
  enum class State { kNew, kIdle, kOpen, kMustAbort, kUseless };

  absl::Status Expect(State wanted, TransactionCall call) const;
  // The status of `error`, remembered as the state it leaves the writer in. `about` names what the call was about.
  absl::Status Fail(TransactionCall call, const TransactionError& error, std::string_view about = {});
  absl::Status Fail(TransactionCall call, const rd_kafka_error_t* error, std::string_view about = {});
  // Whether the open transaction is void or the producer gone, without waiting.
  std::optional<TransactionError> Probe();
  absl::Status FlushAll(TransactionCall call);
  absl::Status End(TransactionCall call);
  absl::Status Renew();
  std::string WithBrokersBound(std::string detail) const;
  absl::Duration Deadline() const { return SystemClock().Monotonic() + options_.call_deadline; }

  const std::shared_ptr<const ClientContext> context_;
  AdminClient* const admin_;
  const log::WriterOptions options_;
  State state_ = State::kNew;
  absl::Status last_error_;  // why state_ is kMustAbort or kUseless
  uint64_t sockets_at_begin_ = 0;
  bool renew_ = false;  // the producer, before the next transaction
  std::unique_ptr<Producer> producer_;
};

// log::PlainWriter on librdkafka's idempotent producer.
class KafkaPlainWriter : public log::PlainWriter {
 public:
  KafkaPlainWriter(std::shared_ptr<const ClientContext> context, AdminClient* admin)
      : context_(std::move(context)), admin_(admin), producer_(std::make_unique<Producer>(admin)) {}

  // Errors carry a Recovery as a TransactionalWriter's do: after kRecreate it writes nothing any more, because a record
  // whose fate is unknown would come before those behind it.
  absl::Status Append(std::vector<log::OutgoingRecord> records) override;
  absl::StatusOr<log::AcknowledgedOffsets> Flush() override;

 private:
  // Makes the producer, or another one if the access has changed and nothing is under way.
  absl::Status Open();
  void RememberAcknowledged();
  absl::Status Fail(TransactionCall call, const TransactionError& error);
  absl::Duration Deadline() const { return SystemClock().Monotonic() + context_->options.admin_deadline; }

  const std::shared_ptr<const ClientContext> context_;
  AdminClient* const admin_;
  absl::Status broken_;
  bool under_way_ = false;                        // appended since the last Flush that went well
  log::AcknowledgedOffsets acknowledged_before_;  // by producers before this one; empty: there were none
  std::unique_ptr<Producer> producer_;
};

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_WRITER_H_
