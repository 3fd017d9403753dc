#include "sidecar/group/plan/assignor.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "common/base/status.h"

namespace millstream::group {
namespace {

constexpr int kNobody = -1;

// Members that may run the same tasks. Usually there is one class; several while a change of the manifest rolls out.
struct Class {
  std::vector<bool> allowed;              // by task
  std::set<std::pair<int, int>> by_load;  // (load, member) of the members that take tasks
};

class Assignor {
 public:
  explicit Assignor(const std::vector<AssignorMember>& members) : members_(members) {}

  std::vector<MemberPlan> Run() {
    RankMembers();
    FindOwners();
    KeepWhatStays();
    PlaceTheRest();
    Balance();
    return Result();
  }

 private:
  struct State {
    int members_class = 0;
    bool takes = false;       // not draining
    int load = 0;             // tasks that have it as target
    std::vector<int> kept;    // of those, what it owns
    std::vector<int> placed;  // and what comes to it
  };

  bool Allowed(int member, int task) const { return classes_[states_[member].members_class].allowed[task]; }
  bool AnybodyTakes(int task) const {
    return std::any_of(classes_.begin(), classes_.end(),
                       [task](const Class& c) { return c.allowed[task] && !c.by_load.empty(); });
  }

  // From here on members are numbers in the order of their keys.
  void RankMembers() {
    order_.resize(members_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(), [this](int a, int b) { return members_[a].key < members_[b].key; });
    for (const AssignorMember& member : members_) tasks_ = std::max(tasks_, member.tasks);
    std::map<std::pair<int32_t, std::optional<std::vector<TaskId>>>, int> known;
    states_.resize(members_.size());
    for (int rank = 0; rank < static_cast<int>(order_.size()); ++rank) {
      const AssignorMember& member = Member(rank);
      const auto [entry, is_new] = known.try_emplace({member.tasks, member.manual}, static_cast<int>(classes_.size()));
      if (is_new) classes_.push_back({AllowedTasks(member), {}});
      State& state = states_[rank];
      state.members_class = entry->second;
      state.takes = !member.draining;
      if (state.takes) classes_[entry->second].by_load.emplace(0, rank);
    }
    owner_.assign(tasks_, kNobody);
    target_.assign(tasks_, kNobody);
  }

  std::vector<bool> AllowedTasks(const AssignorMember& member) const {
    std::vector<bool> allowed(tasks_, false);
    if (!member.manual) {
      std::fill_n(allowed.begin(), member.tasks, true);
      return allowed;
    }
    for (const TaskId task : *member.manual) {
      if (task.value() >= 0 && task.value() < member.tasks) allowed[task.value()] = true;
    }
    return allowed;
  }

  const AssignorMember& Member(int rank) const { return members_[order_[rank]]; }

  void FindOwners() {
    std::vector<Generation> received(tasks_, Generation(-2));
    for (int rank = 0; rank < static_cast<int>(order_.size()); ++rank) {
      for (const OwnedTask& owned : Member(rank).owned) {
        const int task = owned.task.value();
        if (task < 0 || task >= tasks_ || owned.received <= received[task]) continue;
        received[task] = owned.received;
        owner_[task] = rank;
      }
    }
  }

  void SetTarget(int task, int member, bool owned) {
    State& state = states_[member];
    MS_CHECK(target_[task] == kNobody);
    target_[task] = member;
    (owned ? state.kept : state.placed).push_back(task);
    AddLoad(member, +1);
  }

  void AddLoad(int member, int change) {
    State& state = states_[member];
    Class& of = classes_[state.members_class];
    if (state.takes) of.by_load.erase({state.load, member});
    state.load += change;
    if (state.takes) of.by_load.emplace(state.load, member);
  }

  void KeepWhatStays() {
    std::vector<bool> gave_up(states_.size(), false);  // one task per draining member
    for (int task = 0; task < tasks_; ++task) {
      const int owner = owner_[task];
      if (owner == kNobody || !Allowed(owner, task)) continue;
      if (!states_[owner].takes) {
        if (!AnybodyTakes(task) || !gave_up[owner]) {
          gave_up[owner] = gave_up[owner] || AnybodyTakes(task);
          continue;
        }
      }
      SetTarget(task, owner, /*owned=*/true);
    }
  }

  void PlaceTheRest() {
    std::vector<std::vector<std::pair<int64_t, int>>> on_disk(tasks_);  // (distance to the end, member)
    const std::vector<int64_t> ends = Ends();
    int takers = 0;
    for (int rank = 0; rank < static_cast<int>(order_.size()); ++rank) {
      if (!states_[rank].takes) continue;
      ++takers;
      for (const RestoredPosition& state : Member(rank).positions) {
        const int task = state.task.value();
        if (task < 0 || task >= tasks_ || state.position < 0) continue;
        on_disk[task].emplace_back(std::max<int64_t>(0, ends[task] - state.position), rank);
      }
    }
    const int share = takers == 0 ? 0 : (tasks_ + takers - 1) / takers;
    // Those with state somewhere choose first.
    for (const bool with_state : {true, false}) {
      for (int task = 0; task < tasks_; ++task) {
        if (target_[task] != kNobody || (with_state && on_disk[task].empty())) continue;
        std::sort(on_disk[task].begin(), on_disk[task].end());
        const int member = with_state ? FirstWithRoom(on_disk[task], task, share) : LeastLoaded(task);
        if (member != kNobody) SetTarget(task, member, /*owned=*/false);
      }
    }
  }

  // Of each task's changelogs, as far as anybody knows: who closed a task long ago knows an old end.
  std::vector<int64_t> Ends() const {
    std::vector<int64_t> ends(tasks_, 0);
    for (int rank = 0; rank < static_cast<int>(order_.size()); ++rank) {
      for (const RestoredPosition& state : Member(rank).positions) {
        const int task = state.task.value();
        if (task >= 0 && task < tasks_) ends[task] = std::max({ends[task], state.end, state.position});
      }
    }
    return ends;
  }

  int FirstWithRoom(const std::vector<std::pair<int64_t, int>>& candidates, int task, int share) const {
    for (const auto& [distance, member] : candidates) {
      if (Allowed(member, task) && states_[member].load < share) return member;
    }
    return kNobody;
  }

  int LeastLoaded(int task) const {
    std::pair<int, int> best(tasks_ + 1, kNobody);
    for (const Class& of : classes_) {
      if (of.allowed[task] && !of.by_load.empty()) best = std::min(best, *of.by_load.begin());
    }
    return best.second;
  }

  // Moves tasks from who has most to who has least until no move helps. Each lowers the sum of squares of the loads,
  // so that it ends.
  void Balance() {
    while (MoveOne()) {
    }
  }

  bool MoveOne() {
    std::vector<std::set<std::pair<int, int>>::reverse_iterator> at;
    for (Class& of : classes_) at.push_back(of.by_load.rbegin());
    while (true) {
      int from_class = kNobody;
      for (int c = 0; c < static_cast<int>(classes_.size()); ++c) {
        if (at[c] == classes_[c].by_load.rend()) continue;
        if (from_class == kNobody || *at[c] > *at[from_class]) from_class = c;
      }
      if (from_class == kNobody) return false;
      const auto [load, from] = *at[from_class];
      if (load <= LowestLoad() + 1) return false;  // nobody further down has more
      if (MoveFrom(from)) return true;
      ++at[from_class];
    }
  }

  int LowestLoad() const {
    int lowest = tasks_ + 1;
    for (const Class& of : classes_) {
      if (!of.by_load.empty()) lowest = std::min(lowest, of.by_load.begin()->first);
    }
    return lowest;
  }

  bool MoveFrom(int from) {
    for (Class& of : classes_) {
      if (of.by_load.empty() || of.by_load.begin()->first + 1 >= states_[from].load) continue;
      // What nobody has begun with moves first.
      for (std::vector<int>* tasks : {&states_[from].placed, &states_[from].kept}) {
        const auto last = std::find_if(tasks->rbegin(), tasks->rend(), [&](int task) { return of.allowed[task]; });
        if (last == tasks->rend()) continue;
        const int task = *last;
        const int to = of.by_load.begin()->second;
        tasks->erase(std::next(last).base());
        target_[task] = kNobody;
        AddLoad(from, -1);
        SetTarget(task, to, /*owned=*/owner_[task] == to);
        return true;
      }
    }
    return false;
  }

  std::vector<MemberPlan> Result() const {
    std::vector<MemberPlan> plans(members_.size());
    for (int task = 0; task < tasks_; ++task) {
      if (owner_[task] != kNobody && owner_[task] != target_[task]) {
        plans[order_[owner_[task]]].give_up.push_back(TaskId(task));
      }
      if (target_[task] == kNobody) continue;
      MemberPlan& plan = plans[order_[target_[task]]];
      const bool free = owner_[task] == kNobody || owner_[task] == target_[task];
      (free ? plan.active : plan.awaited).push_back(TaskId(task));
    }
    return plans;
  }

  const std::vector<AssignorMember>& members_;
  std::vector<int> order_;  // by rank: position in members_
  int tasks_ = 0;
  std::vector<Class> classes_;
  std::vector<State> states_;        // by rank
  std::vector<int> owner_, target_;  // by task: rank
};

}  // namespace

std::vector<MemberPlan> MakePlan(const std::vector<AssignorMember>& members) { return Assignor(members).Run(); }

}  // namespace millstream::group
