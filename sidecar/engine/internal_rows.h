#ifndef MILLSTREAM_SIDECAR_ENGINE_INTERNAL_ROWS_H_
#define MILLSTREAM_SIDECAR_ENGINE_INTERNAL_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/bytes.h"
#include "sidecar/protocol/messages.h"

// The rows of the internal store "timers" (docs/design/0004-windows-timers.md). Integers are big-endian; times have
// their sign bit flipped, so that rows sort by time; a key is its length in four bytes and its bytes.
//
//   00                            stream time (StreamClock::Encode)
//   01 clock key name             -> time: a pending timer, by name
//   02 clock time key name        -> empty: the same, by time
//   03 time kind store key suffix -> empty: the end of a window; suffix: start (and end, for a session)
//   04 name                       -> VisitProgress: a visit under way (docs/design/0006-visit.md)
//   05 name                       -> empty: it is paused
//
// `store` is the length of its name in one byte, and the name. Pure.
namespace millstream::engine {

// What becomes due: each is a range of rows sorted by time.
enum class DueFeed : uint8_t { kEventTimers = 0, kWallTimers = 1, kWindows = 2 };
inline constexpr size_t kDueFeeds = 3;
inline DueFeed FeedOf(protocol::TimerClock clock) {
  return clock == protocol::TimerClock::kEventTime ? DueFeed::kEventTimers : DueFeed::kWallTimers;
}

Bytes StreamTimeRow();

Bytes TimerByName(protocol::TimerClock clock, std::string_view key, std::string_view name);
Bytes TimerByTime(protocol::TimerClock clock, int64_t time, std::string_view key, std::string_view name);
Bytes TimeValue(int64_t time);
// nullopt: damaged.
std::optional<int64_t> ParseTimeValue(std::string_view value);

enum class WindowEnd : uint8_t { kClose = 1, kExpire = 2 };
Bytes WindowEndRow(int64_t time, WindowEnd kind, std::string_view store, std::string_view row_key);

// All rows of a feed that are due at `from` or later: [first, second).
std::pair<Bytes, Bytes> DueRange(DueFeed feed, int64_t from);

struct DueRow {
  int64_t time = 0;
  // Timers.
  std::string_view key, name;
  // Windows.
  WindowEnd kind = WindowEnd::kClose;
  std::string_view store, row_key;
};
// The views point into `row`. nullopt: damaged.
std::optional<DueRow> ParseDueRow(DueFeed feed, std::string_view row);

Bytes VisitRow(std::string_view name);
Bytes VisitPausedRow(std::string_view name);
// All of both: [first, second).
std::pair<Bytes, Bytes> VisitRange();
struct VisitName {
  bool paused = false;
  std::string_view name;
};
// Of a row in that range; points into `row`.
VisitName ParseVisitRow(std::string_view row);

// How far a visit is.
struct VisitProgress {
  int64_t started_ms = 0;
  std::optional<Bytes> after;  // behind this key; nullopt: at the beginning
  MaybeBytes data;             // of its start
};
Bytes VisitValue(const VisitProgress& progress);
// nullopt: damaged, or of a newer version.
std::optional<VisitProgress> ParseVisitValue(std::string_view value);

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_INTERNAL_ROWS_H_
