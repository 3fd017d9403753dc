#ifndef MILLSTREAM_SDK_CPP_TASK_MEMORY_H_
#define MILLSTREAM_SDK_CPP_TASK_MEMORY_H_

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "common/base/ids.h"

namespace millstream::worker {

// What a program gathers for the tasks of one session (Gathered), and which generation of a task it belongs to: OPEN
// and CLOSE begin another one, and what belongs to an older one counts no more. An entry per task this worker ever had.
// Not thread-safe.
class TaskMemory {
 public:
  uint64_t GenerationOf(TaskId task) { return tasks_[task.value()].generation; }
  void BeginAnew(TaskId task) {
    Task& memory = tasks_[task.value()];
    ++memory.generation;
    memory.values.clear();
  }
  // What was gathered for a handle, made null if it is new.
  std::shared_ptr<void>* SlotOf(TaskId task, const void* handle) { return &tasks_[task.value()].values[handle]; }

 private:
  struct Task {
    uint64_t generation = 0;
    absl::flat_hash_map<const void*, std::shared_ptr<void>> values;
  };
  absl::flat_hash_map<int32_t, Task> tasks_;
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_TASK_MEMORY_H_
