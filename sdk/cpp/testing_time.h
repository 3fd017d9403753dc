#ifndef MILLSTREAM_SDK_CPP_TESTING_TIME_H_
#define MILLSTREAM_SDK_CPP_TESTING_TIME_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millstream/testing.h"
#include "sidecar/protocol/messages.h"

namespace millstream::worker {

// Keys, or row keys, and values of a store, join or lookup of the test kit.
using KitRows = std::map<std::string, std::string>;

// How far event time has come: the lowest of the inputs' highest timestamps, each held back by its lateness. An input
// that was never fed is taken as idle.
class StreamTime {
 public:
  explicit StreamTime(std::vector<int64_t> lateness_ms)
      : lateness_ms_(std::move(lateness_ms)), highest_(lateness_ms_.size()) {}
  void Advance(uint32_t input, int64_t timestamp_ms);
  std::optional<int64_t> now() const { return now_; }

 private:
  std::vector<int64_t> lateness_ms_;
  std::vector<std::optional<int64_t>> highest_;
  std::optional<int64_t> now_;
};

// Something that is due in the test kit: a timer, a window that closes, a row of a visit.
struct KitDue {
  int64_t time_ms = 0;
  std::string key;
  protocol::RecordItem item;  // but for its key index; its views point into `name` and the kit's rows
  std::string name;           // of the timer, the store, the visit
  Window window;              // that closes
  bool keyless = false;       // the end of a visit
};

// What the sidecar does for windows, sessions and timers, with the stores of one WELCOME. Not thread-safe.
class KitTime {
 public:
  // Both outlive this; `rows` is by readable id.
  KitTime(const protocol::Welcome* welcome, std::vector<KitRows>* rows) : welcome_(*welcome), rows_(*rows) {}

  // Sessions as the items of one batch leave them, by store and key.
  using Sessions = std::map<std::pair<uint32_t, std::string>, std::vector<Window>>;
  // The windows of a record at stream time `now`, which it has advanced.
  std::vector<protocol::ItemWindow> OpenWindows(std::string_view key, int64_t timestamp_ms, int64_t now,
                                                Sessions* sessions) const;
  bool HasWindows() const;
  // The state of a windowed store per key; its values point into the rows.
  std::vector<std::vector<protocol::WindowValue>> StateOf(uint32_t store,
                                                          const std::vector<std::string_view>& keys) const;
  // A row of a store, from its row key.
  std::pair<std::string_view, Window> Parse(uint32_t store, std::string_view row) const;

  // An item with sessions is done: what was merged goes, what is left has at least an empty value.
  void Merge(std::string_view key, const std::vector<protocol::ItemWindow>& windows);
  void Apply(const protocol::TimerOp& op);
  // All that is due, the earliest first. `wall_ms`: the clock.
  std::vector<KitDue> Due(std::optional<int64_t> now, int64_t wall_ms) const;
  // It was handled, or given up.
  void Done(const KitDue& due);
  // Deletes what has outlived its retention.
  void Sweep(int64_t now);
  std::vector<TestTimer> Timers() const;

 private:
  struct TimerId {
    protocol::TimerClock clock;
    std::string name, key;
    friend auto operator<=>(const TimerId&, const TimerId&) = default;
  };
  std::string RowKey(uint32_t store, std::string_view key, const Window& window) const;
  void OpenSession(uint32_t store, std::string_view key, int64_t timestamp_ms, int64_t now, Sessions* sessions,
                   std::vector<protocol::ItemWindow>* open) const;
  // The stream time from which on the row takes no record; after which it goes.
  int64_t ClosesAt(uint32_t store, const Window& window) const;
  int64_t ExpiresAt(uint32_t store, const Window& window) const;

  const protocol::Welcome& welcome_;
  std::vector<KitRows>& rows_;
  std::map<TimerId, int64_t> timers_;
  std::set<std::pair<uint32_t, std::string>> closed_;  // rows of windows that were told
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_TESTING_TIME_H_
