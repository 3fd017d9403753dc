#ifndef MILLSTREAM_SDK_CPP_BATCH_HOST_H_
#define MILLSTREAM_SDK_CPP_BATCH_HOST_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millstream/worker.h"
#include "sdk/cpp/program.h"
#include "sdk/cpp/task_memory.h"
#include "sidecar/protocol/messages.h"

namespace millstream::worker {

// A message with the memory its views point into.
struct ReceivedMessage {
  protocol::SidecarMessage message;
  std::shared_ptr<const void> buffer;
};

// What a batch at work asks of whoever brought it: a session with the sidecar, or the test kit. Not thread-safe.
class BatchHost {
 public:
  // `program` outlives this.
  explicit BatchHost(const Program& program) : program_(program) {}
  virtual ~BatchHost() = default;

  const Program& program() const { return program_; }
  const protocol::Welcome& welcome() const { return welcome_; }
  // nullptr: the program has none; so with the next ones.
  const Handler* HandlerOf(uint32_t input) const { return input < inputs_.size() ? inputs_[input] : nullptr; }
  const Handler* ClosingOf(uint32_t store) const { return store < closings_.size() ? closings_[store] : nullptr; }
  const Handler* VisitOf(uint32_t visit) const { return visit < visits_.size() ? visits_[visit] : nullptr; }
  const Handler* VisitEndOf(uint32_t visit) const { return visit < visit_ends_.size() ? visit_ends_[visit] : nullptr; }
  const SessionMerge* MergeOf(uint32_t store) const { return store < merges_.size() ? merges_[store] : nullptr; }
  uint64_t NewRequest() { return ++last_rid_; }
  TaskMemory& memory() { return memory_; }

  virtual absl::Status Send(std::string_view frame) = 0;
  // The sidecar broke the protocol: tells it (ERROR) and gives the status that ends this session.
  virtual absl::Status Refuse(const char* code, std::string_view problem) = 0;
  // Sends a GET or SCAN frame and waits for its answer (VALUES or ROWS of `rid`). Cancelled: so is the batch.
  virtual absl::StatusOr<ReceivedMessage> Ask(std::string_view frame, uint64_t seq, uint64_t rid) = 0;
  // Looks, without waiting, whether the batch at work became void: Cancelled, or the connection's error.
  virtual absl::Status Look() = 0;

 protected:
  // Binds what the program registered to the ids of WELCOME.
  void Bind(protocol::Welcome welcome) {
    welcome_ = std::move(welcome);
    inputs_ = Bound(welcome_.inputs, program_.inputs);
    closings_ = Bound(welcome_.stores, program_.closings);
    visits_ = Bound(welcome_.visits, program_.visits);
    visit_ends_ = Bound(welcome_.visits, program_.visit_ends);
    merges_ = Bound(welcome_.stores, program_.merges);
  }

 private:
  template <typename Named, typename Map>
  static std::vector<const typename Map::mapped_type*> Bound(const std::vector<Named>& things, const Map& registered) {
    std::vector<const typename Map::mapped_type*> bound;
    for (const Named& thing : things) {
      const auto found = registered.find(thing.name);
      bound.push_back(found == registered.end() ? nullptr : &found->second);
    }
    return bound;
  }

  const Program& program_;
  protocol::Welcome welcome_;
  std::vector<const Handler*> inputs_, closings_, visits_, visit_ends_;
  std::vector<const SessionMerge*> merges_;
  uint64_t last_rid_ = 0;
  TaskMemory memory_;
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_BATCH_HOST_H_
