#ifndef MILLSTREAM_SIDECAR_ENGINE_WINDOWS_H_
#define MILLSTREAM_SIDECAR_ENGINE_WINDOWS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "common/spec/stream_processor.h"

// Windows and sessions as arithmetic: which a time belongs to, when they end, the keys of their rows. Pure. Times are
// milliseconds since 1970; sums are kept within int64_t (event_time.h).
namespace millstream::engine {

// A window [start, end), or a session from its first record to its last.
struct Bounds {
  int64_t start = 0, end = 0;
  friend auto operator<=>(const Bounds&, const Bounds&) = default;
};

// All windows that `time` is in, by start. At most size / advance of them (rounded up).
std::vector<Bounds> WindowsOf(const spec::WindowSpec& window, int64_t time);
// Whether `start` is one of the starts.
bool IsWindowStart(const spec::WindowSpec& window, int64_t start);
Bounds WindowAt(const spec::WindowSpec& window, int64_t start);

// From this stream time on the store takes no more records for it.
int64_t ClosesAt(const spec::StoreSpec& store, const Bounds& bounds);
// From this stream time on its row is gone.
int64_t ExpiresAt(const spec::StoreSpec& store, const Bounds& bounds);

// The row of a windowed store: the key, then the window's start as a signed big-endian integer; of a session start and
// end, with the sign bit flipped, so that the sessions of a key sort by time.
Bytes RowKey(const spec::StoreSpec& store, std::string_view key, const Bounds& bounds);
struct RowParts {
  std::string_view key;
  Bounds bounds;
};
// nullopt: no window of this store has such a row.
std::optional<RowParts> ParseRowKey(const spec::StoreSpec& store, std::string_view row);

// What a record at `time` makes of the sessions of its key (by start; more than a gap lies between any two).
struct SessionStep {
  Bounds bounds;               // with the record
  std::vector<Bounds> merged;  // what it is made of
};
SessionStep Join(const spec::SessionSpec& session, const std::vector<Bounds>& sessions, int64_t time);
// Takes what was merged out and puts the result in.
void Replace(const SessionStep& step, std::vector<Bounds>* sessions);

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_WINDOWS_H_
