#include "tests/sim/operator/member.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "common/base/strings.h"

namespace millstream::sim {
namespace {

using Fault = kube::FakeApiServer::Fault;

reconcile::OperatorOptions OperatorOptionsOf(const std::string& identity, uint64_t seed) {
  reconcile::OperatorOptions options;
  options.model.sidecar_image = "registry.example.com/millstream-sidecar:0.1.0";
  options.model.operator_namespace = "millstream-system";
  options.model.network_policies = true;
  options.instance = identity;
  options.workers = 0;
  options.seed = seed;
  return options;
}

std::string StatusBody(int code, std::string_view reason, std::string_view cause = "") {
  Json status = {{"kind", "Status"},
                 {"status", "Failure"},
                 {"code", code},
                 {"reason", std::string(reason)},
                 {"message", "a refusal"}};
  if (!cause.empty())
    status["details"]["causes"] = Json::array({{{"reason", std::string(cause)}, {"message", "no more"}}});
  return status.dump();
}

}  // namespace

std::map<std::string, model::SidecarReport> Member::Reports::Of(const std::vector<Pod>& pods, absl::Duration) {
  std::map<std::string, model::SidecarReport> reports;
  for (const Pod& pod : pods) {
    if (pod.ip.empty()) continue;
    if (const auto report = cluster_->ReportOf(pod.uid)) last_[pod.uid] = *report;
    if (const auto found = last_.find(pod.uid); found != last_.end()) reports[pod.name] = found->second;
  }
  return reports;
}

Member::Life::Life(const std::string& identity, Member* member)
    : lease_client(
          member->cluster_->api().Connect([member](const kube::HttpCall& call) { return member->OnCall(call); }),
          [] {
            kube::ClientOptions options;
            options.deadline = absl::Seconds(4);
            return options;
          }()),
      lease(kube::NewApiLeaseStore(&lease_client, {"millstream-system", "millstream-operator"})),
      election({.identity = identity}, lease.get(), member->clock_),
      client(member->cluster_->api().Connect([member](const kube::HttpCall& call) { return member->OnCall(call); }),
             [this, tally = member->tally_] {
               kube::ClientOptions options;
               options.write_allowance = [this] { return election.Allowance(); };
               options.on_call = [tally](std::string_view, const kube::Resource&, int code) {
                 if (code >= 400) ++(*tally)[StrCat("answer ", code)];
               };
               return options;
             }()),
      reports(member->cluster_),
      work(OperatorOptionsOf(identity, (*member->random_)()), &client, &reports, member->clock_, metrics.get()),
      leading(&election, {[this] { work.Lead(); }, [this] { work.Follow(); }}, member->clock_) {}

Member::Member(std::string name, Cluster* cluster, FakeClock* clock, std::mt19937_64* random, const Weather* weather,
               Rules* rules, Tally* tally)
    : name_(std::move(name)),
      cluster_(cluster),
      clock_(clock),
      random_(random),
      weather_(weather),
      rules_(rules),
      tally_(tally) {
  Restart();
}

Member::~Member() { Crash(); }

void Member::Restart() {
  Crash();
  partitioned = unauthorized = false;
  stands_still_until_ = absl::ZeroDuration();
  life_ = std::make_unique<Life>(StrCat(name_, "-", ++lives_), this);
}

void Member::Crash() { life_.reset(); }

void Member::EndInOrder() {
  if (!alive()) return;
  life_->leading.End();
  (void)life_->election.Release();
  Crash();
}

absl::Duration Member::StandsStill() const {
  return std::max(absl::ZeroDuration(), stands_still_until_ - clock_->Monotonic());
}

absl::Duration Member::StepElection() {
  if (const absl::Duration still = StandsStill(); still > absl::ZeroDuration()) return still;
  return alive() ? life_->leading.Step() : absl::Seconds(1);
}

size_t Member::reflectors() const { return alive() ? life_->work.reflectors() : 0; }

bool Member::HasNews(Life::Watching* watching) const {
  const int64_t now = cluster_->api().version();
  if (watching->seen == now) return false;
  const int64_t before = std::exchange(watching->seen, now);
  return watching->kind == nullptr || cluster_->api().LastChange(*watching->kind) > before;
}

bool Member::LacksNewsUntil(int64_t version) const {
  for (const Life::Watching& watching : life_->watching) {
    if (watching.kind == nullptr) continue;
    const int64_t last = cluster_->api().LastChange(*watching.kind);
    if (last > watching.delivered && last <= version) return true;
  }
  return false;
}

bool Member::Overtakes(const Life::Watching& watching) const {
  if (watching.kind == nullptr) return false;
  const int64_t last = cluster_->api().LastChange(*watching.kind);
  return last > watching.delivered && LacksNewsUntil(last - 1);
}

absl::Duration Member::StepReflector(size_t reflector) {
  if (const absl::Duration still = StandsStill(); still > absl::ZeroDuration()) return still;
  if (!alive() || reflector >= reflectors()) return absl::Seconds(1);
  life_->watching.resize(reflectors());
  Life::Watching& watching = life_->watching[reflector];
  const absl::Duration now = clock_->Monotonic();
  // A watch waits for news; a bookmark comes about once a minute.
  if (watching.up_to_date && !HasNews(&watching) && now - watching.stepped < absl::Minutes(1)) {
    return absl::Milliseconds(100 + Chance(300));
  }
  if (Overtakes(watching)) ++(*tally_)["news out of order"];
  const int64_t version = cluster_->api().version();
  watching.seen = version;
  watching.stepped = now;
  silent_ = false;
  stepping_ = &watching;
  const absl::Duration wait = life_->work.StepReflector(reflector);
  stepping_ = nullptr;
  watching.up_to_date = wait == absl::ZeroDuration() && !silent_;
  if (watching.up_to_date) watching.delivered = version;
  // A connection whose other side is gone is noticed after that.
  if (silent_) return absl::Seconds(90);
  // News takes its time, now and then a lot of it: caches are behind.
  return wait + absl::Milliseconds(weather_->slow > 0 && Chance(20) == 0 ? Chance(15'000) : Chance(200));
}

absl::Duration Member::StepWork() {
  if (const absl::Duration still = StandsStill(); still > absl::ZeroDuration()) return still;
  const int64_t version = cluster_->api().version();
  const bool is_late = working() && !leads() && partner_ != nullptr && partner_->leads();
  if (alive() && life_->work.ReconcileOne()) {
    ++passes_;
    if (is_late) ++(*tally_)["work behind the end of its term"];
    if (LacksNewsUntil(version)) ++(*tally_)["pass on stale caches"];
  }
  const absl::Duration idle = alive() ? life_->work.until_next_key() : absl::Seconds(1);
  // News may come in between.
  return std::clamp(idle, absl::Milliseconds(10), absl::Milliseconds(200)) + absl::Milliseconds(Chance(100));
}

bool Member::Happens(double share) { return std::uniform_real_distribution<double>(0, 1)(*random_) < share; }

// A slow call: the other operator goes on meanwhile. True: it takes longer than its deadline.
bool Member::TakeTime(const kube::HttpCall& call) {
  if (in_call_ || IsWatch(call) || !Happens(weather_->slow)) return false;
  const absl::Duration wanted = absl::Milliseconds(Chance(12'000));
  const absl::Duration taken = std::min(wanted, call.deadline);
  in_call_ = true;
  const absl::Duration end = clock_->Monotonic() + taken;
  while (clock_->Monotonic() < end) {
    clock_->Advance(std::min(end - clock_->Monotonic(), absl::Seconds(2)));
    if (partner_ != nullptr && partner_->alive() && !partner_->in_call_) {
      partner_->in_call_ = true;
      (void)partner_->StepElection();
      partner_->in_call_ = false;
    }
  }
  in_call_ = false;
  return wanted > call.deadline;
}

std::optional<Fault> Member::OnCall(const kube::HttpCall& call) {
  if (stepping_ != nullptr && IsWatch(call)) stepping_->kind = TargetOf(call).resource();
  const bool too_late = TakeTime(call);
  std::optional<Fault> fault = FaultOf(call);
  if (too_late) ++(*tally_)["call past its deadline"];
  if (fault) CountFault(call, *fault);
  if (call.method == "GET" && absl::StrContains(call.target, "continue=")) ++(*tally_)["list in pages"];
  if (too_late && !fault) fault = Fault{Fault::Kind::kLostAnswer, 0, 0, ""};
  if (fault && fault->kind == Fault::Kind::kSilence) silent_ = true;
  const bool carried_out = !fault || fault->kind == Fault::Kind::kLostAnswer;
  if (carried_out && call.method != "GET") {
    const bool others = partner_ != nullptr && partner_->leads();
    // At the very end of its allowance a call that was allowed arrives; nobody else may begin before.
    rules_->OnWrite(StrCat(name_, "-", lives_), !others && (leads() || too_late), call);
  }
  return fault;
}

void Member::CountFault(const kube::HttpCall& call, const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::kNoConnection:
      ++(*tally_)["no connection"];
      return;
    case Fault::Kind::kLostAnswer:
      ++(*tally_)["answer lost"];
      return;
    case Fault::Kind::kCut:
      ++(*tally_)["watch cut"];
      return;
    case Fault::Kind::kSilence:
      ++(*tally_)["watch silent"];
      return;
    case Fault::Kind::kRefuse:
      if (absl::StrContains(call.target, "/eviction")) ++(*tally_)["eviction refused"];
      if (fault.status == 410 && !IsWatch(call)) ++(*tally_)["list expired between pages"];
      return;
  }
}

std::optional<Fault> Member::FaultOf(const kube::HttpCall& call) {
  if (weather_->api_down || partitioned) return Fault{Fault::Kind::kNoConnection, 0, 0, ""};
  if (unauthorized) return Fault{Fault::Kind::kRefuse, 401, 0, StatusBody(401, "Unauthorized")};
  if (std::optional<Fault> refusal = RefusalByCluster(call)) return refusal;
  return Happens(weather_->faults) ? AnyFault(call) : std::nullopt;
}

std::optional<Fault> Member::AnyFault(const kube::HttpCall& call) {
  if (IsWatch(call)) {
    switch (Chance(5)) {
      case 0:
        return Fault{Fault::Kind::kRefuse, 410, 0, StatusBody(410, "Expired")};
      case 1:
        return Fault{Fault::Kind::kSilence, 0, 0, ""};
      case 2:
        return Fault{Fault::Kind::kNoConnection, 0, 0, ""};
      default:
        return Fault{Fault::Kind::kCut, 0, static_cast<size_t>(Chance(4000)), ""};
    }
  }
  if (call.method == "GET" && absl::StrContains(call.target, "continue=") && Chance(2) == 0) {
    return Fault{Fault::Kind::kRefuse, 410, 0, StatusBody(410, "Expired")};
  }
  constexpr int kCodes[] = {409, 429, 500, 503, 504};
  switch (Chance(3)) {
    case 0:
      return Fault{Fault::Kind::kNoConnection, 0, 0, ""};
    case 1:
      return Fault{Fault::Kind::kLostAnswer, 0, 0, ""};
    default:
      return Fault{Fault::Kind::kRefuse, kCodes[Chance(5)], 0, ""};
  }
}

// What a real cluster would refuse.
std::optional<Fault> Member::RefusalByCluster(const kube::HttpCall& call) {
  if (call.method == "GET" || call.method == "DELETE") return std::nullopt;
  const CallTarget target = TargetOf(call);
  if (target.subresource == "eviction" && cluster_->ForbidsEviction(target.key)) {
    return Fault{Fault::Kind::kRefuse, 429, 0, StatusBody(429, "TooManyRequests", "DisruptionBudget")};
  }
  const kube::Resource* resource = target.resource();
  const bool creates = resource != nullptr && target.subresource.empty() &&
                       (target.key.name.empty() || cluster_->api().Look(*resource, target.key) == nullptr);
  if (creates && cluster_->IsTerminating(target.key.name_space)) {
    return Fault{Fault::Kind::kRefuse, 403, 0, StatusBody(403, "Forbidden", "NamespaceTerminating")};
  }
  return std::nullopt;
}

}  // namespace millstream::sim
