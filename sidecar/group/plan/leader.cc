#include "sidecar/group/plan/leader.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/strings.h"
#include "sidecar/group/plan/group_protocol.h"

namespace millstream::group {
namespace {

// The roster goes to everybody while that costs no more than this in all, else to some members: it is lost only if they
// and the leader die at once, and then open transactions of the dead end by their timeout.
constexpr size_t kMaxRosterBytesInAll = 64 << 10;
constexpr int kRosterHolders = 2;  // beside the leader

std::string KeyOf(const GenerationPlan::Member& member) {
  return member.instance_id.empty() ? member.member_id : member.instance_id;
}

std::vector<std::string> PresentIds(const GenerationPlan& plan) {
  std::vector<std::string> ids;
  for (const auto& member : plan.members) {
    ids.insert(ids.end(), member.data.transactional_ids.begin(), member.data.transactional_ids.end());
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// Somebody may hold tasks and cannot be understood: nobody gets a task that it does not hold already.
void KeepOnlyOwned(const AssignorMember& member, MemberPlan* plan) {
  const auto held = [&member](TaskId task) {
    return std::any_of(member.owned.begin(), member.owned.end(),
                       [task](const OwnedTask& owned) { return owned.task == task; });
  };
  const auto first_new = std::stable_partition(plan->active.begin(), plan->active.end(), held);
  plan->awaited.insert(plan->awaited.end(), first_new, plan->active.end());
  plan->active.erase(first_new, plan->active.end());
  std::sort(plan->awaited.begin(), plan->awaited.end());
}

// FNV-1a, 64 bits: a fingerprint, not a protection.
class Fingerprint {
 public:
  void Add(std::string_view text) {
    for (const char c : text) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 1099511628211u;
    hash_ *= 1099511628211u;
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 14695981039346656037u;
};

uint64_t HashOf(const GenerationPlan& plan) {
  std::vector<const GenerationPlan::Member*> sorted;
  for (const auto& member : plan.members) sorted.push_back(&member);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return KeyOf(*a) < KeyOf(*b); });
  Fingerprint fingerprint;
  fingerprint.Add(StrCat(plan.generation.value()));
  for (const auto* member : sorted) {
    fingerprint.Add(KeyOf(*member));
    for (const TaskId task : member->plan.active) fingerprint.Add(StrCat(task.value()));
    fingerprint.Add("awaited");
    for (const TaskId task : member->plan.awaited) fingerprint.Add(StrCat(task.value()));
  }
  return fingerprint.hash();
}

}  // namespace

GenerationPlan PrepareGeneration(const wire::JoinGroupResponse& joined, const Roster& known) {
  GenerationPlan plan;
  plan.generation = Generation(joined.generation);
  const Roster* newest = &known;
  plan.members.reserve(joined.members.size());  // `newest` points into it
  for (const wire::JoinGroupMember& member : joined.members) {
    plan.metadata_bytes += member.metadata.size();
    absl::StatusOr<MemberData> data = ReadSubscription(member.metadata);
    if (!data.ok()) {
      plan.unreadable.Update(Annotate(
          data.status(), StrCat("member ", member.instance_id.empty() ? member.member_id : member.instance_id)));
      data = MemberData();
    }
    plan.members.push_back({member.member_id, member.instance_id, *std::move(data), {}});
    const Roster& brought = plan.members.back().data.roster;
    if (brought.generation > newest->generation) newest = &brought;
  }
  const std::vector<std::string> present = PresentIds(plan);
  std::set_difference(newest->transactional_ids.begin(), newest->transactional_ids.end(), present.begin(),
                      present.end(), std::back_inserter(plan.vanished));

  std::vector<AssignorMember> members;
  for (const auto& member : plan.members) {
    members.push_back({KeyOf(member), member.data.tasks, member.data.manual, member.data.draining, member.data.owned,
                       member.data.positions});
  }
  std::vector<MemberPlan> plans = MakePlan(members);
  for (size_t i = 0; i < plans.size(); ++i) {
    if (!plan.unreadable.ok()) KeepOnlyOwned(members[i], &plans[i]);
    plan.members[i].plan = std::move(plans[i]);
  }
  return plan;
}

EncodedPlan EncodePlan(const GenerationPlan& plan, const std::vector<std::string>& topics,
                       const std::vector<std::string>& not_ended, const std::string& own_member_id) {
  EncodedPlan result;
  result.plan_hash = HashOf(plan);
  result.roster.generation = plan.generation;
  const std::vector<std::string> present = PresentIds(plan);
  std::set_union(present.begin(), present.end(), not_ended.begin(), not_ended.end(),
                 std::back_inserter(result.roster.transactional_ids));
  std::string roster;
  wire::Writer writer(&roster);
  WriteRoster(writer, result.roster);
  const bool to_all = roster.size() * plan.members.size() <= kMaxRosterBytesInAll;

  AssignmentData data;
  data.members = static_cast<int32_t>(plan.members.size());
  data.plan_hash = result.plan_hash;
  for (const auto& member : plan.members) {
    if (member.member_id == own_member_id) data.leader_host = member.data.host;
  }
  int others = 0;
  result.total_bytes = plan.metadata_bytes;
  for (const auto& member : plan.members) {
    const bool holds = to_all || member.member_id == own_member_id || others++ < kRosterHolders;
    data.active = member.plan.active;
    data.give_up = member.plan.give_up;
    data.roster = holds ? result.roster : Roster();
    result.assignments.push_back({member.member_id, EncodeAssignment(data, topics)});
    result.total_bytes += result.assignments.back().assignment.size();
  }
  return result;
}

}  // namespace millstream::group
