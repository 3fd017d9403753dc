#include "sidecar/group/plan/assignor.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::group {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<TaskId> Tasks(std::initializer_list<int> numbers) {
  std::vector<TaskId> tasks;
  for (const int number : numbers) tasks.push_back(TaskId(number));
  return tasks;
}

AssignorMember Named(const std::string& key, int tasks, std::initializer_list<int> owned = {}) {
  AssignorMember member;
  member.key = key;
  member.tasks = tasks;
  for (const int task : owned) member.owned.push_back({TaskId(task), Generation(1)});
  return member;
}

// What the members list in the next generation, all having let go of what they had to.
void Obey(const std::vector<MemberPlan>& plans, std::vector<AssignorMember>* members, int generation) {
  for (size_t i = 0; i < plans.size(); ++i) {
    (*members)[i].owned.clear();
    for (const TaskId task : plans[i].active) (*members)[i].owned.push_back({task, Generation(generation)});
  }
}

TEST(AssignorTest, NobodyAndNothing) {
  EXPECT_THAT(MakePlan({}), IsEmpty());
  EXPECT_THAT(MakePlan({Named("a", 0)}), ElementsAre(MemberPlan{}));
}

TEST(AssignorTest, AFirstPlanIsShared) {
  const auto plans = MakePlan({Named("b", 5), Named("a", 5)});
  EXPECT_EQ(plans[1].active, Tasks({0, 2, 4}));  // by name, not by order
  EXPECT_EQ(plans[0].active, Tasks({1, 3}));
}

TEST(AssignorTest, AMovingTaskIsNobodysUntilItsOwnerLetGo) {
  std::vector<AssignorMember> members = {Named("a", 4, {0, 1, 2, 3}), Named("b", 4)};
  auto plans = MakePlan(members);
  EXPECT_EQ(plans[0].active, Tasks({0, 1}));
  EXPECT_EQ(plans[0].give_up, Tasks({2, 3}));
  EXPECT_THAT(plans[1].active, IsEmpty());
  EXPECT_EQ(plans[1].awaited, Tasks({2, 3}));
  Obey(plans, &members, 2);
  plans = MakePlan(members);
  EXPECT_EQ(plans[1].active, Tasks({2, 3}));
  EXPECT_THAT(plans[1].awaited, IsEmpty());
}

TEST(AssignorTest, OfTwoWhoClaimATaskTheLaterReceiverHasIt) {
  AssignorMember zombie = Named("a", 2, {0, 1}), owner = Named("b", 2);
  owner.owned = {{TaskId(0), Generation(7)}};
  const auto plans = MakePlan({zombie, owner});
  EXPECT_EQ(plans[1].active, Tasks({0}));
  EXPECT_EQ(plans[0].active, Tasks({1}));
}

TEST(AssignorTest, AnOwnerlessTaskGoesToWhoHasItsState) {
  AssignorMember a = Named("a", 4), b = Named("b", 4);
  a.positions = {{TaskId(0), 90, 100}, {TaskId(3), 100, 100}};
  b.positions = {{TaskId(0), 95, 100}, {TaskId(1), 1, 100}};
  const auto plans = MakePlan({a, b});
  EXPECT_EQ(plans[0].active, Tasks({2, 3}));
  EXPECT_EQ(plans[1].active, Tasks({0, 1}));
}

TEST(AssignorTest, WhoClosedATaskLongAgoDoesNotPassForUpToDate) {
  AssignorMember a = Named("a", 1), b = Named("b", 1);
  a.positions = {{TaskId(0), 100, 100}};  // its end was the end when it had the task
  b.positions = {{TaskId(0), 250, 260}};
  const auto plans = MakePlan({a, b});
  EXPECT_THAT(plans[0].active, IsEmpty());
  EXPECT_EQ(plans[1].active, Tasks({0}));
}

TEST(AssignorTest, ADrainingMemberLosesOneTaskAtATime) {
  std::vector<AssignorMember> members = {Named("a", 4, {0, 1, 2}), Named("b", 4, {3})};
  members[0].draining = true;
  for (const int left : {2, 1, 0}) {
    const auto plans = MakePlan(members);
    EXPECT_THAT(plans[0].active, SizeIs(left));
    EXPECT_THAT(plans[0].give_up, SizeIs(1));
    EXPECT_THAT(plans[1].awaited, SizeIs(1));
    Obey(plans, &members, 5 - left);
  }
  EXPECT_EQ(MakePlan(members)[1].active, Tasks({0, 1, 2, 3}));
}

TEST(AssignorTest, WhatNobodyElseMayRunADrainingMemberLosesAtOnce) {
  AssignorMember a = Named("a", 3, {0, 1, 2}), b = Named("b", 3);
  a.draining = b.draining = true;
  auto plans = MakePlan({a, b});
  EXPECT_EQ(plans[0].give_up, Tasks({0, 1, 2}));
  EXPECT_THAT(plans[1].awaited, IsEmpty());
  b.draining = false;
  b.manual = Tasks({1});
  plans = MakePlan({a, b});
  EXPECT_EQ(plans[0].give_up, Tasks({0, 1, 2}));
  EXPECT_EQ(plans[1].awaited, Tasks({1}));
}

TEST(AssignorTest, OnlyManualTasksAreShared) {
  AssignorMember a = Named("a", 8, {7}), b = Named("b", 8);
  a.manual = b.manual = Tasks({1, 2, 5, 12});
  const auto plans = MakePlan({a, b});
  EXPECT_EQ(plans[0].active, Tasks({1, 5}));
  EXPECT_EQ(plans[1].active, Tasks({2}));
  EXPECT_EQ(plans[0].give_up, Tasks({7}));
}

TEST(AssignorTest, AMemberGetsNoTaskThatItDoesNotKnow) {
  const auto plans = MakePlan({Named("old", 2), Named("new", 6)});
  EXPECT_EQ(plans[0].active, Tasks({0, 1}));
  EXPECT_EQ(plans[1].active, Tasks({2, 3, 4, 5}));
}

// ---------------------------------------------------------------- properties

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int Up(int most) { return std::uniform_int_distribution<int>(0, most)(engine_); }
  bool Chance(double p) { return std::uniform_real_distribution<double>(0, 1)(engine_) < p; }
  template <typename T>
  void Shuffle(std::vector<T>* items) {
    std::shuffle(items->begin(), items->end(), engine_);
  }

 private:
  std::mt19937_64 engine_;
};

bool MayRun(const AssignorMember& member, TaskId task) {
  return task.value() < member.tasks &&
         (!member.manual || std::binary_search(member.manual->begin(), member.manual->end(), task));
}

std::map<TaskId, size_t> Owners(const std::vector<AssignorMember>& members) {
  std::map<TaskId, std::pair<Generation, size_t>> best;
  for (size_t i = 0; i < members.size(); ++i) {
    for (const OwnedTask& owned : members[i].owned) {
      const auto [entry, first] = best.try_emplace(owned.task, owned.received, i);
      if (!first && owned.received > entry->second.first) entry->second = {owned.received, i};
    }
  }
  std::map<TaskId, size_t> owners;
  for (const auto& [task, claim] : best) owners[task] = claim.second;
  return owners;
}

std::vector<AssignorMember> RandomGroup(Random& random, int tasks) {
  std::vector<AssignorMember> members;
  const int count = 1 + random.Up(7);
  const bool filtered = random.Chance(0.3), same_filter = random.Chance(0.5);
  std::vector<TaskId> filter;
  for (int i = 0; i < count; ++i) {
    AssignorMember member = Named(StrCat("member-", i), random.Chance(0.9) ? tasks : random.Up(tasks));
    member.draining = random.Chance(0.15);
    if (filtered && (i == 0 || !same_filter)) {
      filter.clear();
      for (int task = 0; task < tasks; ++task) {
        if (random.Chance(0.5)) filter.push_back(TaskId(task));
      }
    }
    if (filtered) member.manual = filter;
    for (int task = 0; task < tasks; ++task) {
      if (random.Chance(0.3)) member.owned.push_back({TaskId(task), Generation(random.Up(100'000))});
      if (random.Chance(0.2)) member.positions.push_back({TaskId(task), random.Up(50), 50});
    }
    members.push_back(std::move(member));
  }
  return members;
}

void CheckPlan(const std::vector<AssignorMember>& members, const std::vector<MemberPlan>& plans) {
  const std::map<TaskId, size_t> owners = Owners(members);
  std::set<TaskId> running, coming;
  for (size_t i = 0; i < plans.size(); ++i) {
    for (const TaskId task : plans[i].active) {
      EXPECT_TRUE(running.insert(task).second) << "task " << task << " runs twice";
      EXPECT_TRUE(MayRun(members[i], task));
      const auto owner = owners.find(task);
      EXPECT_TRUE(owner == owners.end() || owner->second == i) << "task " << task << " is taken from its owner";
      EXPECT_TRUE(!members[i].draining || owner != owners.end()) << "a draining member gets task " << task;
    }
    for (const TaskId task : plans[i].awaited) {
      EXPECT_TRUE(coming.insert(task).second && owners.count(task) > 0 && owners.at(task) != i);
      EXPECT_TRUE(MayRun(members[i], task) && !members[i].draining);
    }
    for (const TaskId task : plans[i].give_up) EXPECT_EQ(owners.at(task), i);
  }
  for (const TaskId task : running) EXPECT_EQ(coming.count(task), 0u);
}

// No task could go from one who has more to one who would still have less.
void CheckBalance(const std::vector<AssignorMember>& members, const std::vector<MemberPlan>& plans) {
  for (size_t from = 0; from < plans.size(); ++from) {
    if (members[from].draining) continue;
    for (size_t to = 0; to < plans.size(); ++to) {
      const auto load = [&](size_t i) { return plans[i].active.size() + plans[i].awaited.size(); };
      if (members[to].draining || load(from) <= load(to) + 1) continue;
      for (const auto* list : {&plans[from].active, &plans[from].awaited}) {
        for (const TaskId task : *list) {
          EXPECT_FALSE(MayRun(members[to], task))
              << members[from].key << " could hand task " << task << " to " << members[to].key;
        }
      }
    }
  }
}

TEST(AssignorProperties, HoldForRandomGroups) {
  std::random_device device;
  for (int round = 0; round < 2000 && !HasFailure(); ++round) {
    const uint64_t seed = uint64_t{device()} << 32 | device();
    SCOPED_TRACE(StrCat("seed ", seed));
    Random random(seed);
    const int tasks = 1 + random.Up(19);
    std::vector<AssignorMember> members = RandomGroup(random, tasks);
    const std::vector<MemberPlan> first = MakePlan(members);
    CheckPlan(members, first);
    CheckBalance(members, first);

    // The order of the members is of no importance.
    std::vector<AssignorMember> shuffled = members;
    random.Shuffle(&shuffled);
    const std::vector<MemberPlan> other = MakePlan(shuffled);
    for (size_t i = 0; i < shuffled.size(); ++i) {
      const auto at =
          std::find_if(members.begin(), members.end(), [&](const auto& m) { return m.key == shuffled[i].key; });
      EXPECT_EQ(other[i], first[at - members.begin()]);
    }

    // All do as they are told: it settles, every task that somebody may run runs, and then nothing moves any more.
    int generation = 200'000;
    std::vector<MemberPlan> plans = first;
    for (int i = 0; i < tasks + 3; ++i) {
      Obey(plans, &members, ++generation);
      plans = MakePlan(members);
      CheckPlan(members, plans);
    }
    std::set<TaskId> running;
    for (size_t i = 0; i < plans.size(); ++i) {
      EXPECT_THAT(plans[i].awaited, IsEmpty());
      EXPECT_THAT(plans[i].give_up, IsEmpty());
      running.insert(plans[i].active.begin(), plans[i].active.end());
      if (members[i].draining) {
        EXPECT_THAT(plans[i].active, IsEmpty());
      }
    }
    for (int task = 0; task < tasks; ++task) {
      const bool wanted = std::any_of(members.begin(), members.end(), [task](const AssignorMember& member) {
        return !member.draining && MayRun(member, TaskId(task));
      });
      EXPECT_EQ(running.count(TaskId(task)) > 0, wanted) << "task " << task;
    }
    CheckBalance(members, plans);
  }
}

// A member comes to, or goes from, a settled group: no more moves than balance demands.
TEST(AssignorProperties, MovesAreFew) {
  std::random_device device;
  for (int round = 0; round < 300 && !HasFailure(); ++round) {
    const uint64_t seed = uint64_t{device()} << 32 | device();
    SCOPED_TRACE(StrCat("seed ", seed));
    Random random(seed);
    const int tasks = 1 + random.Up(99), count = 1 + random.Up(9);
    std::vector<AssignorMember> members;
    for (int i = 0; i < count; ++i) members.push_back(Named(StrCat("member-", i), tasks));
    Obey(MakePlan(members), &members, 1);
    members.push_back(Named("newcomer", tasks));
    size_t moved = 0;
    for (const MemberPlan& plan : MakePlan(members)) moved += plan.awaited.size();
    EXPECT_LE(moved, static_cast<size_t>(tasks / (count + 1) + 1));
    members.pop_back();
    members.erase(members.begin() + random.Up(count - 1));
    for (size_t i = 0; const MemberPlan& plan : MakePlan(members)) {
      EXPECT_THAT(plan.give_up, IsEmpty());  // those who stay keep what they have
      EXPECT_GE(plan.active.size(), members[i++].owned.size());
    }
  }
}

}  // namespace
}  // namespace millstream::group
