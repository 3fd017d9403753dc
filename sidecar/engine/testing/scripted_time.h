#ifndef MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_TIME_H_
#define MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_TIME_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/spec/stream_processor.h"
#include "sidecar/engine/testing/scripted_handler.h"

// Event time in the scripted world: what the user code does with windows, sessions and timers, and a model of what must
// come of it: plain loops over all records of a task, nothing incremental. The worker and the model share the functions
// of values; windows, lateness, merging and ends are the model's own.
namespace millstream::engine::testing {

// Behind kTotals and kIndex.
constexpr uint32_t kMinutes = 2;  // tumbling, given once when they close
constexpr uint32_t kHops = 3;     // hopping
constexpr uint32_t kVisits = 4;   // sessions
constexpr uint32_t kRecent = 5;   // one value per record key, with a ttl; prefetched, read by GET and SCAN as well
constexpr uint32_t kStays = 6;    // sessions, given once when they close
// The stores above and the internal one.
void AddTimedStores(spec::StreamProcessorSpec* spec);

// When the record happened: near its place in the order, now and then far behind or negative.
int64_t TimeOf(int64_t id);
// A window's value once the record is in it; `before`: what it was.
std::string NextValue(const MaybeBytes& before, int64_t id);
// The same of a session, with the values it is made of.
std::string NextSession(const std::vector<std::string>& merged, int64_t id);
// What the record with this id and key reads of kRecent beside its own row, what it makes of it (nullopt: it deletes
// its row).
struct RecentReads {
  MaybeBytes own, other;
  std::vector<std::pair<Bytes, Bytes>> rows;
};
std::optional<std::string> OtherRecent(int64_t id, const std::string& key);
bool ScansRecent(int64_t id);  // [RecentFrom, RecentTo)
inline constexpr char kRecentFrom[] = "k0", kRecentTo[] = "k3";
std::optional<std::string> NextRecent(const RecentReads& reads, int64_t id);
// The step of stream time that a row of kRecent becomes hidden at.
int64_t HiddenFrom(int64_t written);
inline constexpr int kRecentSteps = 8;  // EngineOptions::ttl_steps

// What comes out of a window that closes, and of a timer that is due. No record's output looks like these, or like
// those of visits, which IsTimedOutput knows too.
std::string ClosingOutput(std::string_view key, int64_t start, std::string_view value);
std::string TimerOutput(std::string_view key, std::string_view name, int64_t time);
bool IsTimedOutput(std::string_view output);

struct SetTimer {
  std::string key, name;
  bool wall = false;
  std::optional<int64_t> time;  // nullopt: cancel
};
// By the record with this id and key.
std::vector<SetTimer> TimersOf(int64_t id, const std::string& key);

class TimedModel {
 public:
  explicit TimedModel(const spec::StreamProcessorSpec& spec) : spec_(spec) {}

  // In the order of the log. False: it is late for everything, and nobody sees it.
  bool Record(const std::optional<std::string>& key, int64_t id);
  // The same for one that fails for good: time has passed, and that is all. False: it was late, and nobody tried.
  bool Reject(const std::optional<std::string>& key, int64_t id);
  // At the end.
  std::map<std::string, int> Outputs() const;  // of closings and timers, how often each
  std::map<Bytes, Bytes> Rows(uint32_t store) const;
  // kRecent: those that are not hidden, each with the step it becomes so at.
  using RecentRows = std::map<Bytes, std::pair<Bytes, int64_t>>;
  RecentRows Recent() const;
  bool Hides(int64_t written) const;
  std::map<std::pair<std::string, std::string>, int64_t> PendingTimers() const;
  std::optional<int64_t> stream_time() const { return now_; }
  size_t ends() const;  // windows and sessions that have not expired

 private:
  using Key = std::pair<std::string, std::pair<int64_t, int64_t>>;  // key, start, end
  void Advance(int64_t id);
  bool TakenByWindow(uint32_t store, int64_t at) const;
  bool TakenBySession(uint32_t store, const std::string& key, int64_t at) const;
  void JoinSession(uint32_t store, const std::string& key, int64_t id, int64_t at);
  void Remember(const std::string& key, int64_t id, int64_t at);

  spec::StreamProcessorSpec spec_;
  std::optional<int64_t> now_;
  std::map<uint32_t, std::map<Key, std::string>> windows_;                          // all there ever were
  std::map<uint32_t, std::map<Key, std::string>> sessions_;                         // merged ones are gone
  std::map<std::string, std::pair<std::string, int64_t>> recent_;                   // written; never swept
  std::map<std::pair<std::string, std::string>, std::pair<int64_t, bool>> timers_;  // time, by the wall clock
};

}  // namespace millstream::engine::testing

#endif  // MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_TIME_H_
