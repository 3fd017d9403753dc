#include "sidecar/engine/testing/scripted_time.h"

#include <algorithm>

#include "common/base/strings.h"
#include "sidecar/engine/testing/scripted_visits.h"
#include "sidecar/engine/windows.h"

namespace millstream::engine::testing {
namespace {

constexpr int64_t kIds = 1'000'000;  // per task, as in the world
constexpr int64_t kNever = 1'000'000'000;
constexpr int64_t kTtl = 60, kStep = kTtl / kRecentSteps;

int64_t FloorTo(int64_t time, int64_t step) { return (time - (time % step + step) % step); }

uint64_t Mix(int64_t id) {
  uint64_t hash = static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

std::string DigestOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return StrCat(hash % 1'000'000'007);
}

int64_t Millis(absl::Duration duration) { return absl::ToInt64Milliseconds(duration); }

}  // namespace

void AddTimedStores(spec::StreamProcessorSpec* spec) {
  auto add = [&](const char* name, spec::StoreType type) -> spec::StoreSpec& {
    spec::StoreSpec& store = spec->stores.emplace_back();
    store.name = name;
    store.type = type;
    store.changelog = {true, StrCat("g-", name, "-changelog"), {}};
    return store;
  };
  add("minutes", spec::StoreType::kWindow).window = {absl::Milliseconds(50), absl::Milliseconds(50),
                                                     absl::Milliseconds(20), absl::Milliseconds(90), true};
  add("hops", spec::StoreType::kWindow).window = {absl::Milliseconds(60), absl::Milliseconds(20), absl::ZeroDuration(),
                                                  absl::Milliseconds(60), false};
  add("visits", spec::StoreType::kSession).session = {absl::Milliseconds(15), absl::Milliseconds(10),
                                                      absl::Milliseconds(40)};
  add("recent", spec::StoreType::kKeyValue).ttl = absl::Milliseconds(kTtl);
  spec->inputs[0].prefetch.push_back("recent");
  add("stays", spec::StoreType::kSession).session = {absl::Milliseconds(12), absl::Milliseconds(10),
                                                     absl::Milliseconds(35), true};
  add("timers", spec::StoreType::kKeyValue).internal = true;
  spec->timers = true;
}

int64_t TimeOf(int64_t id) {
  const int64_t place = id % kIds;
  const int64_t spread = Mix(id) % 16 == 0 ? 150 : 25;
  return place * 4 - static_cast<int64_t>(Mix(id + 1) % static_cast<uint64_t>(spread));
}

std::string NextValue(const MaybeBytes& before, int64_t id) { return DigestOf(StrCat(before.value_or("-"), "|", id)); }

std::string NextSession(const std::vector<std::string>& merged, int64_t id) {
  std::string all;
  for (const std::string& value : merged) StrAppend(&all, value, "+");
  return DigestOf(StrCat(all, id));
}

std::optional<std::string> OtherRecent(int64_t id, const std::string& key) {
  if (id % 3 != 0) return std::nullopt;
  return StrCat("k", id % 5, key.substr(key.find('@')));  // of the same task
}
bool ScansRecent(int64_t id) { return id % 4 == 1; }

std::optional<std::string> NextRecent(const RecentReads& reads, int64_t id) {
  if (id % 9 == 5) return std::nullopt;
  std::string all = StrCat(reads.own.value_or("-"), "|", reads.other.value_or("-"), "|", id);
  for (const auto& [key, value] : reads.rows) StrAppend(&all, "|", key, "=", value);
  return DigestOf(all);
}

int64_t HiddenFrom(int64_t written) { return -FloorTo(-written, kStep) + kTtl; }

std::string ClosingOutput(std::string_view key, int64_t start, std::string_view value) {
  return StrCat("c|", key, "|", start, "|", value);
}
std::string TimerOutput(std::string_view key, std::string_view name, int64_t time) {
  return StrCat("t|", key, "|", name, "|", time);
}
bool IsTimedOutput(std::string_view output) {
  return output.starts_with("c|") || output.starts_with("t|") || IsVisitOutput(output);
}

std::vector<SetTimer> TimersOf(int64_t id, const std::string& key) {
  const int64_t place = id % kIds;
  const std::string other = StrCat("T", key.substr(key.find('@')));  // of the same task
  std::vector<SetTimer> timers;
  if (place % 2 == 0) timers.push_back({key, StrCat("own", id), false, TimeOf(id) + 25});
  if (place % 6 == 0) timers.push_back({key, StrCat("wall", id), true, 1});
  switch (place % 5) {
    case 0:
      timers.push_back({other, StrCat("move", id), false, kNever});
      break;
    case 1:
      timers.push_back({other, StrCat("move", id - 1), false, TimeOf(id) + 40});
      break;
    case 2:
      timers.push_back({other, StrCat("drop", id), false, kNever});
      break;
    case 3:
      timers.push_back({other, StrCat("drop", id - 1), false, std::nullopt});
      break;
    default:
      break;
  }
  return timers;
}

// ---------------------------------------------------------------- the model

void TimedModel::Advance(int64_t id) { now_ = std::max(now_.value_or(TimeOf(id)), TimeOf(id)); }

bool TimedModel::TakenByWindow(uint32_t store, int64_t at) const {
  const spec::WindowSpec& window = *spec_.stores[store].window;
  // The last of its windows stays open longest.
  int64_t last = INT64_MIN;
  for (int64_t start = -100 * Millis(window.advance); start <= at; start += Millis(window.advance)) last = start;
  return last + Millis(window.size) + Millis(window.grace) > *now_;
}

// Not if even together with what it would join it has ended too long ago, nor if what it would join was given already.
bool TimedModel::TakenBySession(uint32_t store, const std::string& key, int64_t at) const {
  const spec::SessionSpec& session = *spec_.stores[store].session;
  const auto open = [&](int64_t end) { return end + Millis(session.gap) + Millis(session.grace) >= *now_; };
  int64_t end = at;
  const auto all = sessions_.find(store);
  for (const auto& [of, value] : all == sessions_.end() ? std::map<Key, std::string>() : all->second) {
    if (of.second.second + Millis(session.retention) < *now_) continue;  // gone
    if (of.first != key || of.second.first > at + Millis(session.gap) || of.second.second < at - Millis(session.gap))
      continue;
    if (session.final && !open(of.second.second)) return false;
    end = std::max(end, of.second.second);
  }
  return open(end);
}

bool TimedModel::Reject(const std::optional<std::string>& key, int64_t id) {
  Advance(id);
  if (!key) return true;
  const int64_t at = TimeOf(id);
  return TakenByWindow(kMinutes, at) || TakenByWindow(kHops, at) || TakenBySession(kVisits, *key, at) ||
         TakenBySession(kStays, *key, at);
}

bool TimedModel::Record(const std::optional<std::string>& key, int64_t id) {
  if (!Reject(key, id)) return false;
  if (!key) return true;
  const int64_t at = TimeOf(id);
  for (const uint32_t store : {kMinutes, kHops}) {
    const spec::WindowSpec& window = *spec_.stores[store].window;
    const int64_t size = Millis(window.size), advance = Millis(window.advance);
    for (int64_t start = -100 * advance; start <= at; start += advance) {  // all there could be
      if (at >= start + size || start + size + Millis(window.grace) <= *now_) continue;
      std::string& value = windows_[store][{*key, {start, start + size}}];
      value = NextValue(value.empty() ? std::nullopt : MaybeBytes(value), id);
    }
  }
  for (const uint32_t store : {kVisits, kStays}) {
    if (TakenBySession(store, *key, at)) JoinSession(store, *key, id, at);
  }
  Remember(*key, id, at);
  for (const SetTimer& timer : TimersOf(id, *key)) {
    if (timer.time) {
      timers_[{timer.key, timer.name}] = {*timer.time, timer.wall};
    } else {
      timers_.erase({timer.key, timer.name});
    }
  }
  return true;
}

void TimedModel::JoinSession(uint32_t store, const std::string& key, int64_t id, int64_t at) {
  const spec::SessionSpec& session = *spec_.stores[store].session;
  std::map<Key, std::string>& sessions = sessions_[store];
  std::pair<int64_t, int64_t> bounds{at, at};
  std::vector<std::string> merged;
  for (auto of = sessions.begin(); of != sessions.end();) {
    const auto [start, end] = of->first.second;
    const bool joins = of->first.first == key && start <= at + Millis(session.gap) && end >= at - Millis(session.gap);
    if (!joins || end + Millis(session.retention) < *now_) {
      ++of;
      continue;
    }
    bounds = {std::min(bounds.first, start), std::max(bounds.second, end)};
    merged.push_back(of->second);
    of = sessions.erase(of);
  }
  sessions[{key, bounds}] = NextSession(merged, id);
}

bool TimedModel::Hides(int64_t written) const { return now_ && FloorTo(*now_, kStep) >= HiddenFrom(written); }

void TimedModel::Remember(const std::string& key, int64_t id, int64_t at) {
  auto seen = [this](const std::string& of) {
    const auto row = recent_.find(of);
    return row == recent_.end() || Hides(row->second.second) ? MaybeBytes() : MaybeBytes(row->second.first);
  };
  RecentReads reads{seen(key), {}, {}};
  if (const auto other = OtherRecent(id, key)) reads.other = seen(*other);
  for (const auto& [of, row] : recent_) {
    if (ScansRecent(id) && of >= kRecentFrom && of < kRecentTo && !Hides(row.second))
      reads.rows.emplace_back(of, row.first);
  }
  if (const auto value = NextRecent(reads, id)) {
    recent_[key] = {*value, at};
  } else {
    recent_.erase(key);
  }
}

TimedModel::RecentRows TimedModel::Recent() const {
  RecentRows rows;
  for (const auto& [key, row] : recent_) {
    if (!Hides(row.second)) rows[key] = {row.first, HiddenFrom(row.second)};
  }
  return rows;
}

std::map<std::string, int> TimedModel::Outputs() const {
  std::map<std::string, int> outputs;
  if (!now_) return outputs;
  if (const auto minutes = windows_.find(kMinutes); minutes != windows_.end()) {
    for (const auto& [of, value] : minutes->second) {
      if (of.second.second + Millis(spec_.stores[kMinutes].window->grace) <= *now_)
        ++outputs[ClosingOutput(of.first, of.second.first, value)];
    }
  }
  if (const auto stays = sessions_.find(kStays); stays != sessions_.end()) {
    const spec::SessionSpec& session = *spec_.stores[kStays].session;
    for (const auto& [of, value] : stays->second) {
      if (of.second.second + Millis(session.gap) + Millis(session.grace) < *now_)
        ++outputs[ClosingOutput(of.first, of.second.first, value)];
    }
  }
  for (const auto& [of, timer] : timers_) {
    if (timer.second || timer.first <= *now_) ++outputs[TimerOutput(of.first, of.second, timer.first)];
  }
  return outputs;
}

std::map<std::pair<std::string, std::string>, int64_t> TimedModel::PendingTimers() const {
  std::map<std::pair<std::string, std::string>, int64_t> pending;
  for (const auto& [of, timer] : timers_) {
    if (!timer.second && timer.first > now_.value_or(INT64_MIN)) pending[of] = timer.first;
  }
  return pending;
}

std::map<Bytes, Bytes> TimedModel::Rows(uint32_t store) const {
  std::map<Bytes, Bytes> rows;
  const spec::StoreSpec& spec = spec_.stores[store];
  auto keep = [&](const Key& of, const std::string& value) {
    if (ExpiresAt(spec, {of.second.first, of.second.second}) > now_.value_or(INT64_MIN))
      rows[RowKey(spec, of.first, {of.second.first, of.second.second})] = value;
  };
  if (const auto known = sessions_.find(store); known != sessions_.end()) {
    for (const auto& [of, value] : known->second) keep(of, value);
  } else if (const auto found = windows_.find(store); found != windows_.end()) {
    for (const auto& [of, value] : found->second) keep(of, value);
  }
  return rows;
}

size_t TimedModel::ends() const {
  return Rows(kMinutes).size() + Rows(kHops).size() + Rows(kVisits).size() + Rows(kStays).size();
}

}  // namespace millstream::engine::testing
