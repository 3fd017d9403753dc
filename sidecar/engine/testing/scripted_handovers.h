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

// A record of the scripted world.
std::string RecordName(int64_t id);

// What was handed to handlers, by all processes of a world, by the names above: AtMostOnce promises that nothing comes
// twice, and that where processes and transactions hold only what a worker has when it ends is lost.
class Handovers {
 public:
  // A handler is called with it.
  void Called(const std::string& name) { ++calls_[name]; }
  const std::map<std::string, int>& calls() const { return calls_; }

  // A frame to a worker of the process, an answer of it, and its end, in the order the engine sees them.
  void Sent(const std::string& process, WorkerId worker, std::string_view frame);
  void Answered(const std::string& process, WorkerId worker, const protocol::Result& result);
  void WorkerGone(const std::string& process, WorkerId worker);
  // All its workers went with it.
  void ProcessGone(const std::string& process);

  bool MayBeLost(const std::string& name) const { return lost_.contains(name); }

 private:
  using Place = std::pair<std::string, WorkerId>;

  void Lose(const std::vector<std::string>& names) { lost_.insert(names.begin(), names.end()); }

  std::map<std::string, int> calls_;
  std::map<Place, std::map<uint64_t, std::vector<std::string>>> out_;  // by batch
  std::set<std::string> lost_;
};

}  // namespace millstream::engine::testing

#endif  // MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_HANDOVERS_H_
