// 10,000 tasks and 500 members: a first plan, nothing to do, one member come, half the members new, and the leader's
// whole work.
#include <string>

#include "benchmark/benchmark.h"
#include "common/base/strings.h"
#include "sidecar/group/plan/assignor.h"
#include "sidecar/group/plan/group_protocol.h"
#include "sidecar/group/plan/leader.h"

namespace millstream::group {
namespace {

constexpr int kTasks = 10'000, kMembers = 500;

// The first `settled` members share all tasks, the others have none yet.
std::vector<AssignorMember> Group(int members, int settled) {
  std::vector<AssignorMember> group;
  for (int i = 0; i < members; ++i) {
    AssignorMember member;
    member.key = StrCat("member-", i);
    member.tasks = kTasks;
    for (int task = i; i < settled && task < kTasks; task += settled) {
      member.owned.push_back({TaskId(task), Generation(7)});
      member.positions.push_back({TaskId(task), 1'000'000, 1'000'100});
    }
    group.push_back(std::move(member));
  }
  return group;
}

void BM_Plan(benchmark::State& state) {
  const auto group = Group(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  for (auto _ : state) benchmark::DoNotOptimize(MakePlan(group));
}
BENCHMARK(BM_Plan)
    ->Args({kMembers, 0})
    ->Args({kMembers, kMembers})
    ->Args({kMembers + 1, kMembers})
    ->Args({kMembers, kMembers / 2})
    ->Args({kMembers, 1})
    ->Unit(benchmark::kMillisecond);

void BM_Leader(benchmark::State& state) {
  wire::JoinGroupResponse joined;
  joined.generation = 8;
  for (const AssignorMember& member : Group(kMembers, kMembers / 2)) {
    MemberData data;
    data.host = member.key + ":8080";
    data.tasks = kTasks;
    data.owned = member.owned;
    data.positions = member.positions;
    data.transactional_ids = {member.key + "-0-a", member.key + "-0-b"};
    joined.members.push_back({member.key, "", EncodeSubscription(data, {"in"}, kMembers)});
  }
  for (auto _ : state) {
    const GenerationPlan plan = PrepareGeneration(joined, Roster());
    benchmark::DoNotOptimize(EncodePlan(plan, {"in"}, {}, "member-0"));
  }
}
BENCHMARK(BM_Leader)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millstream::group

BENCHMARK_MAIN();
