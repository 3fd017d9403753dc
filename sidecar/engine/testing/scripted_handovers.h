#ifndef MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_HANDOVERS_H_
#define MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_HANDOVERS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sidecar/engine/io.h"
#include "sidecar/protocol/messages.h"

namespace millstream::engine::testing {

// The output of an item that is not a record: of a timer, a closing, a visit.
std::string DueOutput(const protocol::Batch& batch, const protocol::RecordItem& item);

// What was handed to handlers, by all processes of a world: AtMostOnce promises that no record comes twice, and that
// what was due is lost only with the worker that had it, or with the limits of its batch.
class Handovers {
 public:
  // A handler is called with the record of this id.
  void Called(int64_t id) { ++calls_[id]; }
  const std::map<int64_t, int>& calls() const { return calls_; }

  // A frame to a worker of the process, an answer of it, and its end, in the order the engine sees them.
  void Sent(const std::string& process, WorkerId worker, std::string_view frame);
  void Answered(const std::string& process, WorkerId worker, const protocol::Result& result);
  void WorkerGone(const std::string& process, WorkerId worker);
  // All its workers went with it: what they had is due still.
  void ProcessGone(const std::string& process);

  bool MayBeLost(const std::string& due_output) const { return lost_.contains(due_output); }

 private:
  using Place = std::pair<std::string, WorkerId>;

  std::map<int64_t, int> calls_;
  std::map<Place, std::map<uint64_t, std::vector<std::string>>> out_;  // what was due, by batch
  std::set<std::string> lost_;
};

}  // namespace millstream::engine::testing

#endif  // MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_HANDOVERS_H_
