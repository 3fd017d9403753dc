#include "common/log/testing/faulty_log.h"

#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/testing/fault_script.h"
#include "common/log/testing/faulty_reader.h"

namespace millstream::log {
namespace {

using Script = FaultyLog::Script;

class FaultyTransactionalWriter : public TransactionalWriter {
 public:
  FaultyTransactionalWriter(std::unique_ptr<TransactionalWriter> under, std::string id, std::shared_ptr<Script> script)
      : under_(std::move(under)), id_(std::move(id)), script_(std::move(script)) {}

  absl::Status Init() override {
    // What is still under way arrives first, or is fenced: here it arrives. Tests choose the other with NeverHappen.
    static_cast<void>(script_->HappenNow(id_));
    return Run(Call::kInit, [writer = under_] { return writer->Init(); });
  }
  absl::Status Begin() override {
    return Run(Call::kBegin, [writer = under_] { return writer->Begin(); });
  }
  absl::Status Append(std::vector<OutgoingRecord> records) override {
    const auto shared = std::make_shared<std::vector<OutgoingRecord>>(std::move(records));
    return Run(Call::kAppend, [writer = under_, shared] { return writer->Append(std::move(*shared)); });
  }
  absl::StatusOr<AcknowledgedOffsets> Flush() override {
    MS_RETURN_IF_ERROR(last_error_);
    const Fault fault = script_->Arrive(Call::kFlush, id_);
    if (fault.status.ok() || fault.when == Fault::When::kAfter) {
      auto flushed = under_->Flush();
      if (fault.status.ok()) return flushed;
    }
    return Note(fault.status);
  }
  absl::Status SendOffsets(const GroupToken& token,
                           absl::Span<const std::pair<TopicPartition, GroupOffset>> offsets) override {
    std::vector<std::pair<TopicPartition, GroupOffset>> copy(offsets.begin(), offsets.end());
    return Run(Call::kSendOffsets,
               [writer = under_, token, copy = std::move(copy)] { return writer->SendOffsets(token, copy); });
  }
  absl::Status Commit() override {
    return Run(Call::kCommit, [writer = under_] { return writer->Commit(); });
  }
  absl::Status Abort() override {
    if (RecoveryOf(last_error_) == Recovery::kAbort) last_error_ = absl::OkStatus();
    return Run(Call::kAbort, [writer = under_] { return writer->Abort(); });
  }

 private:
  absl::Status Note(absl::Status status) {
    const Recovery recovery = RecoveryOf(status);
    if (recovery == Recovery::kAbort || recovery == Recovery::kRecreate) last_error_ = status;
    return status;
  }

  template <typename Function>
  absl::Status Run(Call call, Function function) {
    MS_RETURN_IF_ERROR(last_error_);
    const Fault fault = script_->Arrive(call, id_);
    if (fault.status.ok()) return function();
    if (fault.when == Fault::When::kAfter) static_cast<void>(function());
    if (fault.when == Fault::When::kLater) script_->Later(id_, function);
    return Note(fault.status);
  }

  const std::shared_ptr<TransactionalWriter> under_;  // shared with calls that happen later
  const std::string id_;
  const std::shared_ptr<Script> script_;
  absl::Status last_error_;  // of a fault, as long as it stands
};

class FaultyPlainWriter : public PlainWriter {
 public:
  FaultyPlainWriter(std::unique_ptr<PlainWriter> under, std::shared_ptr<Script> script)
      : under_(std::move(under)), script_(std::move(script)) {}

  absl::Status Append(std::vector<OutgoingRecord> records) override {
    return Strike(*script_, Call::kPlainAppend, "", [&] { return under_->Append(std::move(records)); });
  }
  absl::StatusOr<AcknowledgedOffsets> Flush() override {
    return Strike(*script_, Call::kPlainFlush, "", [&] { return under_->Flush(); });
  }

 private:
  const std::unique_ptr<PlainWriter> under_;
  const std::shared_ptr<Script> script_;
};

class FaultyAdmin : public Admin {
 public:
  FaultyAdmin(Admin* under, std::shared_ptr<Script> script) : under_(under), script_(std::move(script)) {}

  absl::StatusOr<std::vector<TopicInfo>> ListTopics() override {
    return Strike(*script_, Call::kListTopics, "", [&] { return under_->ListTopics(); });
  }
  absl::StatusOr<TopicInfo> DescribeTopic(const std::string& topic) override {
    return Strike(*script_, Call::kDescribeTopic, topic, [&] { return under_->DescribeTopic(topic); });
  }
  absl::Status CreateTopic(const TopicSpec& spec) override {
    return Strike(*script_, Call::kCreateTopic, spec.name, [&] { return under_->CreateTopic(spec); });
  }
  absl::Status DeleteTopic(const std::string& topic) override {
    return Strike(*script_, Call::kDeleteTopic, topic, [&] { return under_->DeleteTopic(topic); });
  }
  absl::StatusOr<Offset> StartOffset(const TopicPartition& of) override {
    return Strike(*script_, Call::kStartOffset, of.topic, [&] { return under_->StartOffset(of); });
  }
  absl::StatusOr<Offset> EndOffset(const TopicPartition& of, Isolation isolation) override {
    return Strike(*script_, Call::kEndOffset, of.topic, [&] { return under_->EndOffset(of, isolation); });
  }
  absl::StatusOr<Offset> OffsetForTime(const TopicPartition& of, int64_t timestamp_ms) override {
    return Strike(*script_, Call::kOffsetForTime, of.topic, [&] { return under_->OffsetForTime(of, timestamp_ms); });
  }
  absl::StatusOr<std::map<TopicPartition, GroupOffset>> StableGroupOffsets(
      const std::string& group, absl::Span<const TopicPartition> partitions) override {
    return Strike(*script_, Call::kStableGroupOffsets, group,
                  [&] { return under_->StableGroupOffsets(group, partitions); });
  }
  absl::Status SetGroupOffsets(const std::string& group,
                               absl::Span<const std::pair<TopicPartition, GroupOffset>> offsets) override {
    return Strike(*script_, Call::kSetGroupOffsets, group, [&] { return under_->SetGroupOffsets(group, offsets); });
  }
  absl::StatusOr<std::vector<GroupInfo>> ListGroups() override {
    return Strike(*script_, Call::kListGroups, "", [&] { return under_->ListGroups(); });
  }
  absl::Status DeleteGroup(const std::string& group) override {
    return Strike(*script_, Call::kDeleteGroup, group, [&] { return under_->DeleteGroup(group); });
  }

 private:
  Admin* const under_;
  const std::shared_ptr<Script> script_;
};

}  // namespace

absl::Status OutcomeUnknown(const std::string& what) { return WithUnknownOutcome(absl::DeadlineExceededError(what)); }
absl::Status Fenced(const std::string& what) {
  return WithRecovery(absl::FailedPreconditionError(what), Recovery::kRecreate);
}
absl::Status MustAbort(const std::string& what) { return WithRecovery(absl::AbortedError(what), Recovery::kAbort); }
absl::Status IllegalGeneration() {
  return WithRecovery(absl::FailedPreconditionError("ILLEGAL_GENERATION: injected"), Recovery::kAbort);
}
absl::Status MayRetry(const std::string& what) { return WithRecovery(absl::UnavailableError(what), Recovery::kRetry); }

FaultyLog::FaultyLog(Log* under)
    : under_(under),
      script_(std::make_shared<Script>()),
      admin_(std::make_unique<FaultyAdmin>(&under->admin(), script_)) {}
FaultyLog::~FaultyLog() { script_->ReleaseAll(); }

int FaultyLog::Inject(Fault fault) { return script_->Inject(std::move(fault)); }
void FaultyLog::Remove(int fault) { script_->Remove(fault); }
void FaultyLog::Release(int fault) { script_->Release(fault); }
int FaultyLog::Strikes(int fault) const { return script_->Strikes(fault); }
bool FaultyLog::WaitUntilHeld(int fault, absl::Duration patience) const {
  return script_->WaitUntilHeld(fault, patience);
}
absl::Status FaultyLog::HappenNow(const std::string& transactional_id) { return script_->HappenNow(transactional_id); }
void FaultyLog::NeverHappen(const std::string& transactional_id) { script_->NeverHappen(transactional_id); }
void FaultyLog::FailPartition(const TopicPartition& partition, absl::Status status) {
  script_->FailPartition(partition, status);
}

std::unique_ptr<Reader> FaultyLog::NewReader(const ReaderOptions& options) {
  return std::make_unique<FaultyReader>(under_->NewReader(options), script_);
}
std::unique_ptr<TransactionalWriter> FaultyLog::NewTransactionalWriter(const WriterOptions& options) {
  return std::make_unique<FaultyTransactionalWriter>(under_->NewTransactionalWriter(options), options.transactional_id,
                                                     script_);
}
std::unique_ptr<PlainWriter> FaultyLog::NewPlainWriter() {
  return std::make_unique<FaultyPlainWriter>(under_->NewPlainWriter(), script_);
}
Admin& FaultyLog::admin() { return *admin_; }

}  // namespace millstream::log
