#include "sidecar/engine/internal_rows.h"

#include <utility>

namespace millstream::engine {
namespace {

using protocol::TimerClock;

constexpr char kStreamTime = 0, kByName = 1, kByTime = 2, kWindowEnd = 3, kVisit = 4, kVisitPaused = 5;
constexpr char kVisitVersion = 1;
constexpr char kHasAfter = 1, kHasData = 2;
constexpr uint64_t kTimeSignBit = uint64_t{1} << 63;

void AppendTime(int64_t time, Bytes* out) { AppendBigEndian64(static_cast<uint64_t>(time) ^ kTimeSignBit, out); }
int64_t ReadTime(std::string_view from) { return static_cast<int64_t>(ReadBigEndian64(from) ^ kTimeSignBit); }

void AppendKey(std::string_view key, Bytes* out) {
  AppendBigEndian32(static_cast<uint32_t>(key.size()), out);
  out->append(key);
}

Bytes Prefix(DueFeed feed) {
  if (feed == DueFeed::kWindows) return Bytes(1, kWindowEnd);
  return {kByTime, static_cast<char>(feed)};
}

}  // namespace

Bytes StreamTimeRow() { return Bytes(1, kStreamTime); }

Bytes TimerByName(TimerClock clock, std::string_view key, std::string_view name) {
  Bytes row = {kByName, static_cast<char>(clock)};
  AppendKey(key, &row);
  row.append(name);
  return row;
}

Bytes TimerByTime(TimerClock clock, int64_t time, std::string_view key, std::string_view name) {
  Bytes row = Prefix(FeedOf(clock));
  AppendTime(time, &row);
  AppendKey(key, &row);
  row.append(name);
  return row;
}

Bytes TimeValue(int64_t time) {
  Bytes value;
  AppendBigEndian64(static_cast<uint64_t>(time), &value);
  return value;
}

std::optional<int64_t> ParseTimeValue(std::string_view value) {
  if (value.size() != 8) return std::nullopt;
  return static_cast<int64_t>(ReadBigEndian64(value));
}

Bytes WindowEndRow(int64_t time, WindowEnd kind, std::string_view store, std::string_view row_key) {
  Bytes row = Prefix(DueFeed::kWindows);
  AppendTime(time, &row);
  row += static_cast<char>(kind);
  row += static_cast<char>(store.size());
  row.append(store);
  row.append(row_key);
  return row;
}

std::pair<Bytes, Bytes> DueRange(DueFeed feed, int64_t from) {
  Bytes first = Prefix(feed);
  Bytes second = *PrefixEnd(first);
  AppendTime(from, &first);
  return {std::move(first), std::move(second)};
}

std::optional<DueRow> ParseDueRow(DueFeed feed, std::string_view row) {
  DueRow due;
  const size_t prefix = Prefix(feed).size();
  if (row.size() < prefix + 10) return std::nullopt;
  due.time = ReadTime(row.substr(prefix));
  row.remove_prefix(prefix + 8);
  if (feed == DueFeed::kWindows) {
    due.kind = static_cast<WindowEnd>(row[0]);
    const size_t name = static_cast<uint8_t>(row[1]);
    row.remove_prefix(2);
    if ((due.kind != WindowEnd::kClose && due.kind != WindowEnd::kExpire) || row.size() < name) return std::nullopt;
    due.store = row.substr(0, name);
    due.row_key = row.substr(name);
    return due;
  }
  if (row.size() < 4) return std::nullopt;
  const size_t key = ReadBigEndian32(row);
  row.remove_prefix(4);
  if (row.size() < key) return std::nullopt;
  due.key = row.substr(0, key);
  due.name = row.substr(key);
  return due;
}

Bytes VisitRow(std::string_view name) { return Bytes(1, kVisit).append(name); }

Bytes VisitPausedRow(std::string_view name) { return Bytes(1, kVisitPaused).append(name); }

std::pair<Bytes, Bytes> VisitRange() { return {Bytes(1, kVisit), Bytes(1, kVisitPaused + 1)}; }

VisitName ParseVisitRow(std::string_view row) { return {row[0] == kVisitPaused, row.substr(1)}; }

Bytes VisitValue(const VisitProgress& progress) {
  Bytes value(1, kVisitVersion);
  AppendTime(progress.started_ms, &value);
  value += static_cast<char>((progress.after ? kHasAfter : 0) | (progress.data ? kHasData : 0));
  if (progress.after) AppendKey(*progress.after, &value);
  if (progress.data) value.append(*progress.data);
  return value;
}

std::optional<VisitProgress> ParseVisitValue(std::string_view value) {
  if (value.size() < 10 || value[0] != kVisitVersion) return std::nullopt;
  VisitProgress progress;
  progress.started_ms = ReadTime(value.substr(1));
  const char has = value[9];
  value.remove_prefix(10);
  if ((has & kHasAfter) != 0) {
    if (value.size() < 4) return std::nullopt;
    const size_t key = ReadBigEndian32(value);
    value.remove_prefix(4);
    if (value.size() < key) return std::nullopt;
    progress.after.emplace(value.substr(0, key));
    value.remove_prefix(key);
  }
  if ((has & kHasData) != 0) progress.data.emplace(value);
  return progress;
}

}  // namespace millstream::engine
