#include "common/log/embedded/writer.h"

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::log::embedded {

absl::Status EmbeddedTransactionalWriter::Expect(State wanted, std::string_view call) const {
  if (state_ == wanted) return absl::OkStatus();
  const std::string of = StrCat(call, " of ", options_.transactional_id);
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

absl::Status EmbeddedTransactionalWriter::Note(absl::Status status, std::string_view call) {
  if (status.ok()) return status;
  status = Annotate(status, StrCat(call, " of ", options_.transactional_id));
  const Recovery recovery = RecoveryOf(status);
  if (recovery == Recovery::kRetry) return status;
  state_ = recovery == Recovery::kRecreate ? State::kUseless : State::kMustAbort;
  last_error_ = status;
  return status;
}

absl::Status EmbeddedTransactionalWriter::Init() {
  if (state_ != State::kNew) {
    return WithRecovery(absl::FailedPreconditionError(StrCat("init of ", options_.transactional_id, " a second time")),
                        Recovery::kRecreate);
  }
  auto handle = InitProducer(*core_, options_.transactional_id, options_.transaction_timeout, options_.call_deadline);
  if (!handle.ok()) return Note(handle.status(), "init");
  handle_ = *std::move(handle);
  state_ = State::kIdle;
  return absl::OkStatus();
}

absl::Status EmbeddedTransactionalWriter::Begin() {
  MS_RETURN_IF_ERROR(Expect(State::kIdle, "begin"));
  acknowledged_.clear();
  state_ = State::kOpen;
  return absl::OkStatus();
}

absl::Status EmbeddedTransactionalWriter::Append(std::vector<OutgoingRecord> records) {
  MS_RETURN_IF_ERROR(Expect(State::kOpen, "append"));
  if (absl::Status status = sorter_.Sort(records); !status.ok()) {
    return Note(WithRecovery(status, Recovery::kAbort), "append");
  }
  MS_RETURN_IF_ERROR(Note(AppendInTransaction(*core_, handle_, sorter_.batches()), "append"));
  NoteAcknowledged(sorter_.batches(), &acknowledged_);
  return absl::OkStatus();
}

absl::StatusOr<AcknowledgedOffsets> EmbeddedTransactionalWriter::Flush() {
  MS_RETURN_IF_ERROR(Expect(State::kOpen, "flush"));
  return acknowledged_;
}

absl::Status EmbeddedTransactionalWriter::SendOffsets(
    const GroupToken& token, absl::Span<const std::pair<TopicPartition, GroupOffset>> offsets) {
  MS_RETURN_IF_ERROR(Expect(State::kOpen, "send offsets"));
  return Note(embedded::SendOffsets(*core_, handle_, token, offsets), "send offsets");
}

absl::Status EmbeddedTransactionalWriter::End(bool commit, std::string_view call) {
  MS_RETURN_IF_ERROR(Note(EndTransaction(*core_, handle_, commit), call));
  state_ = State::kIdle;
  return absl::OkStatus();
}

absl::Status EmbeddedTransactionalWriter::Commit() {
  MS_RETURN_IF_ERROR(Expect(State::kOpen, "commit"));
  return End(/*commit=*/true, "commit");
}

absl::Status EmbeddedTransactionalWriter::Abort() {
  if (state_ == State::kIdle) return absl::OkStatus();
  if (state_ != State::kMustAbort) MS_RETURN_IF_ERROR(Expect(State::kOpen, "abort"));
  return End(/*commit=*/false, "abort");
}

absl::Status EmbeddedPlainWriter::Append(std::vector<OutgoingRecord> records) {
  MS_RETURN_IF_ERROR(sorter_.Sort(records));
  MS_RETURN_IF_ERROR(AppendPlain(*core_, sorter_.batches()));
  NoteAcknowledged(sorter_.batches(), &acknowledged_);
  return absl::OkStatus();
}

absl::StatusOr<AcknowledgedOffsets> EmbeddedPlainWriter::Flush() {
  MS_RETURN_IF_ERROR(core_->storage->Sync());
  return acknowledged_;
}

}  // namespace millstream::log::embedded
