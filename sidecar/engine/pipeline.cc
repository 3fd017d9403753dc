#include "sidecar/engine/pipeline.h"

#include <algorithm>
#include <utility>

#include "common/base/log_line.h"
#include "common/base/status.h"
#include "sidecar/engine/attempts.h"

namespace millstream::engine {

Pipeline::Pipeline(const EngineOptions* options, PipelineHost* host, EngineMetrics* metrics)
    : options_(options),
      host_(host),
      metrics_(metrics),
      tags_{OffsetTags(options->owner_stamp, options->transactional_id_a, options->process_start, options->topic_stamp,
                       options->spec.external_store),
            OffsetTags(options->owner_stamp, options->transactional_id_b, options->process_start, options->topic_stamp,
                       options->spec.external_store)},
      calls_(options->spec.guarantee == spec::Guarantee::kAtLeastOnce) {}

void Pipeline::Step(absl::Duration now, const Activity& activity, std::vector<Action>* actions) {
  now_ = now;
  calls_.Step(now, actions);
  if (rebalance_started_ && !Quiet() && now >= *rebalance_started_ + options_->spec.membership.rebalance_timeout / 2) {
    Abort(now, absl::DeadlineExceededError("the transaction did not finish within half of the rebalance timeout"),
          true);
  }
  RepeatCall(now, actions);
  if (recovering_) StepRecovery(now, actions);
  if (recovering_ || open_ == nullptr) return;
  const bool in_order = closing_ == nullptr || closing_->flushed;  // R3
  if (in_order || options_->mutation == EngineOptions::Mutation::kR3) AppendWaiting(open_.get(), actions);
  const bool should_close = ShouldClose(now, activity);
  // What the host asks workers before it is closed names it by its metadata, which are fixed when it begins.
  if (should_close && !open_->begun && options_->spec.external_store) Begin(open_.get(), actions);
  held_ = should_close && !host_->MayClose(*open_);
  if (!held_ && ShouldClose(now, activity)) Close(now, actions);
}

std::optional<absl::Duration> Pipeline::NextDeadline() const {
  std::optional<absl::Duration> next = calls_.NextDeadline();
  auto wanted = [&next](absl::Duration when) { next = next ? std::min(*next, when) : when; };
  if (rebalance_started_ && !Quiet()) {
    const absl::Duration overstay = *rebalance_started_ + options_->spec.membership.rebalance_timeout / 2;
    if (overstay > now_) wanted(overstay);
  }
  if (closing_ != nullptr && closing_->retry_at) wanted(*closing_->retry_at);
  if (open_ != nullptr && closing_ == nullptr && !recovering_ && !held_ && (open_->begun || MayBegin())) {
    wanted(now_ < open_->not_before ? open_->not_before
                                    : open_->first_effect + options_->spec.transaction.max_duration);
  }
  return next;
}

// ---------------------------------------------------------------- membership

void Pipeline::SetToken(absl::Duration now, const log::GroupToken& token, int members) {
  now_ = now;
  token_ = token;
  members_ = std::max(members, 1);
  rebalance_started_.reset();
  calls_.Start();
}

void Pipeline::Expel(absl::Duration now, const absl::Status& cause) {
  token_.reset();
  rebalance_started_.reset();
  Abort(now, cause, /*closing_too=*/true);
}

void Pipeline::Abort(absl::Duration now, const absl::Status& cause, bool closing_too) {
  now_ = now;
  Rollback(closing_too && closing_ != nullptr && !closing_->commit_called, cause);
}

// ---------------------------------------------------------------- the open transaction

absl::Duration Pipeline::MinDuration() const {
  const spec::TransactionSpec& limits = options_->spec.transaction;
  const absl::Duration shared = absl::Seconds(1) * members_ / std::max(limits.max_per_second, 1);
  return std::min(std::max(limits.min_duration, shared), limits.max_duration);
}

Transaction& Pipeline::Open(absl::Duration now) {
  if (open_ == nullptr) {
    MS_CHECK(!recovering_ || options_->mutation == EngineOptions::Mutation::kR3);
    open_ = std::make_unique<Transaction>(next_number_++);
    open_->first_effect = now;
    open_->not_before = last_start_ + MinDuration();
    last_start_ = std::max(now, open_->not_before);
  }
  return *open_;
}

void Pipeline::AddOutputs(absl::Duration now, std::vector<log::OutgoingRecord> records, int64_t bytes,
                          std::vector<Action>* actions) {
  if (records.empty()) return;
  Transaction& transaction = Open(now);
  transaction.bytes += bytes;
  if (options_->spec.guarantee == spec::Guarantee::kAtLeastOnce) {
    MS_CHECK(calls_.usable(WriterName::kPlain));  // Full() holds batches back until it is, a failure cancels them
    ++transaction.plain_appends;
    calls_.Issue(WriterName::kPlain, WriterCall::What::kAppend, transaction.number, actions).records =
        std::move(records);
    return;
  }
  if (transaction.waiting.empty()) {
    transaction.waiting = std::move(records);
  } else {
    transaction.waiting.insert(transaction.waiting.end(), std::make_move_iterator(records.begin()),
                               std::make_move_iterator(records.end()));
  }
}

void Pipeline::AddRecord(absl::Duration now, log::OutgoingRecord record, int64_t bytes) {
  Transaction& transaction = Open(now);
  transaction.bytes += bytes;
  transaction.waiting.push_back(std::move(record));
}

bool Pipeline::Full() const {
  if (options_->spec.guarantee == spec::Guarantee::kAtLeastOnce && !calls_.usable(WriterName::kPlain)) return true;
  return open_ != nullptr && open_->bytes >= options_->spec.transaction.max_bytes;
}

bool Pipeline::HasPart(TaskId task) const {
  return (open_ != nullptr && open_->Has(task)) || (closing_ != nullptr && closing_->Has(task)) ||
         (doomed_ != nullptr && doomed_->Has(task));
}

bool Pipeline::MayBegin() const {
  if (!token_ || token_ == refused_token_ || rebalancing() || recovering_) return false;
  for (const WriterName writer : {WriterName::kA, WriterName::kB}) {
    if (calls_.usable(writer) && calls_.idle(writer) && (closing_ == nullptr || closing_->writer != writer))
      return true;
  }
  return false;
}

void Pipeline::Begin(Transaction* transaction, std::vector<Action>* actions) {
  // In turn, so that one may still be busy in the log with its last transaction while the other begins.
  WriterName writer = last_writer_ == WriterName::kA ? WriterName::kB : WriterName::kA;
  if (!calls_.usable(writer) || !calls_.idle(writer) || (closing_ != nullptr && closing_->writer == writer))
    writer = last_writer_;
  MS_CHECK(calls_.usable(writer) &&
           (closing_ == nullptr || closing_.get() == transaction || closing_->writer != writer));
  last_writer_ = writer;
  transaction->begun = true;
  transaction->writer = writer;
  transaction->token = *token_;
  // Nobody's token (log/record.h): no broker looks at the group then.
  if (options_->mutation == EngineOptions::Mutation::kR7) transaction->token = {token_->group, "", "", Generation(-1)};
  transaction->metadata = tags_[static_cast<size_t>(writer)].Metadata(transaction->number);
  calls_.Issue(writer, WriterCall::What::kBegin, transaction->number, actions);
}

void Pipeline::AppendWaiting(Transaction* transaction, std::vector<Action>* actions) {
  if (transaction->waiting.empty()) return;
  if (!transaction->begun) {
    if (!MayBegin()) return;
    Begin(transaction, actions);
  }
  transaction->appended = true;
  calls_.Issue(transaction->writer, WriterCall::What::kAppend, transaction->number, actions).records =
      std::exchange(transaction->waiting, {});
}

// ---------------------------------------------------------------- closing

bool Pipeline::ShouldClose(absl::Duration now, const Activity& activity) const {
  if (closing_ != nullptr || (!open_->begun && !MayBegin())) return false;
  if (activity.urgent || rebalancing() || open_->bytes >= options_->spec.transaction.max_bytes) return true;
  if (now < open_->not_before) return false;
  return activity.stalled || now >= open_->first_effect + options_->spec.transaction.max_duration;
}

void Pipeline::Close(absl::Duration now, std::vector<Action>* actions) {
  MS_CHECK(!open_->parts.empty());  // R1: a transaction without offsets would commit unfenced
  if (!open_->begun) Begin(open_.get(), actions);
  closing_ = std::move(open_);
  closing_->closed_at = closing_->phase_at = now;
  closing_->phase = Phase::kFlushing;
  host_->CollectChangelog(*closing_, &closing_->waiting);
  AppendWaiting(closing_.get(), actions);
  if (closing_->plain_appends > 0) {
    closing_->plain_flushed = false;
    calls_.Issue(WriterName::kPlain, WriterCall::What::kFlush, closing_->number, actions);
  }
  if (closing_->appended) {
    calls_.Issue(closing_->writer, WriterCall::What::kFlush, closing_->number, actions);
  } else {
    closing_->flushed = true;
  }
  AfterFlush(actions);
}

void Pipeline::AfterFlush(std::vector<Action>* actions) {
  if (closing_->phase != Phase::kFlushing || !closing_->flushed || !closing_->plain_flushed) return;
  EndPhase(metrics_->flush_seconds);
  closing_->phase = Phase::kSendingOffsets;
  SendOffsets(actions);
}

void Pipeline::EndPhase(Histogram* seconds) {
  seconds->Observe(absl::ToDoubleSeconds(now_ - closing_->phase_at));
  closing_->phase_at = now_;
}

void Pipeline::SendOffsets(std::vector<Action>* actions) {
  std::vector<std::pair<TopicPartition, log::GroupOffset>> offsets;
  for (const TaskPart& part : closing_->parts) {
    for (uint32_t input = 0; input < part.next.size(); ++input) {
      if (part.next[input] == kNoOffset) continue;
      offsets.emplace_back(host_->InputPartition(part.task, input),
                           log::GroupOffset{part.next[input], closing_->metadata});
    }
  }
  MS_CHECK(!offsets.empty());
  WriterCall& call = calls_.Issue(closing_->writer, WriterCall::What::kSendOffsets, closing_->number, actions);
  call.token = closing_->token;
  call.offsets = std::move(offsets);
}

void Pipeline::Commit(std::vector<Action>* actions) {
  closing_->phase = Phase::kCommitting;
  closing_->commit_called = true;
  calls_.Issue(closing_->writer, WriterCall::What::kCommit, closing_->number, actions);
}

// ---------------------------------------------------------------- answers

Transaction* Pipeline::Find(uint64_t number) {
  for (Transaction* transaction : {open_.get(), closing_.get(), doomed_.get()}) {
    if (transaction != nullptr && transaction->number == number) return transaction;
  }
  return nullptr;
}

void Pipeline::OnCallDone(absl::Duration now, WriterCallDone done, std::vector<Action>* actions) {
  now_ = now;
  const PendingCall call = calls_.Answered(now, done);
  if (call.what == WriterCall::What::kCreate) {
    writer_error_ = done.status;
    return;
  }
  if (done.writer == WriterName::kPlain) return OnPlainDone(done, call, actions);
  Transaction* transaction = Find(call.transaction);
  MS_CHECK(transaction != nullptr);  // none is settled while its writer owes an answer
  if (transaction->phase >= Phase::kDoomed) return OnDoomed(transaction, call.what, done.status);
  if (!done.status.ok()) return Fail(now, transaction, call.what, done.status);
  OnSound(now, transaction, call.what, std::move(done.acknowledged), actions);
}

void Pipeline::OnSound(absl::Duration now, Transaction* transaction, WriterCall::What what,
                       log::AcknowledgedOffsets acknowledged, std::vector<Action>* actions) {
  transaction->retries = 0;
  switch (what) {
    case WriterCall::What::kFlush:
      transaction->acknowledged = std::move(acknowledged);
      transaction->flushed = true;
      return AfterFlush(actions);
    case WriterCall::What::kSendOffsets:
      EndPhase(metrics_->offsets_seconds);
      return Commit(actions);
    case WriterCall::What::kCommit:
      EndPhase(metrics_->end_seconds);
      return SettleAll(now, &closing_, Outcome::kCommitted);
    default:
      return;
  }
}

void Pipeline::OnPlainDone(const WriterCallDone& done, const PendingCall& call, std::vector<Action>* actions) {
  if (!done.status.ok()) {
    const bool sent_batches = calls_.usable(WriterName::kPlain);  // none was sent since it broke
    calls_.Broken(WriterName::kPlain);
    const bool of_closing = closing_ != nullptr && closing_->number == call.transaction && !closing_->commit_called;
    return Rollback(of_closing, Annotate(done.status, "writing outputs"), sent_batches);
  }
  if (call.what != WriterCall::What::kFlush) return;
  if (closing_ == nullptr || closing_->number != call.transaction || closing_->phase != Phase::kFlushing) return;
  closing_->plain_flushed = true;
  AfterFlush(actions);
}

// ---------------------------------------------------------------- failures

void Pipeline::Fail(absl::Duration now, Transaction* transaction, WriterCall::What what, const absl::Status& status) {
  constexpr int kMostRetries = 8;  // 20 ms doubled up to 1 s: about 3.5 s, well inside the transaction timeout
  const bool repeatable =
      what == WriterCall::What::kFlush || what == WriterCall::What::kSendOffsets || what == WriterCall::What::kCommit;
  const Recovery recovery = RecoveryOf(status);
  if (recovery == Recovery::kRetry && repeatable && transaction->retries < kMostRetries) {
    transaction->retry_at = now + Backoff(absl::Milliseconds(20), absl::Seconds(1), ++transaction->retries);
    return;
  }
  const std::string text(status.message());
  if (what == WriterCall::What::kSendOffsets &&
      (text.find("ILLEGAL_GENERATION") != std::string::npos || text.find("UNKNOWN_MEMBER_ID") != std::string::npos)) {
    refused_token_ = transaction->token;
  }
  // A commit that failed without saying how may have happened.
  const bool indefinite =
      IsOutcomeUnknown(status) || (what == WriterCall::What::kCommit && recovery == Recovery::kNone);
  if (recovery == Recovery::kRecreate || indefinite) calls_.Broken(transaction->writer);
  if (indefinite) metrics_->unknown_outcomes->Add();
  Rollback(transaction == closing_.get(), status);
}

void Pipeline::RepeatCall(absl::Duration now, std::vector<Action>* actions) {
  if (closing_ == nullptr || !closing_->retry_at || *closing_->retry_at > now) return;
  closing_->retry_at.reset();
  switch (closing_->phase) {
    case Phase::kFlushing:
      calls_.Issue(closing_->writer, WriterCall::What::kFlush, closing_->number, actions);
      return;
    case Phase::kSendingOffsets:
      return SendOffsets(actions);
    case Phase::kCommitting:
      return Commit(actions);
    case Phase::kResolving:
      return Resolve(closing_.get(), actions);
    default:
      return;
  }
}

void Pipeline::Rollback(bool closing_too, const absl::Status& cause, bool batches) {
  closing_too = closing_too && closing_ != nullptr && closing_->phase < Phase::kDoomed;  // at most once each
  if (closing_too && options_->mutation == EngineOptions::Mutation::kR3) {
    Doom(closing_.get());
    recovering_ = survivor_ = true;
    return;
  }
  if (open_ == nullptr && !closing_too && !batches) return;
  if (open_ != nullptr) {
    MS_CHECK(doomed_ == nullptr);
    Doom(open_.get());
    doomed_ = std::move(open_);
  }
  if (closing_too) Doom(closing_.get());
  if (recovering_) return;
  recovering_ = true;
  LogWarning("transaction aborted", {{"cause", cause.ToString()}});
  host_->OnRollback(cause);
}

// A writer that is unusable cannot abort: what creates it again ends the transaction.
void Pipeline::Doom(Transaction* transaction) {
  transaction->phase = transaction->begun && !calls_.usable(transaction->writer) ? Phase::kRecreating : Phase::kDoomed;
  transaction->retry_at.reset();
}

void Pipeline::OnDoomed(Transaction* transaction, WriterCall::What what, const absl::Status& status) {
  if (what == WriterCall::What::kAbort && status.ok()) {
    transaction->phase = Phase::kAborted;
  } else if (!status.ok() && (what == WriterCall::What::kAbort || RecoveryOf(status) == Recovery::kRecreate)) {
    calls_.Broken(transaction->writer);
    transaction->phase = Phase::kRecreating;
  }
}

void Pipeline::StepRecovery(absl::Duration now, std::vector<Action>* actions) {
  if (doomed_ != nullptr && StepDoomed(now, doomed_.get(), actions)) SettleAll(now, &doomed_, Outcome::kAborted);
  if (closing_ != nullptr && closing_->phase >= Phase::kDoomed && StepDoomed(now, closing_.get(), actions)) {
    SettleAll(now, &closing_, Outcome::kAborted);
  }
  if (doomed_ != nullptr || closing_ != nullptr) return;
  recovering_ = false;
  if (!std::exchange(survivor_, false)) host_->OnRecovered();
}

bool Pipeline::StepDoomed(absl::Duration now, Transaction* transaction, std::vector<Action>* actions) {
  if (!transaction->begun || transaction->phase == Phase::kAborted) return true;
  if (!calls_.idle(transaction->writer)) return false;
  if (transaction->phase == Phase::kDoomed) {
    transaction->phase = Phase::kAborting;
    calls_.Issue(transaction->writer, WriterCall::What::kAbort, transaction->number, actions);
    return false;
  }
  calls_.Step(now, actions);
  if (transaction->phase != Phase::kRecreating || !calls_.usable(transaction->writer)) return false;
  // Creating the writer again ended what was in flight. Without a commit there is nothing that could have happened.
  if (!transaction->commit_called || options_->mutation == EngineOptions::Mutation::kR6) return true;
  transaction->phase = Phase::kResolving;
  transaction->retries = 0;
  Resolve(transaction, actions);
  return false;
}

void Pipeline::Resolve(Transaction* transaction, std::vector<Action>* actions) {
  ResolveOutcome ask;
  ask.call = resolve_call_ = calls_.NextId();
  for (const TaskPart& part : transaction->parts) {
    for (uint32_t input = 0; input < part.next.size(); ++input) {
      if (part.next[input] != kNoOffset) ask.partitions.push_back(host_->InputPartition(part.task, input));
    }
  }
  actions->push_back(std::move(ask));
}

void Pipeline::OnOutcome(absl::Duration now, OutcomeRead outcome, std::vector<Action>* /*actions*/) {
  now_ = now;
  if (outcome.call != resolve_call_ || closing_ == nullptr || closing_->phase != Phase::kResolving) return;
  if (!outcome.status.ok()) {
    closing_->retry_at = now + Backoff(absl::Milliseconds(100), absl::Seconds(5), ++closing_->retries);
    LogWarning("reading the outcome of a transaction failed; trying again", {{"error", outcome.status.ToString()}});
    return;
  }
  Settle(now, &closing_, Decide(*closing_, outcome));
}

std::vector<Outcome> Pipeline::Decide(const Transaction& transaction, const OutcomeRead& read) const {
  absl::flat_hash_map<TopicPartition, std::string_view> metadata;
  for (const auto& [partition, offset] : read.offsets) metadata[partition] = offset.metadata;
  std::vector<Outcome> outcomes;
  for (const TaskPart& part : transaction.parts) {
    bool ours = false, earlier = false, foreign = false;
    for (uint32_t input = 0; input < part.next.size(); ++input) {
      if (part.next[input] == kNoOffset) continue;
      auto found = metadata.find(host_->InputPartition(part.task, input));
      const std::string_view tag = found == metadata.end() ? std::string_view() : found->second;
      if (tag == transaction.metadata) {
        ours = true;
      } else if (tag == host_->CommittedMetadata(part.task, input)) {
        earlier = true;
      } else {
        foreign = true;
      }
    }
    outcomes.push_back(foreign || (ours && earlier) ? Outcome::kLost : ours ? Outcome::kCommitted : Outcome::kAborted);
  }
  return outcomes;
}

void Pipeline::SettleAll(absl::Duration now, std::unique_ptr<Transaction>* transaction, Outcome outcome) {
  Settle(now, transaction, std::vector<Outcome>((*transaction)->parts.size(), outcome));
}

void Pipeline::Settle(absl::Duration now, std::unique_ptr<Transaction>* transaction,
                      const std::vector<Outcome>& outcomes) {
  const std::unique_ptr<Transaction> settled = std::move(*transaction);
  const bool committed = std::find(outcomes.begin(), outcomes.end(), Outcome::kCommitted) != outcomes.end();
  (committed ? metrics_->transactions : metrics_->aborts)->Add();
  if (committed) metrics_->commit_seconds->Observe(absl::ToDoubleSeconds(now - settled->closed_at));
  host_->OnSettled(*settled, outcomes);
}

}  // namespace millstream::engine
