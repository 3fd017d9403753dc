#include "sdk/cpp/batch_run.h"

#include <time.h>

#include <algorithm>
#include <exception>
#include <variant>

#include "absl/strings/cord.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/error_codes.h"

namespace millstream::worker {
namespace {

// Asked for before every item, so the kernel's coarse clock: exact to 4 ms, which deadlines are far above, and four
// times cheaper.
absl::Duration CoarseTime() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return absl::DurationFromTimespec(now);
}

template <typename Named>
std::string Names(const std::vector<Named>& things) {
  std::string names;
  for (const Named& thing : things) StrAppend(&names, names.empty() ? "" : ", ", thing.name);
  return names.empty() ? "none" : names;
}

// One GET asks for so many keys at most; the values of more may not fit a frame together.
constexpr size_t kKeysPerGet = 64;

// What an op or output takes in a frame beside its bytes, at most.
constexpr size_t kEntryBytes = 48;
constexpr size_t kHeaderBytes = 10;

constexpr char kFinalUrl[] = "millstream.dev/final";

absl::Status Final(absl::Status status) {
  status.SetPayload(kFinalUrl, absl::Cord());
  return status;
}
bool IsFinal(const absl::Status& status) { return status.GetPayload(kFinalUrl).has_value(); }

size_t SizeOf(MaybeView bytes) { return bytes.has_value() ? bytes->size() : 0; }

}  // namespace

absl::StatusOr<std::string> BatchRun::Run(const protocol::Batch& batch) {
  Begin(batch);
  const bool trace = (batch.flags & protocol::kFlagTrace) != 0;
  for (item_ = 0; item_ < batch.items.size(); ++item_) {
    if (trace) {
      MS_RETURN_IF_ERROR(host_->Send(protocol::EncodeFrame(protocol::Extend{batch.seq, static_cast<uint32_t>(item_)})));
    } else {
      MS_RETURN_IF_ERROR(SendExtendIfDue(item_));
    }
    protocol::Failure failure;
    switch (HandleItem(&failure)) {
      case ItemEnd::kDone:
        if (FrameIsFull()) return MakeResult(static_cast<uint32_t>(item_ + 1), std::nullopt);
        break;
      case ItemEnd::kVoid:
        return void_;
      case ItemEnd::kFailed:
        return MakeResult(static_cast<uint32_t>(item_), std::move(failure));
    }
  }
  return MakeResult(static_cast<uint32_t>(batch.items.size()), std::nullopt);
}

void BatchRun::Begin(const protocol::Batch& batch) {
  batch_ = &batch;
  arena_.Reset();
  kept_.clear();
  key_index_.clear();
  outputs_.clear();
  staged_bytes_ = 0;
  void_ = absl::OkStatus();
  extended_at_ = CoarseTime();
  const size_t readable = welcome().stores.size() + welcome().joins.size() + welcome().lookups.size();
  stores_.resize(readable);
  for (StoreState& store : stores_) {
    store.slots.assign(batch.keys.size(), Slot());
    store.others.clear();
    store.ops.clear();
    store.told_ops = 0;
  }
  for (const auto& state : batch.state) {
    if (state.store >= readable) continue;
    for (size_t i = 0; i < state.values.size(); ++i) {
      const protocol::StateValue& value = state.values[i];
      if (value.what == protocol::StateValue::What::kNotPrefetched) continue;
      Slot& slot = stores_[state.store].slots[i];
      slot.known = true;
      if (value.what == protocol::StateValue::What::kValue) slot.value = value.value;
    }
  }
}

absl::Status BatchRun::SendExtendIfDue(size_t done) {
  if (done == 0) return absl::OkStatus();
  const absl::Duration now = CoarseTime();
  if (now - extended_at_ < absl::Milliseconds(welcome().deadline_ms) / 4) return absl::OkStatus();
  extended_at_ = now;
  return host_->Send(protocol::EncodeFrame(protocol::Extend{batch_->seq, static_cast<uint32_t>(done)}));
}

BatchRun::ItemEnd BatchRun::HandleItem(protocol::Failure* failure) {
  for (StoreState& store : stores_) store.ops_at_item = store.ops.size();
  outputs_at_item_ = outputs_.size();
  staged_bytes_at_item_ = staged_bytes_;
  output_failure_ = absl::OkStatus();

  const Handler* handler = host_->HandlerOf(item().input);
  const absl::Status status = handler != nullptr
                                  ? CallHandler(*handler)
                                  : absl::UnimplementedError("the program has no handler for this input");
  if (!void_.ok()) return ItemEnd::kVoid;
  // The items before take at most half a frame (FrameIsFull), so this is about one item alone.
  const size_t bytes = staged_bytes_ - staged_bytes_at_item_;
  if (bytes > welcome().frame_cap / 2) {
    FailOutput(absl::ResourceExhaustedError(StrCat("the writes and outputs of one record take ", bytes,
                                                   " bytes; at most ", welcome().frame_cap / 2, " fit a frame")))
        .IgnoreError();
  }
  if (status.ok() && output_failure_.ok()) return ItemEnd::kDone;

  const absl::Status& cause = output_failure_.ok() ? status : output_failure_;
  const bool decode = output_failure_.ok() && absl::IsDataLoss(status);
  failure->failure_class = !output_failure_.ok() ? "Output" : decode ? "Decode" : "Handler";
  failure->error = absl::StatusCodeToString(cause.code());
  failure->message = std::string(cause.message());
  // What only another program or manifest can cure is not tried again.
  failure->retriable = output_failure_.ok() && !decode && !IsFinal(status);
  DropItem();
  return ItemEnd::kFailed;
}

absl::Status BatchRun::CallHandler(const Handler& handler) {
  Context context(this);
  try {
    return handler(context);
  } catch (const std::exception& error) {
    return absl::UnknownError(StrCat("exception: ", error.what()));
  } catch (...) {
    return absl::UnknownError("an exception that is no std::exception");
  }
}

void BatchRun::DropItem() {
  for (StoreState& store : stores_) store.ops.resize(store.ops_at_item);
  outputs_.resize(outputs_at_item_);
  staged_bytes_ = staged_bytes_at_item_;
}

std::string BatchRun::MakeResult(uint32_t done, std::optional<protocol::Failure> failure) {
  protocol::Result result;
  result.seq = batch_->seq;
  result.done = done;
  for (size_t id = 0; id < stores_.size(); ++id) {
    StoreState& store = stores_[id];
    if (store.ops.empty()) continue;
    auto& ops = result.ops.emplace_back(static_cast<uint32_t>(id), std::vector<protocol::StateOp>()).second;
    if (failure.has_value()) {  // slots may name ops that were dropped
      ops = std::move(store.ops);
      continue;
    }
    // Only the last write of a key counts.
    std::vector<bool> last(store.ops.size(), false);
    for (const Slot& slot : store.slots) {
      if (slot.last_op >= 0) last[static_cast<size_t>(slot.last_op)] = true;
    }
    for (const auto& [key, slot] : store.others) {
      if (slot.last_op >= 0) last[static_cast<size_t>(slot.last_op)] = true;
    }
    for (size_t i = 0; i < store.ops.size(); ++i) {
      if (last[i]) ops.push_back(store.ops[i]);
    }
  }
  result.failure = std::move(failure);
  result.outputs.swap(outputs_);
  std::string frame = protocol::EncodeFrame(result);
  result.outputs.swap(outputs_);  // keep its memory
  return frame;
}

MaybeView BatchRun::RecordKey() const {
  const int32_t index = item().key_index;
  return index < 0 ? std::nullopt : MaybeView(batch_->keys[static_cast<size_t>(index)]);
}

int BatchRun::StoreId(std::string_view name) {
  int id = 0;
  for (const auto& store : welcome().stores) {
    if (store.name == name) return id;
    ++id;
  }
  for (const auto* list : {&welcome().joins, &welcome().lookups}) {
    for (const auto& topic : *list) {
      if (topic.name == name) return id;
      ++id;
    }
  }
  unknown_store_ = std::string(name);
  return -1;
}

absl::Status BatchRun::CheckStore(int store, bool needs_record_key) {
  if (store < 0) {
    return Final(absl::InvalidArgumentError(
        StrCat("there is no store named \"", unknown_store_, "\"; declared are: ", Names(welcome().stores))));
  }
  if (needs_record_key && item().key_index < 0) {
    return absl::InvalidArgumentError("the record has no key, so its state has no default key; name one");
  }
  return void_;
}

BatchRun::Slot* BatchRun::Find(int store, MaybeView other_key) {
  StoreState& state = stores_[static_cast<size_t>(store)];
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

absl::StatusOr<MaybeView> BatchRun::Read(int store, MaybeView other_key) {
  MS_RETURN_IF_ERROR(CheckStore(store, !other_key.has_value()));
  Slot* slot = Find(store, other_key);
  if (!slot->known) MS_RETURN_IF_ERROR(Fetch(store, {other_key.has_value() ? *other_key : *RecordKey()}, {slot}));
  return slot->value;
}

absl::StatusOr<std::vector<MaybeView>> BatchRun::ReadMany(int store, const std::vector<std::string_view>& keys) {
  MS_RETURN_IF_ERROR(CheckStore(store, false));
  for (const std::string_view key : keys) Find(store, key);  // made first: a new one may move the others
  std::vector<std::string_view> unknown_keys;
  std::vector<Slot*> unknown;
  for (const std::string_view key : keys) {
    Slot* slot = Find(store, key);
    if (slot->known || std::find(unknown.begin(), unknown.end(), slot) != unknown.end()) continue;
    unknown_keys.push_back(key);
    unknown.push_back(slot);
    if (unknown.size() < kKeysPerGet) continue;
    MS_RETURN_IF_ERROR(Fetch(store, std::move(unknown_keys), unknown));
    unknown_keys.clear();
    unknown.clear();
  }
  if (!unknown.empty()) MS_RETURN_IF_ERROR(Fetch(store, std::move(unknown_keys), unknown));
  std::vector<MaybeView> values;
  for (const std::string_view key : keys) values.push_back(Find(store, key)->value);
  return values;
}

absl::Status BatchRun::Fetch(int store, std::vector<std::string_view> keys, const std::vector<Slot*>& slots) {
  protocol::Get get;
  get.seq = batch_->seq;
  get.rid = host_->NewRequest();
  get.store = static_cast<uint32_t>(store);
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

absl::Status BatchRun::Write(int store, MaybeView other_key, MaybeView value) {
  MS_RETURN_IF_ERROR(CheckStore(store, !other_key.has_value()));
  if (static_cast<size_t>(store) >= welcome().stores.size())
    return absl::InvalidArgumentError("joins and lookups are read only");
  const protocol::StoreInfo& info = welcome().stores[static_cast<size_t>(store)];
  if (static_cast<int64_t>(SizeOf(value)) > info.max_value_bytes && info.max_value_bytes > 0) {
    return FailOutput(absl::InvalidArgumentError(StrCat("a value of ", SizeOf(value), " bytes for store \"", info.name,
                                                        "\", which takes ", info.max_value_bytes)));
  }
  Slot* slot = Find(store, other_key);
  StoreState& state = stores_[static_cast<size_t>(store)];
  const std::string_view key = other_key.has_value() ? arena_.Copy(*other_key) : *RecordKey();
  slot->known = true;
  slot->value = value.has_value() ? MaybeView(arena_.Copy(*value)) : std::nullopt;
  slot->last_op = static_cast<int32_t>(state.ops.size());
  state.ops.push_back({key, slot->value, static_cast<uint32_t>(item_)});
  staged_bytes_ += key.size() + SizeOf(value) + kEntryBytes;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> BatchRun::Scan(int store, const ScanOptions& options) {
  MS_RETURN_IF_ERROR(CheckStore(store, false));
  std::vector<std::pair<std::string, std::string>> rows;
  protocol::Scan scan;
  scan.seq = batch_->seq;
  scan.store = static_cast<uint32_t>(store);
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

absl::Status RejectRecord(std::string_view why) { return Final(absl::FailedPreconditionError(ToAbsl(why))); }

bool BatchRun::Cancelled() {
  if (void_.ok()) void_ = host_->Look();
  return !void_.ok();
}

absl::Status BatchRun::FailOutput(absl::Status status) {
  if (output_failure_.ok()) output_failure_ = status;
  return status;
}

absl::Status BatchRun::Emit(std::string_view output, MaybeView key, MaybeView value, const EmitOptions& options) {
  MS_RETURN_IF_ERROR(void_);
  const auto& outputs = welcome().outputs;
  const auto info =
      std::find_if(outputs.begin(), outputs.end(), [&](const auto& candidate) { return candidate.name == output; });
  if (info == outputs.end()) {
    return FailOutput(absl::InvalidArgumentError(
        StrCat("there is no output named \"", output, "\"; declared are: ", Names(outputs))));
  }
  size_t bytes = SizeOf(key) + SizeOf(value);
  for (const auto& [name, header] : options.headers) bytes += name.size() + SizeOf(header);
  if (info->max_bytes > 0 && static_cast<int64_t>(bytes) > info->max_bytes) {
    return FailOutput(absl::InvalidArgumentError(
        StrCat("a record of ", bytes, " bytes for output \"", output, "\", which takes ", info->max_bytes)));
  }
  std::optional<int64_t> timestamp = options.timestamp_ms.value_or(item().timestamp_ms);
  const bool in_range = *timestamp >= welcome().min_timestamp_ms && *timestamp <= welcome().max_timestamp_ms;
  if (!in_range && !options.timestamp_ms.has_value()) {
    timestamp.reset();  // a record without a time of its own: the sidecar's clock
  } else if (!in_range) {
    return FailOutput(absl::InvalidArgumentError(StrCat("timestamp ", *timestamp, " of a record for output \"", output,
                                                        "\" is outside ", welcome().min_timestamp_ms, " to ",
                                                        welcome().max_timestamp_ms)));
  }
  staged_bytes_ += bytes + kEntryBytes + kHeaderBytes * options.headers.size();
  protocol::OutputRecord& record = outputs_.emplace_back();
  record.output = static_cast<uint32_t>(info - outputs.begin());
  if (key.has_value()) record.key = arena_.Copy(*key);
  if (value.has_value()) record.value = arena_.Copy(*value);
  record.timestamp_ms = timestamp;
  record.partition = options.partition;
  for (const auto& [name, header] : options.headers) {
    record.headers.emplace_back(arena_.Copy(name), header.has_value() ? MaybeView(arena_.Copy(*header)) : std::nullopt);
  }
  return absl::OkStatus();
}

}  // namespace millstream::worker
