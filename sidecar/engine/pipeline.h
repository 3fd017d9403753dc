#ifndef MILLSTREAM_SIDECAR_ENGINE_PIPELINE_H_
#define MILLSTREAM_SIDECAR_ENGINE_PIPELINE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "sidecar/engine/engine.h"
#include "sidecar/engine/engine_metrics.h"
#include "sidecar/engine/io.h"
#include "sidecar/engine/transaction.h"
#include "sidecar/engine/writer_calls.h"

namespace millstream::engine {

// What the pipeline asks of and tells to the engine around it. Called from inside its methods.
class PipelineHost {
 public:
  virtual ~PipelineHost() = default;
  // The changelog records of the state staged under the transaction: one per store, key (R2).
  virtual void CollectChangelog(const Transaction& transaction, std::vector<log::OutgoingRecord>* records) = 0;
  // Whether the open transaction may be closed now; false: workers have to be asked first, ask again.
  virtual bool MayClose(Transaction& transaction) = 0;
  // The outcome is known, per part.
  virtual void OnSettled(const Transaction& transaction, const std::vector<Outcome>& outcomes) = 0;
  // The open transaction, and perhaps the closing one, will not commit: nothing that was read or done since counts
  // (R9). OnSettled comes for each of them, then OnRecovered.
  virtual void OnRollback(const absl::Status& cause) = 0;
  // Every outcome is known and the writers are usable again: go on from the committed positions.
  virtual void OnRecovered() = 0;
  // Metadata last known to be committed for an input of a task: by us, or read at open.
  virtual const std::string& CommittedMetadata(TaskId task, uint32_t input) const = 0;
  virtual TopicPartition InputPartition(TaskId task, uint32_t input) const = 0;
};

// The transactions of the process, pipelined over two writers (engine.md, R1-R7): at most one is *open* and collects
// effects while at most one, older, is *closing*. Everything it does is an action; the log's answers come back as
// OnCallDone and OnOutcome.
//
// An error of either starts a *recovery*: the open transaction is doomed, the closing one too unless it alone is sound;
// each is aborted, or its writer re-created and its outcome looked up; then OnRecovered.
class Pipeline {
 public:
  Pipeline(const EngineOptions* options, PipelineHost* host, EngineMetrics* metrics);

  // What the engine is about, for deciding when to close (R5).
  struct Activity {
    bool stalled = false;  // no batch in flight and none to send
    bool urgent = false;   // a task with effects in it is to be given up, or the process stops
  };
  // Does what can be done now. Call after every event.
  void Step(absl::Duration now, const Activity& activity, std::vector<Action>* actions);
  // When Step is wanted next, if nothing happens before.
  std::optional<absl::Duration> NextDeadline() const;

  void SetToken(absl::Duration now, const log::GroupToken& token, int members);
  void StartRebalance(absl::Duration now) { rebalance_started_ = now; }
  bool rebalancing() const { return rebalance_started_.has_value(); }
  // Nothing is begun: the answer to a rebalance may be given.
  bool Quiet() const { return closing_ == nullptr && !recovering_ && (open_ == nullptr || !open_->begun); }
  // This member is not one any more: whatever is not committing yet is aborted.
  void Expel(absl::Duration now, const absl::Status& cause);
  // Gives up the open transaction (and the closing one unless it commits already).
  void Abort(absl::Duration now, const absl::Status& cause, bool closing_too);

  // The transaction that effects join now. Precondition: not recovering.
  Transaction& Open(absl::Duration now);
  // 0, nullptr: there is none.
  uint64_t open_number() const { return open_ == nullptr ? 0 : open_->number; }
  TaskPart* OpenPart(TaskId task) { return open_ == nullptr ? nullptr : open_->FindPart(task); }
  // Outputs join the open transaction (AtLeastOnce: leave at once beside it).
  void AddOutputs(absl::Duration now, std::vector<log::OutgoingRecord> records, int64_t bytes,
                  std::vector<Action>* actions);
  // Records that belong into the transaction under every guarantee (dead letters).
  void AddRecord(absl::Duration now, log::OutgoingRecord record, int64_t bytes);

  bool recovering() const { return recovering_; }
  bool commits_wait() const { return calls_.BothUnusable(); }
  // Of the last attempt to make a writer; OK when it succeeded.
  const absl::Status& writer_error() const { return writer_error_; }
  // The open transaction has reached its bound: no further batch may be sent before it closes.
  bool Full() const;
  // `task` has effects whose outcome is not known.
  bool HasPart(TaskId task) const;
  bool HasOpenPart(TaskId task) const { return open_ != nullptr && open_->Has(task); }
  // It has, and the transaction cannot even begin before the group is joined again.
  bool HasStuckPart(TaskId task) const { return HasOpenPart(task) && !open_->begun && rebalancing(); }
  bool empty() const { return open_ == nullptr && closing_ == nullptr && doomed_ == nullptr; }

  void OnCallDone(absl::Duration now, WriterCallDone done, std::vector<Action>* actions);
  void OnOutcome(absl::Duration now, OutcomeRead outcome, std::vector<Action>* actions);

 private:
  using Phase = Transaction::Phase;

  bool MayBegin() const;
  void Begin(Transaction* transaction, std::vector<Action>* actions);
  void AppendWaiting(Transaction* transaction, std::vector<Action>* actions);
  bool ShouldClose(absl::Duration now, const Activity& activity) const;
  absl::Duration MinDuration() const;
  void Close(absl::Duration now, std::vector<Action>* actions);
  void AfterFlush(std::vector<Action>* actions);
  void EndPhase(Histogram* seconds);
  void SendOffsets(std::vector<Action>* actions);
  void Commit(std::vector<Action>* actions);

  void OnSound(absl::Duration now, Transaction* transaction, WriterCall::What what,
               log::AcknowledgedOffsets acknowledged, std::vector<Action>* actions);
  void Doom(Transaction* transaction);
  void OnDoomed(Transaction* transaction, WriterCall::What what, const absl::Status& status);
  void OnPlainDone(const WriterCallDone& done, const PendingCall& call, std::vector<Action>* actions);
  void Fail(absl::Duration now, Transaction* transaction, WriterCall::What what, const absl::Status& status);
  // Of what is open, and of what is closing. `batches`: of those that are out too, where nothing is open.
  void Rollback(bool closing_too, const absl::Status& cause, bool batches = false);
  void RepeatCall(absl::Duration now, std::vector<Action>* actions);
  void StepRecovery(absl::Duration now, std::vector<Action>* actions);
  // False while it is not settled.
  bool StepDoomed(absl::Duration now, Transaction* transaction, std::vector<Action>* actions);
  void Resolve(Transaction* transaction, std::vector<Action>* actions);
  std::vector<Outcome> Decide(const Transaction& transaction, const OutcomeRead& read) const;
  void Settle(absl::Duration now, std::unique_ptr<Transaction>* transaction, const std::vector<Outcome>& outcomes);
  void SettleAll(absl::Duration now, std::unique_ptr<Transaction>* transaction, Outcome outcome);
  Transaction* Find(uint64_t number);

  const EngineOptions* options_;
  PipelineHost* host_;
  EngineMetrics* metrics_;
  std::array<OffsetTags, 2> tags_;
  WriterCalls calls_;

  std::unique_ptr<Transaction> open_, closing_;
  std::unique_ptr<Transaction> doomed_;  // was open, is being aborted
  uint64_t next_number_ = 1;
  WriterName last_writer_ = WriterName::kB;
  absl::Duration last_start_ = -absl::InfiniteDuration();
  bool recovering_ = false;
  bool held_ = false;      // the open transaction should be closed, and waits for the host
  bool survivor_ = false;  // Mutation::kR3: the open transaction outlives the abort of the closing one
  absl::Duration now_{};   // of the last Step

  std::optional<log::GroupToken> token_;
  std::optional<log::GroupToken> refused_token_;  // the log said so: begin nothing with it
  int members_ = 1;
  std::optional<absl::Duration> rebalance_started_;
  CallId resolve_call_ = 0;
  absl::Status writer_error_;
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_PIPELINE_H_
