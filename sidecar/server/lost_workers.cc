#include "sidecar/server/lost_workers.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "common/base/strings.h"

namespace millstream::server {

std::optional<uint64_t> LostWorkers::StartOfProcess(int64_t pid) {
  std::ifstream file(StrCat("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // proc(5): pid (name) state ..., the start time is field 22. The name may hold blanks and brackets.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  std::string state, skipped;
  fields >> state;
  if (state == "Z" || state == "X") return std::nullopt;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  uint64_t start = 0;
  fields >> start;
  return fields ? std::optional<uint64_t>(start) : std::nullopt;
}

LostWorkers::LostWorkers(const Clock* clock, ProcessLookup lookup)
    : clock_(clock), lookup_(std::move(lookup)), own_pid_(getpid()) {}

void LostWorkers::Connected(const ConnectedWorker& worker) {
  if (worker.pid == own_pid_) return;  // a thread of ours
  connections_[worker.id] = {
      .pid = worker.pid, .start = worker.pid > 0 ? lookup_(worker.pid) : std::nullopt, .name = worker.hello.name};
  const auto same = [&](const Entry& entry) { return entry.worker.pid == worker.pid; };
  if (worker.pid > 0) {
    lost_.erase(std::remove_if(lost_.begin(), lost_.end(), same), lost_.end());
  } else if (const auto first = std::find_if(lost_.begin(), lost_.end(), same); first != lost_.end()) {
    // Without a number nobody can say which one came back, or was replaced: the one lost longest.
    lost_.erase(first);
  }
}

void LostWorkers::Disconnected(WorkerId id, const absl::Status& cause, bool orderly) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const Connection connection = std::move(found->second);
  connections_.erase(found);
  // Cut off by us: FAILED_PRECONDITION (WorkerServer). Of a worker without a number that went away by itself the
  // likely story is that it ended.
  const bool cut_off = absl::IsFailedPrecondition(cause);
  if (orderly || (connection.pid == 0 && !cut_off)) return;
  if (connection.pid > 0) {
    const bool has_another = std::any_of(connections_.begin(), connections_.end(),
                                         [&](const auto& other) { return other.second.pid == connection.pid; });
    if (has_another || !connection.start.has_value()) return;
  }
  lost_.erase(std::remove_if(lost_.begin(), lost_.end(), [this](const Entry& entry) { return Ended(entry); }),
              lost_.end());
  lost_.push_back({.worker = {.pid = connection.pid,
                              .name = connection.name,
                              .cause = std::string(cause.message()),
                              .since = clock_->Monotonic()},
                   .start = connection.start});
  if (lost_.size() > kMostLost) lost_.pop_front();
}

bool LostWorkers::Ended(const Entry& entry) const {
  return entry.worker.pid > 0 && lookup_(entry.worker.pid) != entry.start;
}

std::vector<LostWorker> LostWorkers::Hanging() const {
  const absl::Duration now = clock_->Monotonic();
  std::vector<LostWorker> hanging;
  for (const Entry& entry : lost_) {
    if (now - entry.worker.since >= kGrace && !Ended(entry)) hanging.push_back(entry.worker);
  }
  return hanging;
}

}  // namespace millstream::server
