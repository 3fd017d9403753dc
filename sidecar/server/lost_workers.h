#ifndef MILLSTREAM_SIDECAR_SERVER_LOST_WORKERS_H_
#define MILLSTREAM_SIDECAR_SERVER_LOST_WORKERS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "sidecar/server/worker_server.h"

namespace millstream::server {

// A program that was a worker, lost its connection, and lives on without another one.
struct LostWorker {
  int64_t pid = 0;   // 0: it runs where its number says nothing to us (another container)
  std::string name;  // its own words; may be empty
  std::string cause;
  absl::Duration since;  // monotonic time
};

// Tells programs that hang from those that crashed or connect again.
//
// A program whose connection was cut off (its batch's deadline passed, it did not answer PING) and which is alive
// connects again within milliseconds; one that crashed is gone. What is left after kGrace hangs, and a hanging program
// never restarts itself: whoever may has to kill it, whoever may not has to say so. With several worker processes the
// others go on meanwhile, so that nothing else would show it.
//
// Not thread-safe. At most kMostLost are kept, the oldest are forgotten first.
class LostWorkers {
 public:
  static constexpr absl::Duration kGrace = absl::Seconds(3);
  static constexpr size_t kMostLost = 64;

  // Something that stays the same as long as a process lives and differs from an earlier process of the same number;
  // nullopt: there is no such process (one that waits to be reaped does not count).
  using ProcessLookup = std::function<std::optional<uint64_t>(int64_t pid)>;
  // By /proc: when the process was started.
  static std::optional<uint64_t> StartOfProcess(int64_t pid);

  // `clock` outlives it.
  explicit LostWorkers(const Clock* clock, ProcessLookup lookup = StartOfProcess);

  void Connected(const ConnectedWorker& worker);
  // As told by WorkerEvents. Nobody is lost who left in order.
  void Disconnected(WorkerId id, const absl::Status& cause, bool orderly);

  // Those lost for at least kGrace whose process still lives.
  std::vector<LostWorker> Hanging() const;

 private:
  struct Connection {
    int64_t pid;
    std::optional<uint64_t> start;
    std::string name;
  };
  struct Entry {
    LostWorker worker;
    std::optional<uint64_t> start;  // of the process; nullopt with pid 0
  };
  bool Ended(const Entry& entry) const;

  const Clock* const clock_;
  const ProcessLookup lookup_;
  const int64_t own_pid_;
  std::map<WorkerId, Connection> connections_;  // sidecar.workers.max of them
  std::deque<Entry> lost_;                      // oldest first
};

}  // namespace millstream::server

#endif  // MILLSTREAM_SIDECAR_SERVER_LOST_WORKERS_H_
