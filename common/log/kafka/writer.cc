#include "common/log/kafka/writer.h"

#include <cstdlib>
#include <cstring>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/kafka/properties.h"

namespace millstream::kafka {
namespace {

// Asking for metadata takes a few milliseconds a topic; a cluster that is slower than this is not waited for.
constexpr absl::Duration kWarmUp = absl::Seconds(2);

}  // namespace

// ---------------------------------------------------------------- states and errors

absl::Status KafkaTransactionalWriter::Expect(State wanted, TransactionCall call) const {
  if (state_ == wanted) return absl::OkStatus();
  const std::string of = StrCat(NameOf(call), " of ", options_.transactional_id);
  switch (state_) {
    case State::kUseless:
    case State::kMustAbort:
      return Annotate(last_error_, StrCat(of, " after an earlier error"));
    case State::kNew:
      return WithRecovery(absl::FailedPreconditionError(of + ": call Init first"), Recovery::kRecreate);
    case State::kIdle:
      return WithRecovery(absl::FailedPreconditionError(of + ": call Begin first"), Recovery::kAbort);
    case State::kOpen:
      return WithRecovery(absl::FailedPreconditionError(of + ": a transaction is open already"), Recovery::kAbort);
  }
  return absl::OkStatus();
}

absl::Status KafkaTransactionalWriter::Fail(TransactionCall call, const TransactionError& error,
                                            std::string_view about) {
  std::string context = StrCat(NameOf(call), " of ", options_.transactional_id, about);
  // librdkafka does not say which topic.
  if (error.code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED && call != TransactionCall::kSendOffsets)
    StrAppend(&context, " to one of ", producer_->TopicNames());
  absl::Status status = ToTransactionStatus(call, error, context);
  const Recovery recovery = RecoveryOf(status);
  if (recovery == Recovery::kRetry) return status;
  state_ = recovery == Recovery::kRecreate ? State::kUseless : State::kMustAbort;
  last_error_ = status;
  return status;
}

absl::Status KafkaTransactionalWriter::Fail(TransactionCall call, const rd_kafka_error_t* error,
                                            std::string_view about) {
  TransactionError described = Describe(error);
  if (described.error_class == ErrorClass::kFatal) {
    char reason[512];
    if (rd_kafka_fatal_error(producer_->get(), reason, sizeof(reason))) described.detail = reason;
  }
  if (described.error_class == ErrorClass::kTimedOut || described.error_class == ErrorClass::kRetriable) {
    described.detail += producer_->client().ConnectionTrouble();
  }
  return Fail(call, described, about);
}

// librdkafka tells a void transaction (an ACL missing for AddPartitionsToTxn, say) only to who asks for the next step,
// and goes on waiting with records that will never be sent. Beginning a transaction inside one is refused without
// effect, with the reason if there is one.
std::optional<TransactionError> KafkaTransactionalWriter::Probe() {
  const Owned<rd_kafka_error_t> error(rd_kafka_begin_transaction(producer_->get()));
  if (!error) return std::nullopt;
  TransactionError described = Describe(error.get());
  if (described.error_class != ErrorClass::kFatal && described.error_class != ErrorClass::kRequiresAbort) {
    return std::nullopt;
  }
  return described;
}

// ---------------------------------------------------------------- calls

absl::Status KafkaTransactionalWriter::Init() {
  MS_RETURN_IF_ERROR(Expect(State::kNew, TransactionCall::kInit));
  // An earlier attempt may have failed just because of the access it was made with.
  if (producer_->is_open() && producer_->client().outdated()) {
    producer_ = std::make_unique<Producer>(admin_);
    context_->CountRenewed("writer");
  }
  if (!producer_->is_open()) {
    ClientSpec spec;
    spec.what = StrCat("writer ", options_.transactional_id);
    spec.defaults = ProducerDefaults();
    spec.fixed = ProducerProperties();
    for (auto& property : TransactionProperties(context_->access->Now()->access, options_.transactional_id,
                                                options_.transaction_timeout)) {
      spec.fixed.push_back(std::move(property));
    }
    if (absl::Status opened = producer_->Open(context_, std::move(spec)); !opened.ok()) {
      state_ = State::kUseless;
      return last_error_ = WithRecovery(opened, Recovery::kRecreate);
    }
  }
  const Owned<rd_kafka_error_t> error(rd_kafka_init_transactions(producer_->get(), Millis(options_.call_deadline)));
  rd_kafka_poll(producer_->get(), 0);
  if (error) {
    if (rd_kafka_error_code(error.get()) == RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT) {
      TransactionError described = Describe(error.get());
      described.detail = WithBrokersBound(std::move(described.detail));
      return Fail(TransactionCall::kInit, described);
    }
    return Fail(TransactionCall::kInit, error.get());
  }
  producer_->WarmUp(kWarmUp);
  state_ = State::kIdle;
  return absl::OkStatus();
}

std::string KafkaTransactionalWriter::WithBrokersBound(std::string detail) const {
  const std::optional<std::string> most = admin_->BrokerSetting("transaction.max.timeout.ms");
  return StrCat(detail, "; transaction.timeout is ", absl::ToInt64Milliseconds(options_.transaction_timeout),
                " ms, the broker's transaction.max.timeout.ms is ",
                most ? *most : "not visible to us (ACL DescribeConfigs on the cluster)");
}

// librdkafka counts the records that a broker has refused: those behind them, of the next transaction, would be out of
// sequence. Another producer of the same id starts to count afresh.
absl::Status KafkaTransactionalWriter::Renew() {
  producer_ = std::make_unique<Producer>(admin_);
  state_ = State::kNew;
  const absl::Status status = Init();
  renew_ = false;
  if (status.ok()) return status;
  state_ = State::kUseless;
  return last_error_ = WithRecovery(status, Recovery::kRecreate);
}

absl::Status KafkaTransactionalWriter::Begin() {
  MS_RETURN_IF_ERROR(Expect(State::kIdle, TransactionCall::kBegin));
  // Between transactions nothing is under way that an older access would have to end.
  const bool outdated = producer_->client().outdated();
  if (renew_ || outdated) MS_RETURN_IF_ERROR(Renew());
  if (outdated) context_->CountRenewed("writer");
  producer_->Forget();
  sockets_at_begin_ = producer_->client().sockets_closed();
  const Owned<rd_kafka_error_t> error(rd_kafka_begin_transaction(producer_->get()));
  if (error) return Fail(TransactionCall::kBegin, error.get());
  state_ = State::kOpen;
  return absl::OkStatus();
}

absl::Status KafkaTransactionalWriter::Append(std::vector<log::OutgoingRecord> records) {
  MS_RETURN_IF_ERROR(Expect(State::kOpen, TransactionCall::kAppend));
  const auto error = producer_->Append(records, Deadline(), [this] { return Probe(); });
  return error ? Fail(TransactionCall::kAppend, *error) : absl::OkStatus();
}

absl::Status KafkaTransactionalWriter::FlushAll(TransactionCall call) {
  const auto error = producer_->Flush(Deadline(), [this] { return Probe(); });
  return error ? Fail(call, *error) : absl::OkStatus();
}

absl::StatusOr<log::AcknowledgedOffsets> KafkaTransactionalWriter::Flush() {
  MS_RETURN_IF_ERROR(Expect(State::kOpen, TransactionCall::kFlush));
  MS_RETURN_IF_ERROR(FlushAll(TransactionCall::kFlush));
  return producer_->Acknowledged();
}

absl::Status KafkaTransactionalWriter::SendOffsets(
    const log::GroupToken& token, absl::Span<const std::pair<TopicPartition, log::GroupOffset>> offsets) {
  MS_RETURN_IF_ERROR(Expect(State::kOpen, TransactionCall::kSendOffsets));
  // Nobody's token (record.h) comes from tools that look for members themselves; anything else that is half a token is
  // a mistake, and a broker would take its offsets without looking at the group at all (engine.md, R7).
  const bool nobody = token.generation == Generation(-1) && token.member_id.empty() && token.instance_id.empty() &&
                      !token.group.empty();
  if (!nobody && (token.generation.value() < 0 || token.member_id.empty())) {
    return Fail(TransactionCall::kSendOffsets,
                TransactionError{RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, ErrorClass::kRequiresAbort,
                                 "a token without member or generation fences nobody"});
  }
  const Owned<rd_kafka_topic_partition_list_t> list(
      rd_kafka_topic_partition_list_new(static_cast<int>(offsets.size())));
  for (const auto& [tp, offset] : offsets) {
    rd_kafka_topic_partition_t* const entry =
        rd_kafka_topic_partition_list_add(list.get(), tp.topic.c_str(), tp.partition.value());
    entry->offset = offset.next.value();
    if (offset.metadata.empty()) continue;
    entry->metadata = std::malloc(offset.metadata.size());  // librdkafka frees it
    std::memcpy(entry->metadata, offset.metadata.data(), offset.metadata.size());
    entry->metadata_size = offset.metadata.size();
  }
  const Owned<rd_kafka_consumer_group_metadata_t> membership(rd_kafka_consumer_group_metadata_new_with_genid(
      token.group.c_str(), token.generation.value(), token.member_id.c_str(),
      token.instance_id.empty() ? nullptr : token.instance_id.c_str()));
  const Owned<rd_kafka_error_t> error(rd_kafka_send_offsets_to_transaction(
      producer_->get(), list.get(), membership.get(), Millis(options_.call_deadline)));
  if (error) return Fail(TransactionCall::kSendOffsets, error.get(), StrCat(" for group ", token.group));
  return absl::OkStatus();
}

absl::Status KafkaTransactionalWriter::Commit() {
  MS_RETURN_IF_ERROR(Expect(State::kOpen, TransactionCall::kCommit));
  // The library's own flush would not notice a void transaction.
  MS_RETURN_IF_ERROR(FlushAll(TransactionCall::kFlush));
  return End(TransactionCall::kCommit);
}

absl::Status KafkaTransactionalWriter::Abort() {
  if (state_ == State::kIdle) return absl::OkStatus();
  if (state_ != State::kMustAbort) MS_RETURN_IF_ERROR(Expect(State::kOpen, TransactionCall::kAbort));
  return End(TransactionCall::kAbort);
}

absl::Status KafkaTransactionalWriter::End(TransactionCall call) {
  const absl::Duration deadline = Deadline();
  while (true) {
    const int left = Millis(deadline - SystemClock().Monotonic());
    const Owned<rd_kafka_error_t> error(call == TransactionCall::kCommit
                                            ? rd_kafka_commit_transaction(producer_->get(), left)
                                            : rd_kafka_abort_transaction(producer_->get(), left));
    if (!error) break;
    // Both calls may be repeated, and then go on where they were.
    if (Describe(error.get()).error_class == ErrorClass::kRetriable && SystemClock().Monotonic() < deadline) {
      absl::SleepFor(absl::Milliseconds(10));
      continue;
    }
    return Fail(call, error.get());
  }
  state_ = State::kIdle;
  renew_ = producer_->refused();
  if (producer_->client().sockets_closed() != sockets_at_begin_) {
    state_ = State::kUseless;
    last_error_ = WithRecovery(
        absl::UnavailableError(StrCat("a connection closed during the transaction before: ", options_.transactional_id,
                                      " starts afresh, so that no delayed request can end a later one")),
        Recovery::kRecreate);
  }
  return absl::OkStatus();
}

// ---------------------------------------------------------------- plain writer

absl::Status KafkaPlainWriter::Open() {
  MS_RETURN_IF_ERROR(broken_);
  if (producer_->is_open()) {
    if (under_way_ || !producer_->client().outdated()) return absl::OkStatus();
    RememberAcknowledged();
    producer_ = std::make_unique<Producer>(admin_);
    context_->CountRenewed("plain writer");
  }
  ClientSpec spec;
  spec.what = "plain writer";
  spec.defaults = ProducerDefaults();
  spec.fixed = ProducerProperties();
  spec.fixed.emplace_back("message.timeout.ms",
                          std::to_string(absl::ToInt64Milliseconds(context_->options.admin_deadline)));
  return producer_->Open(context_, std::move(spec));
}

absl::Status KafkaPlainWriter::Fail(TransactionCall call, const TransactionError& error) {
  const absl::Status status = ToStatus(error.code, NameOf(call), error.detail);
  producer_->ForgetFailure();
  if (error.error_class != ErrorClass::kFatal && error.error_class != ErrorClass::kTimedOut) return status;
  return broken_ = WithRecovery(status, Recovery::kRecreate);
}

absl::Status KafkaPlainWriter::Append(std::vector<log::OutgoingRecord> records) {
  MS_RETURN_IF_ERROR(Open());
  under_way_ = true;
  const auto error = producer_->Append(records, Deadline(), nullptr);
  return error ? Fail(TransactionCall::kAppend, *error) : absl::OkStatus();
}

absl::StatusOr<log::AcknowledgedOffsets> KafkaPlainWriter::Flush() {
  MS_RETURN_IF_ERROR(Open());
  if (const auto error = producer_->Flush(Deadline(), nullptr)) return Fail(TransactionCall::kFlush, *error);
  under_way_ = false;
  if (acknowledged_before_.empty()) return producer_->Acknowledged();
  RememberAcknowledged();
  return acknowledged_before_;
}

void KafkaPlainWriter::RememberAcknowledged() {
  for (const auto& [to, offset] : producer_->Acknowledged()) acknowledged_before_[to] = offset;
}

}  // namespace millstream::kafka
