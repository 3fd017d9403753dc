// Windows, sessions and timers of a batch. A windowed store is a store whose keys are longer (row_key.h): what is known
// of its rows is in StoreState::others.
#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sdk/cpp/batch_run.h"
#include "sdk/cpp/row_key.h"
#include "sdk/cpp/user_code.h"
#include "sidecar/protocol/utf8.h"

namespace millstream::worker {
namespace {

using ItemType = protocol::RecordItem::Type;
using What = protocol::StateValue::What;

Window BoundsOf(const protocol::ItemWindow& window) { return {window.start_ms, window.end_ms}; }

// What makes a timer the same timer.
std::string TimerId(std::string_view key, protocol::TimerClock clock, std::string_view name) {
  return StrCat(static_cast<int>(clock), name, std::string_view("\xff"), key);
}

protocol::TimerClock ClockOf(TimerClock clock) {
  return clock == TimerClock::kWallClock ? protocol::TimerClock::kWallClock : protocol::TimerClock::kEventTime;
}

}  // namespace

void BatchRun::FillRows(int store) {
  StoreState& state = stores_[static_cast<size_t>(store)];
  if (state.rows_filled) return;
  state.rows_filled = true;
  if (state.rows == nullptr) return;
  const bool session = IsSession(welcome().stores[static_cast<size_t>(store)]);
  const size_t keys = std::min(state.rows->windows.size(), batch_->keys.size());
  for (size_t i = 0; i < keys; ++i) {
    for (const protocol::WindowValue& sent : state.rows->windows[i]) {
      row_.assign(batch_->keys[i]);
      AppendRowSuffix(session, {sent.start_ms, sent.end_ms}, &row_);
      Slot slot;
      slot.known = sent.value.what != What::kNotPrefetched;
      if (sent.value.what == What::kValue) slot.value = sent.value.value;
      state.others.emplace(ToAbsl(arena_.Copy(row_)), slot);
    }
  }
}

BatchRun::Slots::iterator BatchRun::FindRow(int store, std::string_view key, const Window& window) {
  FillRows(store);
  StoreState& state = stores_[static_cast<size_t>(store)];
  row_.assign(key);
  AppendRowSuffix(IsSession(welcome().stores[static_cast<size_t>(store)]), window, &row_);
  const auto found = state.others.find(ToAbsl(row_));
  if (found != state.others.end()) return found;
  Slot slot;
  if (key == ItemKey() && ItemNames(store, window)) {
    const protocol::StateValue& closing = item().closing.value;
    if (item().type == ItemType::kClosing) {
      slot.known = closing.what == What::kValue;
      if (slot.known) slot.value = closing.value;
    } else {
      slot.known = state.rows != nullptr;
    }
  }
  return state.others.emplace(ToAbsl(arena_.Copy(row_)), slot).first;
}

bool BatchRun::ItemNames(int store, const Window& window) const {
  const auto id = static_cast<uint32_t>(store);
  if (item().type == ItemType::kClosing) {
    return item().store == id && Window{item().closing.start_ms, item().closing.end_ms} == window;
  }
  return std::any_of(item().windows.begin(), item().windows.end(), [&](const protocol::ItemWindow& named) {
    if (named.store != id) return false;
    if (!named.session) return named.start_ms == window.start_ms;
    const auto& merged = named.merged;
    return BoundsOf(named) == window ||
           std::find(merged.begin(), merged.end(), std::pair(window.start_ms, window.end_ms)) != merged.end();
  });
}

absl::StatusOr<std::span<const Window>> BatchRun::Windows(int store) {
  MS_RETURN_IF_ERROR(CheckName(store, false));
  std::vector<Window>& windows = stores_[static_cast<size_t>(store)].windows;
  windows.clear();
  const auto id = static_cast<uint32_t>(store);
  if (item().type == ItemType::kClosing && item().store == id)
    windows.push_back({item().closing.start_ms, item().closing.end_ms});
  for (const protocol::ItemWindow& window : item().windows) {
    if (window.store == id) windows.push_back(BoundsOf(window));
  }
  return std::span<const Window>(windows);
}

absl::StatusOr<MaybeView> BatchRun::ReadRow(int store, MaybeView other_key, const Window& window) {
  MS_RETURN_IF_ERROR(CheckName(store, !other_key.has_value()));
  const auto row = FindRow(store, other_key.has_value() ? *other_key : *ItemKey(), window);
  if (!row->second.known) MS_RETURN_IF_ERROR(Fetch(store, {ToStd(row->first)}, {&row->second}));
  return row->second.value;
}

absl::Status BatchRun::WriteRow(int store, const Window& window, MaybeView value) {
  MS_RETURN_IF_ERROR(CheckName(store, true));
  const auto row = FindRow(store, *ItemKey(), window);
  MS_RETURN_IF_ERROR(CheckSize(store, ToStd(row->first), value));
  StageWrite(store, ToStd(row->first), &row->second, value);
  return absl::OkStatus();
}

absl::Status BatchRun::FetchClosing() {
  row_value_.reset();
  if (item().closing.value.what == What::kValue) row_value_ = item().closing.value.value;
  if (item().closing.value.what == What::kNotPrefetched) {
    MS_ASSIGN_OR_RETURN(row_value_, ReadRow(static_cast<int>(item().store), std::nullopt,
                                            {item().closing.start_ms, item().closing.end_ms}));
  }
  // An empty value is a session without one.
  if (row_value_ == std::string_view() && IsSession(welcome().stores[item().store])) row_value_.reset();
  return absl::OkStatus();
}

const protocol::ItemWindow* BatchRun::SessionOf(int store) const {
  for (const protocol::ItemWindow& window : item().windows) {
    if (window.store == static_cast<uint32_t>(store)) return &window;
  }
  return nullptr;
}

bool BatchRun::WroteSession(int store, const protocol::ItemWindow& session) {
  const StoreState& state = stores_[static_cast<size_t>(store)];
  return FindRow(store, *ItemKey(), BoundsOf(session))->second.last_op >= static_cast<int32_t>(state.ops_at_item);
}

absl::StatusOr<std::vector<std::string_view>> BatchRun::SessionValues(int store) {
  MS_RETURN_IF_ERROR(CheckName(store, false));
  std::vector<std::string_view> values;
  const protocol::ItemWindow* session = SessionOf(store);
  if (session == nullptr || item().key_index < 0) return values;
  std::vector<Window> parts;
  if (WroteSession(store, *session)) {
    parts.push_back(BoundsOf(*session));
  } else {
    for (const auto& [start, end] : session->merged) parts.push_back({start, end});
  }
  for (const Window& part : parts) FindRow(store, *ItemKey(), part);  // made first: a new one may move the others
  std::vector<std::string_view> unknown_rows;
  std::vector<Slot*> slots, unknown;
  for (const Window& part : parts) {
    const auto row = FindRow(store, *ItemKey(), part);
    slots.push_back(&row->second);
    if (row->second.known) continue;
    unknown_rows.push_back(ToStd(row->first));
    unknown.push_back(&row->second);
  }
  if (!unknown.empty()) MS_RETURN_IF_ERROR(Fetch(store, std::move(unknown_rows), unknown));
  for (const Slot* slot : slots) {
    if (SizeOf(slot->value) > 0) values.push_back(*slot->value);
  }
  return values;
}

absl::Status BatchRun::WriteSession(int store, std::string_view value) {
  MS_RETURN_IF_ERROR(CheckName(store, true));
  const protocol::ItemWindow* session = SessionOf(store);
  if (session == nullptr) {
    return absl::InvalidArgumentError(StrCat("the record is late for store \"",
                                             welcome().stores[static_cast<size_t>(store)].name,
                                             "\": it has no session there to write; ask Session() first"));
  }
  return WriteRow(store, BoundsOf(*session), value);
}

absl::Status BatchRun::FinishSessions() {
  if (item().key_index < 0) return absl::OkStatus();
  for (const protocol::ItemWindow& window : item().windows) {
    if (window.session) MS_RETURN_IF_ERROR(FinishSession(window));
  }
  return absl::OkStatus();
}

absl::Status BatchRun::FinishSession(const protocol::ItemWindow& session) {
  const int store = static_cast<int>(session.store);
  if (WroteSession(store, session)) return absl::OkStatus();
  const bool same = session.merged.size() == 1 && session.merged[0] == std::pair(session.start_ms, session.end_ms);
  if (same) return absl::OkStatus();  // its row is what it was
  MS_ASSIGN_OR_RETURN(const std::vector<std::string_view> values, SessionValues(store));
  if (values.empty()) return absl::OkStatus();
  if (values.size() == 1) return WriteSession(store, values[0]);
  const SessionMerge* merge = host_->MergeOf(session.store);
  if (merge == nullptr) {
    return Final(absl::FailedPreconditionError(StrCat(
        "store \"", welcome().stores[session.store].name, "\": a record connects ", values.size(),
        " sessions with values, and nobody says what becomes of them; write the session's value in the handler, or "
        "add MergeSessions")));
  }
  std::string merged;
  MS_RETURN_IF_ERROR(CallUserCode([&]() -> absl::Status {
    MS_ASSIGN_OR_RETURN(merged, (*merge)(values));
    return absl::OkStatus();
  }));
  return WriteSession(store, merged);
}

absl::Status BatchRun::StageTimer(std::string_view name, std::optional<int64_t> time_ms, const TimerOptions& options) {
  MS_RETURN_IF_ERROR(void_);
  const MaybeView key = options.key.has_value() ? options.key : ItemKey();
  std::string problem;
  if (in_hook_) {
    problem = "hooks cannot set timers: they belong to the time of a record";
  } else if (!welcome().timers) {
    problem = "the manifest has no timers; add timers: {} under spec";
  } else if (name.size() > protocol::kMaxTimerName || !protocol::IsUtf8(name)) {
    problem = StrCat("a name is UTF-8 of at most ", protocol::kMaxTimerName, " bytes");
  } else if (!key.has_value()) {
    problem = "the record has no key; name one";
  } else if (time_ms.has_value() && (*time_ms < welcome().min_timestamp_ms || *time_ms > welcome().max_timestamp_ms)) {
    problem = StrCat("time ", *time_ms, " is outside ", welcome().min_timestamp_ms, " to ", welcome().max_timestamp_ms);
  }
  if (!problem.empty()) return FailOutput(absl::InvalidArgumentError(StrCat("timer \"", name, "\": ", problem)));
  const protocol::TimerClock clock = ClockOf(options.clock);
  if (has_timer_items_) timers_set_.insert(TimerId(*key, clock, name));
  timers_.push_back({arena_.Copy(*key), clock, arena_.Copy(name), time_ms});
  staged_bytes_ += key->size() + name.size() + kEntryBytes;
  return absl::OkStatus();
}

// What a failed item set is no matter: it ended its batch.
bool BatchRun::IsOvertaken() const {
  if (item().type != ItemType::kTimer || timers_set_.empty() || item().key_index < 0) return false;
  return timers_set_.contains(TimerId(*ItemKey(), item().clock, item().name));
}

}  // namespace millstream::worker
