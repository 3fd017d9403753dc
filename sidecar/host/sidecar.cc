#include "sidecar/host/sidecar.h"

#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/host/applier.h"
#include "sidecar/host/engine_loop.h"
#include "sidecar/host/fetcher.h"
#include "sidecar/host/joiner.h"
#include "sidecar/host/queries.h"
#include "sidecar/host/read_pool.h"
#include "sidecar/host/state_on_disk.h"
#include "sidecar/host/status_metrics.h"
#include "sidecar/host/table_follower.h"
#include "sidecar/host/topic_stamp.h"
#include "sidecar/host/topic_watch.h"
#include "sidecar/host/worker_port.h"
#include "sidecar/host/writer_threads.h"

namespace millstream::host {
namespace {

// How long there may be no worker before the tasks are left to others (engine.md, "Failures of the worker").
constexpr absl::Duration kWorkerPatience = absl::Seconds(30);

uint64_t RandomNumber() {
  uint64_t number = 0;
  MS_CHECK(getrandom(&number, sizeof(number), 0) == sizeof(number));
  return number;
}

engine::EngineOptions EngineOptionsOf(const SidecarOptions& options, const Clock* clock) {
  engine::EngineOptions result;
  result.spec = options.spec;
  result.output_partitions = options.topics.output_partitions;
  result.dead_letter_partitions = options.topics.dead_letter_partitions;
  result.output_max_bytes = options.topics.output_max_bytes;
  result.store_max_bytes = options.topics.store_max_bytes;
  result.output_timestamps = options.topics.output_timestamps;
  const std::vector<std::string> ids = TransactionalIdsOf(options.spec, options.instance_id);
  result.transactional_id_a = ids[0];
  result.transactional_id_b = ids[1];
  result.process_start = StrCat(clock->WallMillis(), "-", absl::Hex(RandomNumber() & 0xffffffff, absl::kZeroPad8));
  result.owner_stamp = options.spec.OwnerStamp(options.cluster);
  result.topic_stamp = TopicStampOf(options.topics);
  result.overlay_bytes = options.memory.overlays;
  result.fetched_bytes = options.memory.fetched;
  result.seed = RandomNumber();
  return result;
}

server::WorkerServerOptions ServerOptionsOf(const SidecarOptions& options) {
  server::WorkerServerOptions result;
  result.socket_path = options.socket_path;
  result.max_workers = options.spec.sidecar.workers.max;
  result.max_queued_bytes = static_cast<size_t>(options.memory.frames);
  return result;
}

WriterThreadsOptions WriterOptionsOf(const SidecarOptions& options, const engine::EngineOptions& engine_options) {
  WriterThreadsOptions result;
  result.transactional_id_a = engine_options.transactional_id_a;
  result.transactional_id_b = engine_options.transactional_id_b;
  result.transaction_timeout = options.spec.transaction.timeout;
  result.call_deadline = options.writer_call_deadline;
  result.abandon_after = options.writer_abandon_after;
  return result;
}

TaskStateOptions StateOptionsOf(const SidecarOptions& options, const engine::EngineOptions& engine_options,
                                log::Log* log, store::StateEnvironment* environment, AbandonedTransactions* abandoned,
                                const Clock* clock) {
  TaskStateOptions result;
  result.abandoned = abandoned;
  result.log = log;
  result.spec = &options.spec;
  result.topics = options.topics;
  result.state_directory = options.state_directory;
  result.environment = environment;
  result.owner_stamp = engine_options.owner_stamp;
  result.clock = clock;
  // 4 MiB, less where even one such task would not fit.
  result.restore_batch_bytes = std::clamp<int64_t>(options.memory.restore / 3, 256 << 10, 4 << 20);
  return result;
}

// Each holds what its reader has buffered, what is staged, and the batch that is being written.
int RestoreThreads(const SidecarOptions& options, const TaskStateOptions& state) {
  const int64_t fit = options.memory.restore / (3 * state.restore_batch_bytes);
  return static_cast<int>(std::clamp<int64_t>(fit, 1, options.restore_threads));
}

// Joins and lookups have a reader of their own, with a quarter of it.
int64_t FetchBufferOf(const SidecarOptions& options) {
  const bool tables = !options.spec.joins.empty() || !options.spec.lookups.empty();
  return options.memory.fetch_buffer / 4 * (tables ? 3 : 4);
}

std::vector<std::string> InputTopics(const spec::StreamProcessorSpec& spec) {
  std::vector<std::string> topics;
  for (const spec::InputSpec& input : spec.inputs) topics.push_back(input.topic);
  return topics;
}

std::unique_ptr<TableFollower> TablesOf(const SidecarOptions& options, log::Log* log,
                                        store::StateEnvironment* environment, const Clock* clock, Applier* applier,
                                        MetricsRegistry* metrics, EventSink* sink) {
  if (options.spec.joins.empty() && options.spec.lookups.empty()) return nullptr;
  TableFollowerOptions result;
  result.log = log;
  result.spec = &options.spec;
  result.topics = options.topics;
  result.directory = options.state_directory;
  result.environment = environment;
  result.buffered_bytes = options.memory.fetch_buffer / 4;
  result.clock = clock;
  return std::make_unique<TableFollower>(result, applier, metrics, sink);
}

std::string HangingMessage(const server::LostWorker& lost, absl::Duration now) {
  const std::string name = lost.name.empty() ? "" : StrCat(" ", lost.name);
  return StrCat("the worker process", name, lost.pid > 0 ? StrCat(" (pid ", lost.pid, ")") : std::string(),
                " was cut off ", absl::FormatDuration(absl::Trunc(now - lost.since, absl::Seconds(1))), " ago (",
                lost.cause, "), did not end and does not connect again: it hangs. The others go on without it; ",
                lost.pid > 0 ? StrCat("end it with kill -9 ", lost.pid) : std::string("restart its container"));
}

class SidecarImpl : public Sidecar, private ActionHandler, private group::MembershipEvents {
 public:
  SidecarImpl(SidecarOptions options, log::Log* log, store::StateEnvironment* environment,
              const MembershipFactory& membership, const Clock* clock, MetricsRegistry* metrics)
      : options_(std::move(options)),
        clock_(clock),
        engine_options_(EngineOptionsOf(options_, clock)),
        loop_(engine::Engine::Create(engine_options_, clock, metrics), clock, this),
        keys_(options_.spec.inputs, options_.topics.tasks),
        fetcher_(log, InputTopics(options_.spec), FetchBufferOf(options_), &keys_, &loop_),
        applier_({.max_unflushed_bytes = options_.memory.unflushed}, &tasks_, clock, metrics, &loop_),
        tables_(TablesOf(options_, log, environment, clock, &applier_, metrics, &loop_)),
        readers_(&tasks_, tables_.get(), options_.spec.first_lookup(), &loop_, options_.read_threads),
        writers_(WriterOptionsOf(options_, engine_options_), log, clock, &loop_),
        abandoned_(TransactionalIdsOf(options_.spec, options_.instance_id), options_.foreign_transactions,
                   [this] { return membership_->PresentTransactionalIds(); }),
        state_options_(StateOptionsOf(options_, engine_options_, log, environment, &abandoned_, clock)),
        state_(state_options_, &tasks_),
        opener_(state_options_, RestoreThreads(options_, state_options_), &tasks_, metrics, tables_.get(), &loop_),
        workers_(ServerOptionsOf(options_), &engine_options_, clock, metrics, &loop_),
        owners_(options_.members ? std::make_unique<TaskOwners>(options_.members, clock) : nullptr),
        queries_({.spec = &options_.spec,
                  .tasks = options_.topics.tasks,
                  .shared = options_.shared,
                  .loop = &loop_,
                  .table = &tasks_,
                  .opener = &opener_,
                  .readers = &readers_,
                  .workers = &workers_,
                  .conditions = [this] { return Conditions(*loop_.status()); },
                  .member = [this] { return Member(*loop_.status()); },
                  .name = options_.instance_id,
                  .clock = clock,
                  .owner = options_.owner,
                  .owners = owners_.get()}),
        membership_(membership({.positions = [this] { return state_.Positions(); },
                                .alive = [this] { return loop_.idle_for() < EngineLoop::kAlive; }},
                               this)),
        status_metrics_(metrics, options_.spec.name),
        orders_(options_.orders) {}

  ~SidecarImpl() override { StopThreads(); }

  absl::Status Start() {
    MS_RETURN_IF_ERROR(CheckGroupOwner(state_options_));
    if (tables_ != nullptr) MS_RETURN_IF_ERROR(tables_->Start());
    loop_.Start();
    MS_RETURN_IF_ERROR(workers_.Start());
    TopicWatchOptions watch;
    watch.topics = options_.topics.known;
    watch.tasks = options_.topics.tasks;
    watch.interval = options_.topic_watch_interval;
    watch_.emplace(watch, &state_options_.log->admin(), clock_,
                   [this](const absl::Status& cause) { StopTasks(cause); });
    FollowOrders();
    if (options_.topics.tasks == 0) return absl::OkStatus();  // lookups alone: there is nothing to share out
    return options_.shared ? StartJoining() : JoinAlone();
  }

  const spec::StreamProcessorSpec& spec() const override { return options_.spec; }
  server::QueryBackend* queries() override { return &queries_; }
  SidecarStatus Status() const override;
  void RestartTask(TaskId task) override { loop_.Post(engine::RestartTask{task}); }
  void SetPaused(bool paused) override { loop_.Post(engine::SetPaused{paused}); }
  void SetOrders(const std::optional<Orders>& orders, const absl::Status& problem) override {
    {
      absl::MutexLock lock(&group_mutex_);
      orders_ = orders;
      orders_problem_ = problem;
    }
    FollowOrders();
  }

  void BeginDrain(absl::Duration deadline) override {
    opener_.Cancel();
    loop_.Post(engine::Drain{deadline});
  }
  bool drained() const override {
    absl::MutexLock lock(&drained_mutex_);
    return drained_;
  }
  bool Stop(absl::Duration deadline) override {
    bool drained;
    {
      absl::MutexLock lock(&drained_mutex_);
      drained = drained_mutex_.AwaitWithTimeout(absl::Condition(&drained_), deadline);
    }
    if (joiner_.has_value()) joiner_->Stop();
    if (options_.topics.tasks > 0 && (options_.leaves || DrainOrdered())) membership_->Leave();
    StopThreads();
    return drained;
  }
  int stuck_calls() const override { return writers_.stuck(); }

 private:
  // ActionHandler, on the engine's thread.
  void CarryOut(engine::Action action) override;
  void OnTick() override { writers_.CheckDeadlines(); }

  // MembershipEvents.
  void OnToken(const log::GroupToken& token, int members) override {
    {
      absl::MutexLock lock(&group_mutex_);
      lost_ = absl::OkStatus();
      in_group_ = true;
    }
    loop_.Post(engine::TokenChanged{.token = token, .members = members});
  }
  void OnAssigned(const std::vector<TaskId>& tasks) override {
    {
      absl::MutexLock lock(&group_mutex_);
      held_.insert(tasks.begin(), tasks.end());
    }
    for (const TaskId task : tasks) loop_.Post(engine::TaskAssigned{task});
  }
  void OnRevoked(const std::vector<TaskId>& tasks) override {
    for (const TaskId task : tasks) loop_.Post(engine::TaskRevoked{task});
  }
  void OnRebalance() override { loop_.Post(engine::RebalanceStarted{}); }
  void OnLost(const absl::Status& cause) override {
    {
      absl::MutexLock lock(&group_mutex_);
      lost_ = cause;
      in_group_ = false;
    }
    loop_.Post(engine::MembershipLost{cause});
  }

  void OnProblem(const absl::Status& problem) override {
    absl::MutexLock lock(&group_mutex_);
    problem_ = problem;
  }
  void OnStopped(const absl::Status& cause) override {
    LogError("never a member of the group again", {{"group", options_.spec.group}, {"cause", cause.ToString()}});
    absl::MutexLock lock(&group_mutex_);
    ended_ = cause;
  }
  void OnDrained() override {
    {
      absl::MutexLock lock(&group_mutex_);
      in_group_ = false;
    }
    if (joiner_.has_value()) joiner_->Drained();
  }
  // When this process joins and leaves: as one of several members, or as the only one, which is there all the time.
  absl::Status StartJoining();
  absl::Status JoinAlone();
  bool DrainOrdered() const {
    absl::MutexLock lock(&group_mutex_);
    return orders_.has_value() && orders_->drain;
  }
  void FollowOrders();
  MemberState Member(const engine::EngineStatus& status) const;
  std::vector<Condition> Conditions(const engine::EngineStatus& status) const;
  void StopTasks(const absl::Status& cause);

  void ResolveOutcome(const engine::ResolveOutcome& action);
  void StopThreads();

  const SidecarOptions options_;
  const Clock* const clock_;
  const engine::EngineOptions engine_options_;
  TaskTable tasks_;
  EngineLoop loop_;
  KeyCheck keys_;
  Fetcher fetcher_;
  Applier applier_;
  const std::unique_ptr<TableFollower> tables_;  // null: the processor has no joins and no lookups
  ReadPool readers_;
  WriterThreads writers_;
  AbandonedTransactions abandoned_;
  const TaskStateOptions state_options_;
  StateOnDisk state_;
  TaskOpener opener_;
  WorkerPort workers_;
  std::unique_ptr<TaskOwners> owners_;  // none if there are no other members
  Queries queries_;
  std::unique_ptr<group::Membership> membership_;
  mutable StatusMetrics status_metrics_;  // as of the last look at the status
  std::optional<TopicWatch> watch_;
  std::optional<Joiner> joiner_;

  mutable absl::Mutex group_mutex_;
  absl::Status lost_ ABSL_GUARDED_BY(group_mutex_);     // why the membership ended; OK: a token came since
  absl::Status problem_ ABSL_GUARDED_BY(group_mutex_);  // what hinders it now
  absl::Status ended_ ABSL_GUARDED_BY(group_mutex_);    // why there never will be one again
  bool in_group_ ABSL_GUARDED_BY(group_mutex_) = false;
  std::set<TaskId> held_ ABSL_GUARDED_BY(group_mutex_);  // assigned and not released
  std::optional<Orders> orders_ ABSL_GUARDED_BY(group_mutex_);
  absl::Status orders_problem_ ABSL_GUARDED_BY(group_mutex_);

  mutable absl::Mutex drained_mutex_;
  bool drained_ ABSL_GUARDED_BY(drained_mutex_) = false;
  std::atomic<bool> stopped_{false};

  // Reads of stable offsets after an unknown outcome: rare, and they wait for transactions to end.
  absl::Mutex resolve_mutex_;
  std::vector<std::thread> resolvers_ ABSL_GUARDED_BY(resolve_mutex_);
};

void SidecarImpl::CarryOut(engine::Action action) {
  std::visit(
      [this](auto&& chosen) {
        using T = std::decay_t<decltype(chosen)>;
        if constexpr (std::is_same_v<T, engine::OpenTask>) {
          opener_.Open(chosen);
        } else if constexpr (std::is_same_v<T, engine::CloseTask>) {
          if (tables_ != nullptr) tables_->Forget(chosen.task);
          applier_.Close(chosen);
        } else if constexpr (std::is_same_v<T, engine::TaskReleased>) {
          {
            absl::MutexLock lock(&group_mutex_);
            held_.erase(chosen.task);
          }
          membership_->TaskReleased(chosen.task);
        } else if constexpr (std::is_same_v<T, engine::RebalanceReady>) {
          membership_->RebalanceReady();
        } else if constexpr (std::is_same_v<T, engine::Drained>) {
          absl::MutexLock lock(&drained_mutex_);
          drained_ = true;
        } else if constexpr (std::is_constructible_v<Fetcher::Command, T>) {
          fetcher_.Do(std::move(chosen));
        } else if constexpr (std::is_constructible_v<ReadPool::Job, T>) {
          readers_.Read(std::move(chosen));
        } else if constexpr (std::is_same_v<T, engine::ApplyState>) {
          applier_.Apply(std::move(chosen));
        } else if constexpr (std::is_same_v<T, engine::SendToWorker>) {
          workers_.Send(std::move(chosen));
        } else if constexpr (std::is_same_v<T, engine::DropWorker>) {
          workers_.Drop(chosen);
        } else if constexpr (std::is_same_v<T, engine::GoodbyeWorker>) {
          workers_.Goodbye(chosen);
        } else if constexpr (std::is_same_v<T, engine::WriterCall>) {
          writers_.Call(std::move(chosen));
        } else if constexpr (std::is_same_v<T, engine::ResolveOutcome>) {
          ResolveOutcome(chosen);
        } else {
          static_assert(std::is_same_v<T, engine::QueryAnswered>);
          queries_.Answer(std::move(chosen));
        }
      },
      std::move(action));
}

void SidecarImpl::ResolveOutcome(const engine::ResolveOutcome& action) {
  // The engine asks for one outcome at a time: at most one thread runs, the others have ended and are joined here.
  absl::MutexLock lock(&resolve_mutex_);
  for (std::thread& thread : resolvers_) thread.join();
  resolvers_.clear();
  resolvers_.emplace_back([this, action] {
    engine::OutcomeRead answer{.call = action.call, .status = absl::OkStatus(), .offsets = {}};
    auto offsets = state_options_.log->admin().StableGroupOffsets(options_.spec.group, action.partitions);
    answer.status = offsets.status();
    if (offsets.ok()) answer.offsets.assign(offsets->begin(), offsets->end());
    loop_.Post(std::move(answer));
  });
}

void SidecarImpl::StopThreads() {
  if (stopped_.exchange(true)) return;
  if (joiner_.has_value()) joiner_->Stop();
  if (watch_.has_value()) watch_->Stop();
  if (owners_ != nullptr) owners_->Stop();
  queries_.Stop();
  workers_.Stop(absl::Seconds(2));
  loop_.Stop();
  fetcher_.Stop();
  if (tables_ != nullptr) tables_->Stop();
  opener_.Stop();
  readers_.Stop();
  writers_.Stop(absl::Seconds(5));
  applier_.Stop();
  absl::MutexLock lock(&resolve_mutex_);
  for (std::thread& thread : resolvers_) thread.join();
  resolvers_.clear();
}

absl::Status SidecarImpl::StartJoining() {
  state_.Look();
  JoinerOptions options;
  options.worker_away = [this]() -> std::optional<absl::Duration> {
    if (!state_.looked()) return absl::ZeroDuration();
    if (options_.spec.is_view()) return std::nullopt;  // nobody has to be there for it
    return workers_.AloneFor();
  };
  options.patience = kWorkerPatience;
  options.before_first_join = [this] { abandoned_.EndOwn(); };
  options.drain = DrainOrdered();
  joiner_.emplace(std::move(options), membership_.get());
  joiner_->Start();
  return absl::OkStatus();
}

absl::Status SidecarImpl::JoinAlone() {
  JoinerOptions options;
  options.worker_away = [] { return std::nullopt; };  // there is nobody to leave the tasks to
  options.patience = absl::InfiniteDuration();
  options.drain = DrainOrdered();
  options.joined = !options.drain;
  if (options.joined) MS_RETURN_IF_ERROR(membership_->Join());
  joiner_.emplace(std::move(options), membership_.get());
  joiner_->Start();
  return absl::OkStatus();
}

void SidecarImpl::FollowOrders() {
  std::optional<Orders> orders;
  {
    absl::MutexLock lock(&group_mutex_);
    orders = orders_;
  }
  const bool states = orders.has_value() && orders->state.has_value();
  const spec::DesiredState state = states ? *orders->state : options_.spec.desired_state;
  SetPaused(state == spec::DesiredState::kPaused);
  if (joiner_.has_value()) joiner_->Order(orders.has_value() && orders->drain);
}

MemberState SidecarImpl::Member(const engine::EngineStatus& status) const {
  MemberState state;
  {
    absl::MutexLock lock(&group_mutex_);
    state.in_group = in_group_;
    state.held.assign(held_.begin(), held_.end());
    state.orders = orders_;
  }
  if (state.orders.has_value() && state.orders->drain) {
    const bool out = (!joiner_.has_value() || joiner_->drained()) && state.held.empty() && status.tasks.empty();
    state.drain = out ? DrainState::kDrained : DrainState::kDraining;
  }
  return state;
}

SidecarStatus SidecarImpl::Status() const {
  SidecarStatus status;
  status.view = options_.spec.is_view();
  status.engine = *loop_.status();
  status.restores = opener_.Restoring();
  status.stuck_calls = writers_.stuck();
  for (const engine::TaskStatus& task : status.engine.tasks) {
    status.running += task.state == engine::TaskStatus::State::kRunning;
    status.restoring += task.state == engine::TaskStatus::State::kOpening;
    status.stopped += task.state == engine::TaskStatus::State::kStopped;
  }
  if (const absl::Status first = workers_.FirstError(); !first.ok()) status.worker_error = std::string(first.message());
  status.hanging_workers = workers_.Hanging();
  status.conditions = Conditions(status.engine);
  status_metrics_.Update(status.running, status.restoring, status.stopped, status.conditions);
  status.drain = Member(status.engine).drain;
  status_metrics_.UpdateMember(status.engine.lag_time, status.drain == DrainState::kDrained);
  absl::MutexLock lock(&group_mutex_);
  status.ended = ended_;
  return status;
}

std::vector<Condition> SidecarImpl::Conditions(const engine::EngineStatus& status) const {
  ConditionSources sources;
  sources.engine = &status;
  sources.stuck_calls = writers_.stuck();
  sources.group = options_.spec.group;
  for (const KnownTopic& known : options_.topics.known) {
    const bool read_only = known.role == KnownTopic::Role::kInput || known.role == KnownTopic::Role::kJoin ||
                           known.role == KnownTopic::Role::kLookup;
    if (!read_only) sources.writes_to.push_back(known.topic);
  }
  {
    absl::MutexLock lock(&group_mutex_);
    sources.membership = ended_;
    sources.membership.Update(problem_);
    sources.membership.Update(lost_);
    sources.orders = orders_problem_;
  }
  if (joiner_.has_value()) sources.membership.Update(joiner_->status());
  if (!options_.spec.is_view()) sources.worker_away = workers_.AloneFor();
  sources.worker_patience = options_.spec.sidecar.workers.connect_timeout;
  sources.worker_error = std::string(workers_.FirstError().message());
  sources.socket_path = workers_.socket_path();
  std::vector<Condition> conditions = ConditionsOf(sources);
  for (const server::LostWorker& lost : workers_.Hanging())
    conditions.push_back({"WorkerHangs", HangingMessage(lost, clock_->Monotonic())});
  if (options_.secrets) {
    for (Condition& condition : options_.secrets()) conditions.push_back(std::move(condition));
  }
  for (Condition& condition : keys_.Conditions()) conditions.push_back(std::move(condition));
  if (tables_ != nullptr) {
    for (Condition& condition : tables_->Conditions()) conditions.push_back(std::move(condition));
  }
  if (watch_.has_value()) {
    for (Condition& condition : watch_->Conditions()) conditions.push_back(std::move(condition));
  }
  return conditions;
}

// As if their first input could not be read any more: nothing of them is processed until a person has looked.
void SidecarImpl::StopTasks(const absl::Status& cause) {
  if (options_.spec.is_view()) return;  // nothing is processed; the condition tells
  const std::shared_ptr<const engine::EngineStatus> status = loop_.status();
  for (const engine::TaskStatus& task : status->tasks) {
    if (task.state == engine::TaskStatus::State::kRunning)
      loop_.Post(engine::InputFailed{.task = task.task, .input = 0, .status = cause, .fetch = 0});
  }
}

}  // namespace

std::vector<std::string> TransactionalIdsOf(const spec::StreamProcessorSpec& spec, const std::string& instance_id) {
  const std::string prefix = StrCat(spec.group, "-", instance_id, "-0-");
  return {prefix + "a", prefix + "b"};
}

absl::StatusOr<std::unique_ptr<Sidecar>> Sidecar::Start(SidecarOptions options, log::Log* log,
                                                        store::StateEnvironment* environment,
                                                        const MembershipFactory& membership, const Clock* clock,
                                                        MetricsRegistry* metrics) {
  auto sidecar = std::make_unique<SidecarImpl>(std::move(options), log, environment, membership, clock, metrics);
  MS_RETURN_IF_ERROR(Annotate(sidecar->Start(), sidecar->spec().QualifiedName()));
  return sidecar;
}

}  // namespace millstream::host
