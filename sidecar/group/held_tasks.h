#ifndef MILLSTREAM_SIDECAR_GROUP_HELD_TASKS_H_
#define MILLSTREAM_SIDECAR_GROUP_HELD_TASKS_H_

#include <map>
#include <set>
#include <vector>

#include "common/base/ids.h"
#include "sidecar/group/plan/member_data.h"

namespace millstream::group {

// Which tasks the engine holds, against which are assigned: the difference is what it has to be told. One thread at a
// time.
class HeldTasks {
 public:
  struct Change {
    std::vector<TaskId> assigned, revoked;  // to be told
  };
  // A new generation's assignment.
  Change Assign(Generation generation, const std::vector<TaskId>& tasks);

  struct Release {
    bool again = false;    // it is assigned after all: tell so
    bool publish = false;  // it was given up by order: the group should know
  };
  // The engine let go of a task. While a JoinGroup is under way nothing is told: the next Assign decides.
  Release Released(TaskId task);

  // Everything is lost: what is held goes without having been revoked, and what comes back waits for it.
  void LoseAll();

  // What the engine holds, tasks on their way out included; ascending.
  std::vector<OwnedTask> Owned() const;
  // Owned() went out with JoinGroup.
  void Published();
  // Something that was published is no longer held and not assigned either: others may wait for it.
  bool Outdated() const;
  // All of these are held.
  bool Holds(const std::vector<TaskId>& tasks) const;
  bool releasing() const { return releasing_ > 0; }
  // Nothing is held and nothing assigned.
  bool empty() const { return held_.empty() && assigned_.empty(); }

 private:
  struct Held {
    Generation received;
    bool releasing = false;
  };
  std::map<TaskId, Held> held_;
  std::set<TaskId> assigned_;  // of the generation
  std::set<TaskId> closing_;   // lost, and not yet let go of
  std::set<TaskId> published_;
  Generation generation_{-1};
  bool in_force_ = false;  // the assignment: not between Published and the next Assign
  int releasing_ = 0;
};

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_HELD_TASKS_H_
