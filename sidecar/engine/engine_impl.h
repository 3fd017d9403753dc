#ifndef MILLSTREAM_SIDECAR_ENGINE_ENGINE_IMPL_H_
#define MILLSTREAM_SIDECAR_ENGINE_ENGINE_IMPL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "sidecar/engine/engine.h"
#include "sidecar/engine/engine_metrics.h"
#include "sidecar/engine/expiry.h"
#include "sidecar/engine/log_throttle.h"
#include "sidecar/engine/outputs.h"
#include "sidecar/engine/pipeline.h"
#include "sidecar/engine/reads.h"
#include "sidecar/engine/result_check.h"
#include "sidecar/engine/stored_checkpoint.h"
#include "sidecar/engine/task.h"
#include "sidecar/engine/timer_queue.h"
#include "sidecar/engine/worker_table.h"

namespace millstream::engine {

// The engine: tasks, workers, reads and the pipeline put together. An event changes what it is about and marks the
// tasks it touched; then every marked task is *refreshed* (does what its state allows: apply, prepare, send, leave ...)
// and the pipeline steps, until nothing is marked. So a step costs what it touches, not what there is.
//
// The methods are grouped by file:
//   engine_impl.cc     the loop: events, refresh, timers, status       task_lifecycle.cc  open, start, stop, leave,
//   close batching.cc        cut, prepare, send, cancel batches               results.cc         what workers send back
//   hooks.cc           BEGIN, FINALIZE, COMMITTED                      external.cc        LOAD, STORE
//   failures.cc        crashed workers, failed items                    worker_reads.cc    GET and SCAN
//   due.cc             stream time, timers, ends of windows              ttl.cc             time to live
//   windowing.cc       windows and sessions of a batch                   visits.cc          walks over all rows
//   state_apply.cc     committed state to disk; changelogs; settling    queries.cc         reads from outside
class EngineImpl final : public Engine, private PipelineHost {
 public:
  EngineImpl(const EngineOptions& options, const Clock* clock, MetricsRegistry* registry);

  void Handle(Event event, std::vector<Action>* actions) override;
  std::optional<absl::Duration> NextDeadline() const override;
  EngineStatus Status() const override;

 private:
  // ---- engine_impl.cc
  void On(TokenChanged event);
  void On(RebalanceStarted event);
  void On(MembershipLost event);
  void On(SetPaused event);
  void On(const Tick&) {}
  void On(Drain event);
  void On(WriterCallDone event);
  void On(OutcomeRead event);
  void Run();
  void Refresh(Task& task);
  void Mark(Task& task);
  void Mark(TaskId id);
  void MarkAll();
  void SetTimer(Task& task);
  void Account(Task& task);
  void UpdatePressure();
  void AnswerRebalance();
  void AdvanceDrain();
  bool Urgent();
  Task* Find(TaskId id);
  void Do(Action action) { actions_->push_back(std::move(action)); }
  void NoteError(std::string message);
  void Warn(std::string_view message);
  TopicPartition PartitionOf(TaskId task, uint32_t input) const;
  std::string Describe(TaskId task, uint32_t input, Offset offset) const;
  std::string Describe(TaskId task, const Item& item) const;

  // ---- task_lifecycle.cc
  std::unique_ptr<Task> NewTask(TaskId id) const;
  void On(TaskAssigned event);
  void On(TaskRevoked event);
  void On(TaskOpened event);
  void On(TaskClosed event);
  void On(RecordsRead event);
  void On(EndOfInput event);
  void On(InputFailed event);
  void On(StateFailed event);
  void On(RestartTask event);
  void Open(Task& task);
  void CommitStart(Task& task);
  void MaybeRun(Task& task);
  void MaybeCommitEnd(Task& task);
  void StageOffsets(Task& task);
  void UpdateFetch(Task& task);
  bool HasRoom(const Task& task, uint32_t input) const;
  void BeginFetch(TaskInput& input);
  void StopFetching(Task& task);
  void Stop(Task& task, std::string error, std::optional<TaskStatus::Place> at);
  void Leave(Task& task, Task::Leaving how);
  void KeepClaimed(Task& task);
  void DropWaiting(Task& task);
  void Lose(Task& task, const absl::Status& cause);
  void AdvanceLeaving(Task& task);
  void Rewind(Task& task);

  // ---- batching.cc
  bool MayTake(const Task& task) const;
  absl::Duration IdleAt(const Task& task, uint32_t input) const;
  void Prepare(Task& task);
  bool SettleFront(Task& task);
  void Cut(Task& task, Batch* batch);
  void Claim(Task& task);
  void DropPrepared(Task& task);
  void PutBack(Task& task, std::vector<Item> items);
  void TrySend(Task& task);
  bool MaySend(const Task& task);
  void Send(Task& task, Worker& worker);
  void ServeWaiting(Worker& worker);
  void Cancel(Task& task);  // the batch in flight: its effects will not count
  bool CoversClaim(const Task& task, const Batch& batch) const;
  void CheckDeadlines(Task& task);
  Worker* AssignWorker(Task& task);
  void UnassignWorker(Task& task);
  void WorkersChanged();
  void SendFrame(WorkerId worker, std::string frame);

  // ---- results.cc
  void On(WorkerConnected event);
  void On(WorkerSent event);
  void On(WorkerWritable event);
  void On(WorkerDisconnected event);
  void OnMessage(Worker& worker, const protocol::Result& result);
  void OnMessage(Worker& worker, const protocol::Extend& extend);
  void OnMessage(Worker& worker, const protocol::Goodbye& goodbye);
  void OnMessage(Worker& worker, const protocol::Get& get);
  void OnMessage(Worker& worker, const protocol::Scan& scan);
  template <typename Other>
  void OnMessage(Worker& worker, const Other& other);  // the server's business, not for the engine
  void LateAnswer(Worker& worker, uint64_t seq);
  void Answered(Task& task, Worker& worker, uint64_t seq);
  // The task that holds batch `seq` at the worker; nullptr (and the worker is dropped, or the frame is late).
  Task* Holder(Worker& worker, uint64_t seq);
  void Settle(Task& task, Batch& batch, const protocol::Result& result);
  void Accept(Task& task, Batch& batch, const protocol::Result& result, size_t done);
  void AcceptSilent(Task& task);
  void StageOps(Task& task, const Batch& batch, const protocol::StateOps& ops, int64_t timestamp_ms,
                Transaction& transaction);
  void StageOutputs(Task& task, const std::vector<protocol::OutputRecord>& outputs);
  void ReturnItems(Task& task, Batch& batch, size_t from);

  // ---- due.cc
  void LoadClock(Task& task);
  void OnClockRead(Task& task, KeysRead event);
  bool Ahead(int64_t timestamp_ms) const;
  void StageClock(Task& task);
  // `timestamp_ms` absent: now, by the wall clock.
  void StageRow(Task& task, store::StoreIndex store, std::string_view key, std::optional<std::string_view> value,
                std::optional<int64_t> timestamp_ms = std::nullopt);
  void UpdateIdle(Task& task);
  int64_t DueNow(const Task& task, DueFeed feed) const;
  std::optional<DueFeed> DuePending(const Task& task) const;
  void LookForDue(Task& task);
  void StartLook(Task& task, DueFeed feed, std::optional<Bytes> after);
  void OnDueRead(Task& task, const DueRead& read, RangeScanned event);
  void TakeDue(Task& task, DueFeed feed, const Bytes& row, const DueRow& due);
  void StageEnd(Task& task, store::StoreIndex store, std::string_view row_key, const Bounds& bounds, int64_t now);
  void SettleDue(Task& task, const Item& item);
  void StageDone(Task& task, const Item& item);
  bool ClaimDue(Task& task, Batch& batch);
  std::optional<int64_t> PendingTime(const Task& task, const Batch& batch, const Bytes& by_name) const;
  void StageTimers(Task& task, const Batch& batch, const std::vector<protocol::TimerOp>& timers);
  bool HoldForTimers(Task& task, const protocol::Result& result, std::shared_ptr<const void> buffer);
  void OnTimersRead(Task& task, const TimersRead& read, KeysRead event);
  std::optional<absl::Duration> DueDeadline(const Task& task) const;

  // ---- ttl.cc
  Expiry ExpiryFor(const Task& task, const Batch& batch, store::StoreIndex store) const;
  Expiry ExpiryOutside(const Task& task, store::StoreIndex store) const;
  int64_t WriteTime(const Item& item, int64_t stream_time) const;
  bool SharesStep(const Batch& batch, const Item& item) const;
  void Sweep(Task& task);
  std::optional<store::StoreIndex> NextToSweep(store::StoreIndex from) const;
  void OnSweepRead(Task& task, const SweepRead& read, RangeScanned event);

  // ---- visits.cc
  bool VisitPending(const Task& task) const;
  void LookForVisits(Task& task);
  void OnVisitsRead(Task& task, const VisitsRead& read, RangeScanned event);
  void ReadVisited(Task& task, uint32_t visit, std::shared_ptr<const VisitProgress> run, std::optional<Bytes> after);
  void OnVisitedRead(Task& task, const VisitedRead& read, RangeScanned event);
  void TakeVisited(Task& task, const VisitedRead& read, std::optional<Bytes> key);
  void StageVisited(Task& task, const Item& item);
  void PassVisited(Task& task, const Item& item);
  void StageVisits(Task& task, const std::vector<protocol::VisitOp>& ops, int64_t time_ms);

  // ---- windowing.cc
  void PlanTime(Task& task, Batch& batch);
  void ReadWindows(Task& task, Batch& batch);
  void PlanSessionReads(Batch& batch);
  void ReadSessions(Task& task, Batch& batch, size_t index, std::optional<Bytes> after);
  void OnRowsRead(Task& task, const RowsRead& read, KeysRead event);
  void OnSessionsRead(Task& task, const SessionsRead& read, RangeScanned event);
  void FinishTime(Task& task, Batch& batch);
  void PlanSessions(Batch& batch);
  void SettleTime(Task& task, Batch& batch, const protocol::Result& result, size_t done);
  void Late(Task& task, const Item& item, const BatchTime::OfItem& of);
  void StageEnds(Task& task, const Batch& batch, const protocol::StateOps& ops, int64_t before);
  void StageSessions(Task& task, const Batch& batch, size_t done);

  // ---- failures.cc
  void DropFaulty(Worker& worker, std::string_view code, const std::string& message);
  void WorkerGone(Worker& worker, bool crashed, const std::string& cause);
  void Suspect(Task& task, const Batch& batch, const std::string& cause);
  void Charge(Task& task, const Item& item, protocol::Failure failure, bool retriable);
  void OverLimits(Task& task, Batch& batch, const protocol::Result& result, const absl::Status& limits);
  void Isolate(Task& task, const Batch& batch, size_t items);
  void Consume(Task& task, const Attempts::Entry& entry, Verdict verdict);

  // ---- hooks.cc
  bool MayClose(Transaction& transaction) override;
  bool HeldBack(const Task& task);
  bool NeedsBegin(Task& task, const Worker& worker);
  void SendHook(Task& task, Worker& worker, Batch::Hook hook);
  uint64_t NewHook(Task& task, Worker& worker, Batch::Hook hook);
  void OnHookResult(Task& task, Batch& batch, const protocol::Result& result);
  bool Gathered(const Worker& worker, TaskId task);
  void LoseGathered(const Worker& worker);
  void Void(Task& task);
  void TellCommitted(const Transaction& transaction, const std::vector<Outcome>& outcomes);

  // ---- external.cc
  bool MayStage(const Task& task);
  void LoadCheckpoint(Task& task);
  void WakeLoads(const Worker& worker);
  void LeaveDatabase(const Worker& worker);
  void OnMessage(Worker& worker, const protocol::Checkpoint& message);
  void OnLoaded(Task& task, const protocol::Checkpoint& message);
  void Foreign(Task& task, bool stored);
  void SendAgain(Task& task, StoredCheckpoint checkpoint);
  void SendStore(Task& task, Worker& worker, Transaction& transaction);
  void OnMessage(Worker& worker, const protocol::Stored& message);
  Task* AnsweredBy(Worker& worker, uint64_t seq, Batch::Hook hook, const char* answer);
  void OnExternalFailure(Task& task, const Batch& batch, const protocol::Failure& failure);
  void VoidDatabase(Task& task, const absl::Status& cause);
  bool LostDatabase(Task& task, const protocol::Result& result);
  int64_t KeepForCheckpoint(Task& task, const std::vector<log::OutgoingRecord>& records);

  // ---- worker_reads.cc, queries.cc
  void On(KeysRead event);
  void On(RangeScanned event);
  void On(QueryKey event);
  void On(QueryRange event);
  void OnBatchRead(Task& task, const BatchRead& read, KeysRead event);
  void OnGetRead(Task& task, GetRead read, KeysRead event);
  void OnScanRead(Task& task, const ScanRead& read, RangeScanned event);
  void SendValues(WorkerId worker, protocol::Values values);
  void KeepScratch(Task& task, const protocol::StateOps& ops);
  ReadId StartRead(Task& task, Read::Purpose purpose);
  void ReadFailed(Task& task, const absl::Status& status);

  // ---- state_apply.cc
  void On(StateApplied event);
  void CollectChangelog(const Transaction& transaction, std::vector<log::OutgoingRecord>* records) override;
  void OnSettled(const Transaction& transaction, const std::vector<Outcome>& outcomes) override;
  void OnRollback(const absl::Status& cause) override;
  void OnRecovered() override;
  const std::string& CommittedMetadata(TaskId task, uint32_t input) const override;
  TopicPartition InputPartition(TaskId task, uint32_t input) const override { return PartitionOf(task, input); }
  void Committed(Task& task, const TaskPart& part, const Transaction& transaction);
  void MaybeApply(Task& task);
  void ApplyEarly(const Transaction& transaction);

  const EngineOptions options_;
  const Clock* const clock_;
  EngineMetrics metrics_;
  const spec::StreamProcessorSpec& spec_ = options_.spec;
  const bool at_most_once_;
  const bool merges_by_time_;
  PrefetchPlan prefetch_;
  const bool has_sessions_;
  const store::StoreIndex internal_store_;  // if event time is kept
  const ExpiryRules expiry_;
  OutputRouter router_;
  Pipeline pipeline_;
  WorkerTable workers_;
  Reads reads_;
  TimerQueue timers_;
  std::map<TaskId, std::unique_ptr<Task>> tasks_;

  // Of the step under way.
  std::vector<Action>* actions_ = nullptr;
  absl::Duration now_{};
  std::shared_ptr<const void> buffer_;  // of the worker's message
  std::vector<TaskId> dirty_;

  uint64_t next_seq_, next_batch_ = 1, next_fetch_ = 1;
  ApplyId next_apply_ = 1;
  absl::flat_hash_map<ApplyId, TaskId> applies_;
  double state_bytes_per_key_ = 64;  // moving average, for cutting batches
  int consecutive_aborts_ = 0;
  absl::Status abort_cause_;  // of the last abort

  // Sums over tasks, kept up by Account.
  int busy_tasks_ = 0;
  int64_t fetched_bytes_ = 0, overlay_bytes_ = 0, lag_ = 0;
  bool fetch_pressure_ = false;    // nothing more is fetched
  bool overlay_pressure_ = false;  // nothing more is sent, everything is applied
  bool blocked_ = false;           // a batch was held back by a full transaction
  int leaving_tasks_ = 0;
  uint64_t closing_for_ = 0;  // number of the open transaction that waits for hooks before it is closed; 0: none does

  bool paused_ = false;  // nothing new is fetched or sent
  bool draining_ = false, drained_ = false, goodbye_said_ = false;
  absl::Duration drain_finish_{}, drain_end_{};  // batches in flight may take so long; everything may
  bool rebalance_owed_ = false;

  LogThrottle throttle_{10};
  EngineStatus totals_;  // the counters of Status(); tasks are filled in there
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_ENGINE_IMPL_H_
