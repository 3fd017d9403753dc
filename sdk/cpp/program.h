#ifndef MILLSTREAM_SDK_CPP_PROGRAM_H_
#define MILLSTREAM_SDK_CPP_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "millstream/worker.h"
#include "sidecar/protocol/messages.h"

namespace millstream::worker {

using HandlerMap = absl::flat_hash_map<std::string, Handler>;

// What a program registered with its App, by the names of the manifest. Not changed once the App runs.
struct Program {
  HandlerMap inputs;
  HandlerMap timers;    // by the timer's name
  HandlerMap closings;  // by store
  HandlerMap visits, visit_ends;
  absl::flat_hash_map<std::string, SessionMerge> merges;
  // Hooks; null: the program has none.
  Handler begin, finalize;
  std::function<void(int32_t task)> committed;

  // What HELLO asks for.
  std::vector<std::string> Capabilities() const;
};

// Whether the manifest has what the program handles, and the program handles what it has to. FailedPrecondition: it
// does not, the message says what to change.
absl::Status CheckFits(const Program& program, const protocol::Welcome& welcome);

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_PROGRAM_H_
