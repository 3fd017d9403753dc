// Stores, joins and lookups of a batch: own writes, what came along, GET and SCAN.
#include <algorithm>
#include <variant>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sdk/cpp/batch_run.h"
#include "sdk/cpp/row_key.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/error_codes.h"

namespace millstream::worker {
namespace {

// One GET asks for so many keys at most; the values of more may not fit a frame together.
constexpr size_t kKeysPerGet = 64;

std::string_view TypeOf(Readable what) {
  return what == Readable::kStore ? "KeyValue" : what == Readable::kWindows ? "Window" : "Session";
}

// The index of a name; -1: it is not there.
template <typename Named>
int IndexOf(const std::vector<Named>& things, std::string_view name) {
  const auto found = std::find_if(things.begin(), things.end(), [&](const Named& thing) { return thing.name == name; });
  return found == things.end() ? -1 : static_cast<int>(found - things.begin());
}

// "counts, hours (Window)"
std::string StoreNames(const std::vector<protocol::StoreInfo>& stores) {
  std::string names;
  for (const protocol::StoreInfo& store : stores) {
    StrAppend(&names, names.empty() ? "" : ", ", store.name);
    if (IsWindowed(store)) StrAppend(&names, " (", store.type, ")");
  }
  return names.empty() ? "none" : names;
}

absl::Status Undeclared(std::string_view what, std::string_view name, std::string_view declared) {
  return Final(
      absl::InvalidArgumentError(StrCat("there is no ", what, " named \"", name, "\"; declared are: ", declared)));
}

}  // namespace

int BatchRun::Resolve(std::string_view name, Readable what) {
  const int stores = static_cast<int>(welcome().stores.size()), joins = static_cast<int>(welcome().joins.size());
  if (what == Readable::kJoin || what == Readable::kLookup) {
    const bool join = what == Readable::kJoin;
    const auto& topics = join ? welcome().joins : welcome().lookups;
    const int index = IndexOf(topics, name);
    if (index < 0) undeclared_ = Undeclared(join ? "join" : "lookup", name, NamesOf(topics));
    return index < 0 ? -1 : index + stores + (join ? 0 : joins);
  }
  if (in_hook_ && what != Readable::kStore) {
    undeclared_ = Final(absl::InvalidArgumentError(
        StrCat("store \"", name, "\": hooks have no windows or sessions, they belong to the time of a record")));
    return -1;
  }
  const int index = IndexOf(welcome().stores, name);
  if (index >= 0 && welcome().stores[static_cast<size_t>(index)].type == TypeOf(what)) return index;
  undeclared_ = Undeclared(StrCat("store of type ", TypeOf(what)), name, StoreNames(welcome().stores));
  return -1;
}

absl::Status BatchRun::CheckName(int id, bool needs_key) const {
  if (id < 0) return undeclared_;
  if (needs_key && item().key_index < 0) {
    return absl::InvalidArgumentError(in_hook_ ? "a hook has no record, so state has no default key; name one"
                                               : "the record has no key, so its state has no default key; name one");
  }
  return void_;
}

BatchRun::Slot* BatchRun::Find(int id, MaybeView other_key) {
  StoreState& state = stores_[static_cast<size_t>(id)];
  if (!other_key.has_value()) return &state.slots[static_cast<size_t>(item().key_index)];
  if (key_index_.empty()) {
    for (size_t i = 0; i < batch_->keys.size(); ++i)
      key_index_.emplace(ToAbsl(batch_->keys[i]), static_cast<uint32_t>(i));
  }
  if (const auto index = key_index_.find(ToAbsl(*other_key)); index != key_index_.end())
    return &state.slots[index->second];
  auto slot = state.others.find(ToAbsl(*other_key));
  if (slot == state.others.end()) slot = state.others.emplace(ToAbsl(arena_.Copy(*other_key)), Slot()).first;
  return &slot->second;
}

absl::StatusOr<MaybeView> BatchRun::Read(int id, MaybeView other_key) {
  MS_RETURN_IF_ERROR(CheckName(id, !other_key.has_value()));
  Slot* slot = Find(id, other_key);
  if (!slot->known) MS_RETURN_IF_ERROR(Fetch(id, {other_key.has_value() ? *other_key : *ItemKey()}, {slot}));
  return slot->value;
}

absl::StatusOr<std::vector<MaybeView>> BatchRun::ReadMany(int id, const std::vector<std::string_view>& keys) {
  MS_RETURN_IF_ERROR(CheckName(id, false));
  for (const std::string_view key : keys) Find(id, key);  // made first: a new one may move the others
  std::vector<std::string_view> unknown_keys;
  std::vector<Slot*> unknown;
  for (const std::string_view key : keys) {
    Slot* slot = Find(id, key);
    if (slot->known || std::find(unknown.begin(), unknown.end(), slot) != unknown.end()) continue;
    unknown_keys.push_back(key);
    unknown.push_back(slot);
    if (unknown.size() < kKeysPerGet) continue;
    MS_RETURN_IF_ERROR(Fetch(id, std::move(unknown_keys), unknown));
    unknown_keys.clear();
    unknown.clear();
  }
  if (!unknown.empty()) MS_RETURN_IF_ERROR(Fetch(id, std::move(unknown_keys), unknown));
  std::vector<MaybeView> values;
  for (const std::string_view key : keys) values.push_back(Find(id, key)->value);
  return values;
}

absl::Status BatchRun::Fetch(int id, std::vector<std::string_view> keys, const std::vector<Slot*>& slots) {
  protocol::Get get;
  get.seq = batch_->seq;
  get.rid = host_->NewRequest();
  get.store = static_cast<uint32_t>(id);
  get.keys = std::move(keys);
  get.new_ops = NewOps();
  auto answer = host_->Ask(protocol::EncodeFrame(get), get.seq, get.rid);
  if (!answer.ok()) return void_ = answer.status();
  const auto* values = std::get_if<protocol::Values>(&answer->message);
  if (values == nullptr) return void_ = host_->Refuse(protocol::kBadFrame, "GET was answered with ROWS");
  if (values->error.has_value() && *values->error == "cancelled")
    return void_ = absl::CancelledError("the batch is void");
  if (values->error.has_value()) return absl::UnavailableError(StrCat("reading state: ", *values->error));
  if (values->values.size() != slots.size())
    return void_ = host_->Refuse(protocol::kBadFrame, StrCat("GET of ", slots.size(), " keys was answered with ",
                                                             values->values.size(), " values"));
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto& value = values->values[i];
    slots[i]->known = true;
    slots[i]->value = value.has_value() ? MaybeView(arena_.Copy(*value)) : std::nullopt;
  }
  return absl::OkStatus();
}

protocol::StateOps BatchRun::NewOps() {
  protocol::StateOps new_ops;
  for (size_t id = 0; id < stores_.size(); ++id) {
    StoreState& store = stores_[id];
    if (store.told_ops == store.ops.size()) continue;
    const auto begin = store.ops.begin() + static_cast<std::ptrdiff_t>(store.told_ops);
    new_ops.emplace_back(static_cast<uint32_t>(id), std::vector<protocol::StateOp>(begin, store.ops.end()));
    store.told_ops = store.ops.size();
  }
  return new_ops;
}

// As the sidecar counts: the key, a row key where the store has those, and the value.
absl::Status BatchRun::CheckSize(int store, std::string_view key, MaybeView value) {
  const protocol::StoreInfo& info = welcome().stores[static_cast<size_t>(store)];
  const size_t bytes = key.size() + SizeOf(value);
  if (!value.has_value() || info.max_value_bytes <= 0 || static_cast<int64_t>(bytes) <= info.max_value_bytes)
    return absl::OkStatus();
  return FailOutput(absl::InvalidArgumentError(StrCat("a key and value of ", bytes, " bytes for store \"", info.name,
                                                      "\", which takes ", info.max_value_bytes)));
}

// `key` stays until the end of the batch.
void BatchRun::StageWrite(int store, std::string_view key, Slot* slot, MaybeView value) {
  StoreState& state = stores_[static_cast<size_t>(store)];
  slot->known = true;
  slot->value = value.has_value() ? MaybeView(arena_.Copy(*value)) : std::nullopt;
  slot->last_op = static_cast<int32_t>(state.ops.size());
  state.ops.push_back({key, slot->value, static_cast<uint32_t>(item_)});
  staged_bytes_ += key.size() + SizeOf(value) + kEntryBytes;
}

absl::Status BatchRun::Write(int store, MaybeView other_key, MaybeView value) {
  MS_RETURN_IF_ERROR(CheckName(store, !other_key.has_value()));
  MS_RETURN_IF_ERROR(CheckSize(store, other_key.has_value() ? *other_key : *ItemKey(), value));
  Slot* slot = Find(store, other_key);
  StageWrite(store, other_key.has_value() ? arena_.Copy(*other_key) : *ItemKey(), slot, value);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> BatchRun::Scan(int id, const ScanOptions& options) {
  MS_RETURN_IF_ERROR(CheckName(id, false));
  std::vector<std::pair<std::string, std::string>> rows;
  protocol::Scan scan;
  scan.seq = batch_->seq;
  scan.store = static_cast<uint32_t>(id);
  scan.from = options.from;
  scan.to = options.to;
  scan.reverse = options.reverse;
  std::string cursor;
  while (true) {
    scan.rid = host_->NewRequest();
    scan.limit = options.limit == 0 ? 0 : options.limit - static_cast<uint32_t>(rows.size());
    scan.new_ops = NewOps();
    auto answer = host_->Ask(protocol::EncodeFrame(scan), scan.seq, scan.rid);
    if (!answer.ok()) return void_ = answer.status();
    auto* page = std::get_if<protocol::Rows>(&answer->message);
    if (page == nullptr) return void_ = host_->Refuse(protocol::kBadFrame, "SCAN was answered with VALUES");
    if (page->error.has_value() && *page->error == "cancelled")
      return void_ = absl::CancelledError("the batch is void");
    if (page->error.has_value()) return absl::UnavailableError(StrCat("scanning state: ", *page->error));
    for (auto& row : page->rows) rows.push_back(std::move(row));
    if (!page->cursor.has_value() || (options.limit > 0 && rows.size() >= options.limit)) return rows;
    cursor = *std::move(page->cursor);
    scan.cursor = cursor;
  }
}

}  // namespace millstream::worker
