#include "sidecar/group/kafka_membership.h"

#include <sys/random.h>

#include <algorithm>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/group/call_lane.h"
#include "sidecar/group/group_metrics.h"
#include "sidecar/group/member.h"

namespace millstream::group {
namespace {

// Above what Member itself takes for leaving.
constexpr absl::Duration kLongestLeave = absl::Seconds(6);
constexpr size_t kLongestName = 249;  // topics, and well under what the protocol's strings carry

uint64_t RandomSeed() {
  uint64_t seed = 0;
  MS_CHECK(getrandom(&seed, sizeof(seed), 0) == sizeof(seed));
  return seed;
}

absl::Status CheckName(const std::string& name, std::string_view what) {
  if (name.size() <= kLongestName) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat(what, " has ", name.size(), " bytes; ", kLongestName, " are allowed"));
}

absl::Status Check(const KafkaMembershipOptions& options, const kafka::ClusterAccess& access) {
  MS_RETURN_IF_ERROR(ParseBootstrapServers(access.bootstrap_servers).status());
  if (options.group.empty()) return absl::InvalidArgumentError("the group has no name");
  if (options.topics.empty() || options.tasks < 1) return absl::InvalidArgumentError("no input, or one without tasks");
  MS_RETURN_IF_ERROR(CheckName(options.group, "the group's name"));
  MS_RETURN_IF_ERROR(CheckName(options.instance_id, "the instance id"));
  MS_RETURN_IF_ERROR(CheckName(options.client_id, "the client id"));
  MS_RETURN_IF_ERROR(CheckName(options.host, "the host"));
  for (const std::string& topic : options.topics) MS_RETURN_IF_ERROR(CheckName(topic, "a topic's name"));
  for (const std::string& id : options.transactional_ids) MS_RETURN_IF_ERROR(CheckName(id, "a transactional id"));
  if (options.heartbeat_interval <= absl::ZeroDuration() || options.heartbeat_interval * 3 > options.session_timeout) {
    return absl::InvalidArgumentError(StrCat("membership.heartbeatInterval (",
                                             absl::FormatDuration(options.heartbeat_interval),
                                             ") must be at most a third of membership.sessionTimeout (",
                                             absl::FormatDuration(options.session_timeout), ")"));
  }
  return absl::OkStatus();
}

MemberOptions MemberOptionsOf(const KafkaMembershipOptions& options) {
  MemberOptions result;
  result.group = options.group;
  result.instance_id = options.instance_id;
  result.topics = options.topics;
  result.data.host = options.host;
  result.data.tasks = options.tasks;
  result.data.manual = options.manual;
  if (result.data.manual) std::sort(result.data.manual->begin(), result.data.manual->end());
  result.data.transactional_ids = options.transactional_ids;
  std::sort(result.data.transactional_ids.begin(), result.data.transactional_ids.end());
  result.session_timeout = options.session_timeout;
  result.heartbeat_interval = options.heartbeat_interval;
  result.rebalance_timeout = options.rebalance_timeout;
  result.seed = RandomSeed();
  result.positions = options.process.positions;
  result.alive = options.process.alive;
  return result;
}

// Drives a Member: a mailbox of events, one thread that steps, two lanes that make the calls.
class KafkaMembership : public Membership {
 public:
  KafkaMembership(KafkaMembershipOptions options, MembershipEvents* events)
      : options_(std::move(options)),
        access_(options_.live_access ? options_.live_access : std::make_shared<kafka::LiveAccess>(options_.access)),
        usable_(Check(options_, access_->Now()->access)),
        events_(events),
        metrics_(options_.metrics, options_.group),
        member_(MemberOptionsOf(options_)),
        control_(
            NewClient(), options_.transaction_timeout, [this](MemberEvent e) { Post(std::move(e)); }, nullptr),
        heartbeat_(
            NewClient(), options_.transaction_timeout, [this](MemberEvent e) { Post(std::move(e)); },
            metrics_.heartbeat_seconds()),
        thread_([this] { Run(); }) {}

  ~KafkaMembership() override {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    thread_.join();
  }

  absl::Status Join() override {
    MS_RETURN_IF_ERROR(usable_);
    {
      absl::MutexLock lock(&mutex_);
      out_ = false;
    }
    Post(JoinOrdered{});
    return absl::OkStatus();
  }
  void TaskReleased(TaskId task) override { Post(ReleaseReported{task}); }
  void RebalanceReady() override { Post(ReadyReported{}); }
  void Drain() override { Post(DrainOrdered{}); }

  void Leave() override {
    Post(LeaveOrdered{});
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(absl::Condition(&out_), kLongestLeave)) {
      LogWarning("the group could not be told about the leaving in time", {{"group", options_.group}});
    }
  }

  std::optional<std::vector<std::string>> PresentTransactionalIds() const override {
    absl::MutexLock lock(&mutex_);
    if (roster_.empty()) return std::nullopt;
    return roster_.transactional_ids;
  }

 private:
  ClusterClient NewClient() { return {access_, options_.client_id}; }

  void Post(MemberEvent event) {
    absl::MutexLock lock(&mutex_);
    mailbox_.push_back(std::move(event));
  }

  bool Due() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !mailbox_.empty(); }

  void Run() {
    while (true) {
      std::vector<MemberEvent> events;
      {
        absl::MutexLock lock(&mutex_);
        const absl::Duration wait = member_.NextDeadline().value_or(absl::InfiniteDuration());
        mutex_.AwaitWithTimeout(absl::Condition(this, &KafkaMembership::Due),
                                std::max(wait - options_.clock->Monotonic(), absl::ZeroDuration()));
        if (stopping_) return;
        events.swap(mailbox_);
      }
      if (events.empty()) events.push_back(TimePassed{});
      for (MemberEvent& event : events) Step(std::move(event));
    }
  }

  void Step(MemberEvent event) {
    std::vector<MemberAction> actions;
    member_.Step(options_.clock->Monotonic(), std::move(event), &actions);
    {
      absl::MutexLock lock(&mutex_);
      roster_ = member_.roster();
    }
    for (MemberAction& action : actions) std::visit([this](auto& chosen) { CarryOut(chosen); }, action);
  }

  void CarryOut(CallBroker& action) { (action.lane == Lane::kHeartbeat ? heartbeat_ : control_).Do(std::move(action)); }
  void CarryOut(EndVanished& action) {
    LogInfo("ending the transactions of vanished members",
            {{"group", options_.group}, {"transactional_ids", action.transactional_ids.size()}});
    metrics_.OnVanished(action.transactional_ids.size());
    control_.Do(std::move(action));
  }
  void CarryOut(const GiveUpControlCall&) { control_.GiveUp(); }

  void CarryOut(const TellToken& action) {
    LogInfo("member of the group", {{"group", options_.group},
                                    {"generation", action.token.generation.value()},
                                    {"member_id", action.token.member_id},
                                    {"members", action.members},
                                    {"leads", member_.leads()}});
    metrics_.OnGeneration(action.token.generation, action.members);
    events_->OnToken(action.token, action.members);
  }
  void CarryOut(const TellAssigned& action) {
    metrics_.OnAssigned(action.tasks.size());
    events_->OnAssigned(action.tasks);
  }
  void CarryOut(const TellRevoked& action) {
    metrics_.OnRevoked(action.tasks.size());
    events_->OnRevoked(action.tasks);
  }
  void CarryOut(const TellRebalance&) { events_->OnRebalance(); }
  void CarryOut(const TellLost& action) {
    LogWarning("expelled from the group", {{"group", options_.group}, {"cause", std::string(action.cause.message())}});
    metrics_.OnLost();
    events_->OnLost(action.cause);
  }
  void CarryOut(const TellProblem& action) {
    if (!action.problem.ok()) {
      LogWarning("group membership waits for a person",
                 {{"group", options_.group}, {"problem", std::string(action.problem.message())}});
    }
    metrics_.OnProblem(!action.problem.ok());
    events_->OnProblem(action.problem);
  }
  void CarryOut(const TellStopped& action) {
    LogError("out of the group for good", {{"group", options_.group}, {"cause", std::string(action.cause.message())}});
    events_->OnStopped(action.cause);
  }
  void CarryOut(const TellLeft& action) {
    if (action.drained) events_->OnDrained();
    absl::MutexLock lock(&mutex_);
    out_ = true;
  }

  const KafkaMembershipOptions options_;
  const std::shared_ptr<const kafka::LiveAccess> access_;  // in place of options_.access
  const absl::Status usable_;
  MembershipEvents* const events_;
  GroupMetrics metrics_;
  Member member_;  // of the thread

  mutable absl::Mutex mutex_;
  // Bounded by what the engine and the lanes have been given to answer.
  std::vector<MemberEvent> mailbox_ ABSL_GUARDED_BY(mutex_);
  Roster roster_ ABSL_GUARDED_BY(mutex_);
  bool out_ ABSL_GUARDED_BY(mutex_) = true;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  CallLane control_, heartbeat_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Membership> NewKafkaMembership(KafkaMembershipOptions options, MembershipEvents* events) {
  return std::make_unique<KafkaMembership>(std::move(options), events);
}

}  // namespace millstream::group
