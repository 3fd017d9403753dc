#include "sidecar/engine/windows.h"

#include <algorithm>

#include "common/base/status.h"
#include "sidecar/engine/event_time.h"

namespace millstream::engine {
namespace {

constexpr uint64_t kSignBit = uint64_t{1} << 63;

int64_t Millis(absl::Duration duration) { return absl::ToInt64Milliseconds(duration); }

// The largest multiple of `step` that is at most `time`; kNoTime if there is none.
int64_t FloorTo(int64_t time, int64_t step) {
  const int64_t rest = time % step;
  return rest >= 0 ? time - rest : SubtractTime(time, rest + step);
}

}  // namespace

std::vector<Bounds> WindowsOf(const spec::WindowSpec& window, int64_t time) {
  const int64_t size = Millis(window.size), advance = Millis(window.advance);
  std::vector<Bounds> windows;
  for (int64_t start = FloorTo(time, advance); start != kNoTime && SubtractTime(time, start) < size;
       start = SubtractTime(start, advance)) {
    windows.push_back({start, AddTime(start, size)});
  }
  std::reverse(windows.begin(), windows.end());
  return windows;
}

bool IsWindowStart(const spec::WindowSpec& window, int64_t start) { return start % Millis(window.advance) == 0; }

Bounds WindowAt(const spec::WindowSpec& window, int64_t start) { return {start, AddTime(start, Millis(window.size))}; }

int64_t ClosesAt(const spec::StoreSpec& store, const Bounds& bounds) {
  if (store.window) return AddTime(bounds.end, Millis(store.window->grace));
  // One beyond: a record exactly a gap behind still belongs to the session.
  return AddTime(bounds.end, Millis(store.session->gap) + Millis(store.session->grace) + 1);
}

int64_t ExpiresAt(const spec::StoreSpec& store, const Bounds& bounds) {
  if (store.window) return AddTime(bounds.start, Millis(store.window->retention));
  return AddTime(bounds.end, Millis(store.session->retention) + 1);
}

Bytes RowKey(const spec::StoreSpec& store, std::string_view key, const Bounds& bounds) {
  Bytes row(key);
  const uint64_t flip = store.session ? kSignBit : 0;
  AppendBigEndian64(static_cast<uint64_t>(bounds.start) ^ flip, &row);
  if (store.session) AppendBigEndian64(static_cast<uint64_t>(bounds.end) ^ flip, &row);
  return row;
}

std::optional<RowParts> ParseRowKey(const spec::StoreSpec& store, std::string_view row) {
  const size_t suffix = store.session ? 16 : 8;
  if (row.size() < suffix) return std::nullopt;
  RowParts parts;
  parts.key = row.substr(0, row.size() - suffix);
  const uint64_t first = ReadBigEndian64(row.substr(parts.key.size()));
  if (store.session) {
    parts.bounds = {static_cast<int64_t>(first ^ kSignBit),
                    static_cast<int64_t>(ReadBigEndian64(row.substr(parts.key.size() + 8)) ^ kSignBit)};
    if (parts.bounds.end < parts.bounds.start) return std::nullopt;
  } else {
    const auto start = static_cast<int64_t>(first);
    if (!IsWindowStart(*store.window, start)) return std::nullopt;
    parts.bounds = WindowAt(*store.window, start);
  }
  return parts;
}

SessionStep Join(const spec::SessionSpec& session, const std::vector<Bounds>& sessions, int64_t time) {
  const int64_t gap = Millis(session.gap);
  const int64_t low = SubtractTime(time, gap), high = AddTime(time, gap);
  SessionStep step{{time, time}, {}};
  // Sessions are apart, so their ends are sorted as their starts are.
  auto first = std::lower_bound(sessions.begin(), sessions.end(), low,
                                [](const Bounds& bounds, int64_t from) { return bounds.end < from; });
  for (; first != sessions.end() && first->start <= high; ++first) {
    step.bounds.start = std::min(step.bounds.start, first->start);
    step.bounds.end = std::max(step.bounds.end, first->end);
    step.merged.push_back(*first);
  }
  return step;
}

void Replace(const SessionStep& step, std::vector<Bounds>* sessions) {
  auto at = std::lower_bound(sessions->begin(), sessions->end(), step.bounds.start,
                             [](const Bounds& bounds, int64_t from) { return bounds.start < from; });
  at = sessions->erase(at, at + static_cast<ptrdiff_t>(step.merged.size()));
  sessions->insert(at, step.bounds);
}

}  // namespace millstream::engine
