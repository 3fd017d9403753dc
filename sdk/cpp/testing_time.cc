#include "sdk/cpp/testing_time.h"

#include <algorithm>
#include <tuple>

#include "sdk/cpp/row_key.h"

namespace millstream::worker {
namespace {

using ItemType = protocol::RecordItem::Type;

// Rounds towards minus infinity.
int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0); }

}  // namespace

void StreamTime::Advance(uint32_t input, int64_t timestamp_ms) {
  highest_[input] = std::max(highest_[input].value_or(timestamp_ms), timestamp_ms);
  std::optional<int64_t> lowest;
  for (size_t i = 0; i < highest_.size(); ++i) {
    if (!highest_[i].has_value()) continue;
    const int64_t time = *highest_[i] - lateness_ms_[i];
    lowest = std::min(lowest.value_or(time), time);
  }
  now_ = std::max(now_.value_or(*lowest), *lowest);
}

bool KitTime::HasWindows() const { return std::any_of(welcome_.stores.begin(), welcome_.stores.end(), IsWindowed); }

std::string KitTime::RowKey(uint32_t store, std::string_view key, const Window& window) const {
  std::string row(key);
  AppendRowSuffix(IsSession(welcome_.stores[store]), window, &row);
  return row;
}

std::pair<std::string_view, Window> KitTime::Parse(uint32_t store, std::string_view row) const {
  const protocol::StoreInfo& info = welcome_.stores[store];
  if (IsSession(info)) {
    const size_t key = row.size() - kSessionSuffix;
    const auto number = [&](size_t at) { return static_cast<int64_t>(ReadBigEndian64(row.substr(at)) ^ kSignBit); };
    return {row.substr(0, key), {number(key), number(key + 8)}};
  }
  const size_t key = row.size() - kWindowSuffix;
  const auto start = static_cast<int64_t>(ReadBigEndian64(row.substr(key)));
  return {row.substr(0, key), {start, start + info.window->size_ms}};
}

int64_t KitTime::ClosesAt(uint32_t store, const Window& window) const {
  const protocol::StoreInfo& info = welcome_.stores[store];
  if (IsSession(info)) return window.end_ms + info.session->grace_ms + info.session->gap_ms + 1;
  return window.end_ms + info.window->grace_ms;
}

int64_t KitTime::ExpiresAt(uint32_t store, const Window& window) const {
  const protocol::StoreInfo& info = welcome_.stores[store];
  if (IsSession(info)) return window.end_ms + info.session->retention_ms + 1;
  return window.start_ms + info.window->retention_ms;
}

std::vector<protocol::ItemWindow> KitTime::OpenWindows(std::string_view key, int64_t timestamp_ms, int64_t now,
                                                       Sessions* sessions) const {
  std::vector<protocol::ItemWindow> open;
  for (uint32_t store = 0; store < welcome_.stores.size(); ++store) {
    const protocol::StoreInfo& info = welcome_.stores[store];
    if (IsSession(info)) OpenSession(store, key, timestamp_ms, now, sessions, &open);
    if (!info.window.has_value()) continue;
    const auto& [size, advance, grace, retention, final] = *info.window;
    const int64_t first = FloorDiv(timestamp_ms - size, advance) * advance + advance;
    for (int64_t start = first; start <= timestamp_ms; start += advance) {
      if (ClosesAt(store, {start, start + size}) > now) open.push_back({store, start, start + size, false, {}});
    }
  }
  return open;
}

void KitTime::OpenSession(uint32_t store, std::string_view key, int64_t timestamp_ms, int64_t now, Sessions* sessions,
                          std::vector<protocol::ItemWindow>* open) const {
  const auto [entry, is_new] = sessions->try_emplace({store, std::string(key)});
  std::vector<Window>& known = entry->second;
  if (is_new) {
    for (const auto& [row, value] : rows_[store]) {
      const auto [of, bounds] = Parse(store, row);
      if (of == key) known.push_back(bounds);
    }
  }
  const int64_t gap = welcome_.stores[store].session->gap_ms;
  protocol::ItemWindow session{store, timestamp_ms, timestamp_ms, true, {}};
  std::vector<Window> others;
  for (const Window& each : known) {
    if (ExpiresAt(store, each) <= now) continue;
    if (each.start_ms > timestamp_ms + gap || each.end_ms < timestamp_ms - gap) {
      others.push_back(each);
      continue;
    }
    session.start_ms = std::min(session.start_ms, each.start_ms);
    session.end_ms = std::max(session.end_ms, each.end_ms);
    session.merged.emplace_back(each.start_ms, each.end_ms);
  }
  // One that was given stays as it is.
  const bool over = welcome_.stores[store].session->final &&
                    std::any_of(session.merged.begin(), session.merged.end(), [&](const auto& merged) {
                      return ClosesAt(store, {merged.first, merged.second}) <= now;
                    });
  if (over || ClosesAt(store, {session.start_ms, session.end_ms}) <= now) return;
  std::sort(session.merged.begin(), session.merged.end());
  others.push_back({session.start_ms, session.end_ms});
  known = std::move(others);
  open->push_back(std::move(session));
}

std::vector<std::vector<protocol::WindowValue>> KitTime::StateOf(uint32_t store,
                                                                 const std::vector<std::string_view>& keys) const {
  std::vector<std::vector<protocol::WindowValue>> state(keys.size());
  for (const auto& [row, value] : rows_[store]) {
    const auto [key, window] = Parse(store, row);
    const auto found = std::find(keys.begin(), keys.end(), key);
    if (found == keys.end()) continue;
    state[static_cast<size_t>(found - keys.begin())].push_back(
        {window.start_ms, window.end_ms, {protocol::StateValue::What::kValue, value}});
  }
  return state;
}

void KitTime::Merge(std::string_view key, const std::vector<protocol::ItemWindow>& windows) {
  for (const protocol::ItemWindow& window : windows) {
    if (!window.session) continue;
    const Window bounds{window.start_ms, window.end_ms};
    for (const auto& [start, end] : window.merged) {
      if (Window{start, end} != bounds) rows_[window.store].erase(RowKey(window.store, key, {start, end}));
    }
    rows_[window.store].try_emplace(RowKey(window.store, key, bounds));
  }
}

void KitTime::Apply(const protocol::TimerOp& op) {
  const TimerId id{op.clock, std::string(op.name), std::string(op.key)};
  if (op.time_ms.has_value()) {
    timers_[id] = *op.time_ms;
  } else {
    timers_.erase(id);
  }
}

std::vector<KitDue> KitTime::Due(std::optional<int64_t> now, int64_t wall_ms) const {
  std::vector<KitDue> due;
  for (const auto& [id, time] : timers_) {
    const std::optional<int64_t> clock = id.clock == protocol::TimerClock::kWallClock ? wall_ms : now;
    if (!clock.has_value() || time > *clock) continue;
    KitDue& one = due.emplace_back(KitDue{time, id.key, {}, id.name, {}, false});
    one.item.type = ItemType::kTimer;
    one.item.clock = id.clock;
    one.item.timestamp_ms = time;
  }
  for (uint32_t store = 0; store < welcome_.stores.size() && now.has_value(); ++store) {
    const protocol::StoreInfo& info = welcome_.stores[store];
    if (!IsFinal(info)) continue;
    for (const auto& [row, value] : rows_[store]) {
      const auto [key, window] = Parse(store, row);
      const int64_t time = ClosesAt(store, window);
      if (time > *now || closed_.contains({store, row})) continue;
      KitDue& one = due.emplace_back(KitDue{time, std::string(key), {}, info.name, window, false});
      one.item.type = ItemType::kClosing;
      one.item.store = store;
      one.item.closing = {window.start_ms, window.end_ms, {protocol::StateValue::What::kValue, value}};
    }
  }
  std::stable_sort(due.begin(), due.end(), [](const KitDue& a, const KitDue& b) { return a.time_ms < b.time_ms; });
  for (KitDue& one : due) {
    if (one.item.type == ItemType::kTimer) one.item.name = one.name;
  }
  return due;
}

void KitTime::Done(const KitDue& due) {
  if (due.item.type == ItemType::kTimer) {
    timers_.erase({due.item.clock, due.name, due.key});
  } else {
    closed_.emplace(due.item.store, RowKey(due.item.store, due.key, due.window));
  }
}

void KitTime::Sweep(int64_t now) {
  for (uint32_t store = 0; store < welcome_.stores.size(); ++store) {
    const protocol::StoreInfo& info = welcome_.stores[store];
    if (!IsWindowed(info)) continue;
    const bool told = IsFinal(info);
    std::erase_if(rows_[store], [&](const auto& row) {
      if (ExpiresAt(store, Parse(store, row.first).second) > now) return false;
      return !told || closed_.erase({store, row.first}) > 0;
    });
  }
}

std::vector<TestTimer> KitTime::Timers() const {
  std::vector<TestTimer> timers;
  for (const auto& [id, time] : timers_) {
    const bool wall = id.clock == protocol::TimerClock::kWallClock;
    timers.push_back({time, id.name, id.key, wall ? TimerClock::kWallClock : TimerClock::kEventTime});
  }
  std::stable_sort(timers.begin(), timers.end(),
                   [](const TestTimer& a, const TestTimer& b) { return a.time_ms < b.time_ms; });
  return timers;
}

}  // namespace millstream::worker
