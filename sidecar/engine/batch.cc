#include "sidecar/engine/batch.h"

#include <algorithm>

#include "common/base/status.h"
#include "sidecar/protocol/codec.h"

namespace millstream::engine {
namespace {

constexpr int64_t kItemOverhead = 64;

// Keys looked up a few at a time, after asking for the memory all of them lead to: up to five layers of two cache lines
// each.
constexpr size_t kKeysAhead = 16;

void PrefetchSome(const std::vector<BatchKey>& keys, size_t first, store::StoreIndex store,
                  const TaskOverlays& overlays) {
  if (first % kKeysAhead != 0) return;
  const size_t end = std::min(keys.size(), first + kKeysAhead);
  for (size_t i = first; i < end; ++i) overlays.Prefetch(store, {keys[i].bytes, keys[i].hash});
}

protocol::RecordItem ToProtocol(const Item& item, int32_t key_index, uint32_t attempt) {
  protocol::RecordItem out;
  if (item.due != nullptr && item.due->what == DueItem::What::kVisit) {
    out.type = protocol::RecordItem::Type::kVisit;
    out.visit = item.due->visit;
    out.key_index = key_index;
    out.timestamp_ms = item.due->time;
    if (item.due->run->data) out.value = *item.due->run->data;
    out.attempt = attempt;
    return out;
  }
  if (item.due != nullptr) {
    const bool timer = item.due->what == DueItem::What::kTimer;
    out.type = timer ? protocol::RecordItem::Type::kTimer : protocol::RecordItem::Type::kClosing;
    out.key_index = key_index;
    out.attempt = attempt;
    out.clock = item.due->clock;
    out.name = item.due->name;
    out.timestamp_ms = item.due->time;
    out.store = item.due->store;
    out.closing.start_ms = item.due->bounds.start;
    out.closing.end_ms = item.due->bounds.end;
    return out;
  }
  out.input = item.input;
  out.offset = item.record.offset;
  out.timestamp_ms = item.record.timestamp_ms;
  out.key_index = key_index;
  if (item.record.value) out.value = *item.record.value;
  out.headers.reserve(item.record.headers.size());
  for (const Header& header : item.record.headers) {
    out.headers.emplace_back(header.name, header.value ? protocol::MaybeView(*header.value) : std::nullopt);
  }
  out.attempt = attempt;
  return out;
}

// Values of one store for all keys: from the layers where they know it, else what was read from disk.
class StateFiller {
 public:
  StateFiller(const Batch& batch, const BatchEncoding& how)
      : batch_(batch), how_(how), left_(how.max_bytes - batch.frame_bytes) {}

  protocol::Batch::StoreState Fill(uint32_t id) {
    const store::StoreIndex store = how_.plan->StoreOf(id);
    protocol::Batch::StoreState state;
    state.store = id;
    state.values.resize(batch_.keys.size(), {protocol::StateValue::What::kNotPrefetched, {}});
    if (batch_.time && !batch_.time->row_index.empty() && Windowed(store)) return FillRows(store);
    const Expiry expiry = store < how_.expiry.size() ? how_.expiry[store] : Expiry();
    for (const Batch::StoreRead& read : batch_.reads) {
      if (read.store != store) continue;
      for (size_t i = 0; i < read.slots.size(); ++i) {
        protocol::StateValue& value = state.values[read.slots[i]];
        const auto found = read.values[i] ? expiry.Visible(*read.values[i]) : std::nullopt;
        value = found ? protocol::StateValue{protocol::StateValue::What::kValue, *found} : protocol::StateValue{};
      }
    }
    const uint64_t bit = uint64_t{1} << id;
    for (size_t i = 0; i < batch_.keys.size(); ++i) {
      PrefetchSome(batch_.keys, i, store, *how_.overlays);
      const BatchKey& key = batch_.keys[i];
      if ((key.stores & bit) == 0) continue;
      protocol::StateValue& value = state.values[i];
      if (const OverlayValue* found = how_.overlays->Find(store, key.bytes, key.hash)) {
        value = found->deleted || expiry.Hides(found->timestamp_ms)
                    ? protocol::StateValue{}
                    : protocol::StateValue{protocol::StateValue::What::kValue, found->view()};
      }
      MS_CHECK(value.what != protocol::StateValue::What::kNotPrefetched);  // neither a layer nor a read knows it
      const int64_t size = static_cast<int64_t>(value.value.size());
      if (size > left_) {
        value = {protocol::StateValue::What::kNotPrefetched, {}};
      } else {
        left_ -= size;
        used_ += size;
      }
    }
    return state;
  }
  // A value if there is room for it.
  protocol::StateValue Take(std::string_view value) {
    const auto size = static_cast<int64_t>(value.size());
    if (size > left_) return {protocol::StateValue::What::kNotPrefetched, {}};
    left_ -= size;
    used_ += size;
    return {protocol::StateValue::What::kValue, value};
  }
  int64_t used() const { return used_; }

 private:
  bool Windowed(store::StoreIndex store) const {
    return store < how_.plan->manifest_stores && (how_.plan->windowed >> store & 1) != 0;
  }

  protocol::Batch::StoreState FillRows(store::StoreIndex store) {
    protocol::Batch::StoreState state;
    state.store = store;
    state.windowed = true;
    state.windows.resize(batch_.keys.size());
    for (const BatchTime::Row& row : batch_.time->rows) {
      if (row.store != store) continue;
      const std::optional<std::string_view> value = RowValue(*how_.overlays, row);
      if (!value) continue;
      state.windows[row.key_index].push_back({row.bounds.start, row.bounds.end, Take(*value)});
    }
    return state;
  }

  const Batch& batch_;
  const BatchEncoding& how_;
  int64_t left_;
  int64_t used_ = 0;
};

// Windows of a record, the value of a window that closes.
void FillTimeFields(const Batch& batch, size_t index, const BatchEncoding& how, StateFiller* filler,
                    protocol::RecordItem* item) {
  item->windows = batch.time->items[index].windows;
  if (item->type != protocol::RecordItem::Type::kClosing) return;
  const auto& of_store = batch.time->row_index[item->store];
  const auto row = of_store.find(batch.items[index].due->row_key);
  MS_CHECK(row != of_store.end());
  // Silent otherwise.
  item->closing.value = filler->Take(*RowValue(*how.overlays, batch.time->rows[row->second]));
}

}  // namespace

void IndexRow(const spec::StoreSpec& store, uint32_t store_index, int32_t key_index, const Bounds& bounds,
              Batch* batch) {
  BatchTime& time = *batch->time;
  BytesMap<uint32_t>& index = time.row_index[store_index];
  Bytes row_key = RowKey(store, batch->keys[key_index].bytes, bounds);
  const HashedBytes hashed(row_key);
  if (index.contains(hashed)) return;
  BatchTime::Row& row = time.rows.emplace_back();
  row = {store_index, key_index, bounds, std::move(row_key), hashed.hash, std::nullopt, false};
  index.try_emplace(HashedBytes(row.row_key, row.hash), static_cast<uint32_t>(time.rows.size() - 1));
}

std::vector<std::vector<Bytes>> CollectRowReads(const TaskOverlays& overlays, Batch* batch) {
  std::vector<std::vector<Bytes>> wanted;
  BatchTime& time = *batch->time;
  for (uint32_t store = 0; store < time.row_index.size(); ++store) {
    if (time.row_index[store].empty()) continue;
    BatchTime::RowRead read;
    read.store = store;
    std::vector<Bytes> keys;
    for (uint32_t i = 0; i < time.rows.size(); ++i) {
      const BatchTime::Row& row = time.rows[i];
      if (row.store != store || overlays.Find(store, row.row_key, row.hash) != nullptr) continue;
      read.slots.push_back(i);
      keys.push_back(row.row_key);
    }
    if (keys.empty()) continue;
    time.row_reads.push_back(std::move(read));
    wanted.push_back(std::move(keys));
  }
  return wanted;
}

std::optional<std::string_view> RowValue(const TaskOverlays& overlays, const BatchTime::Row& row) {
  if (const OverlayValue* found = overlays.Find(row.store, row.row_key, row.hash)) return found->maybe();
  return row.disk ? std::optional<std::string_view>(*row.disk) : std::nullopt;
}

void IndexKey(const PrefetchPlan& plan, Batch* batch, size_t item) {
  const Item& of = batch->items[item];
  if (!of.record.key) {
    batch->item_key.push_back(-1);
    return;
  }
  const HashedBytes hashed(*of.record.key);
  auto [it, added] = batch->key_index.try_emplace(hashed, static_cast<int32_t>(batch->keys.size()));
  if (added) batch->keys.push_back({it->first, hashed.hash, 0, 0});
  BatchKey& key = batch->keys[it->second];
  key.stores |= of.due != nullptr ? plan.due : plan.masks[of.input];
  // The value of a row that is visited travels along, whatever else does.
  if (of.due != nullptr && of.due->what == DueItem::What::kVisit) key.stores |= uint64_t{1} << of.due->store;
  key.timestamp_ms = of.record.timestamp_ms;
  batch->item_key.push_back(it->second);
}

std::vector<std::vector<Bytes>> CollectReads(const PrefetchPlan& plan, const TaskOverlays& overlays, Batch* batch) {
  std::vector<std::vector<Bytes>> wanted;
  for (size_t id = 0; id < plan.stores; ++id) {
    const uint64_t bit = uint64_t{1} << id;
    Batch::StoreRead read;
    read.store = plan.StoreOf(id);
    std::vector<Bytes> keys;
    for (size_t i = 0; i < batch->keys.size(); ++i) {
      PrefetchSome(batch->keys, i, read.store, overlays);
      const BatchKey& key = batch->keys[i];
      if ((key.stores & bit) == 0 || overlays.Find(read.store, key.bytes, key.hash) != nullptr) continue;
      read.slots.push_back(static_cast<int32_t>(i));
      keys.emplace_back(key.bytes);
    }
    if (keys.empty()) continue;
    batch->reads.push_back(std::move(read));
    wanted.push_back(std::move(keys));
  }
  return wanted;
}

std::string EncodeBatch(const Batch& batch, TaskId task, const BatchEncoding& how, int64_t* state_bytes) {
  protocol::Batch message;
  message.seq = batch.seq;
  message.task = task;
  message.flags = batch.trace ? protocol::kFlagTrace : 0;
  message.keys.reserve(batch.keys.size());
  uint64_t stores = 0;
  for (const BatchKey& key : batch.keys) {
    message.keys.push_back(key.bytes);
    stores |= key.stores;
  }
  message.items.reserve(batch.items.size());
  StateFiller filler(batch, how);
  for (size_t f = 0; f < batch.FrameItems(); ++f) {
    const size_t i = batch.ItemOf(f);
    const int attempt = i < how.attempts.size() ? how.attempts[i] : 1;
    message.items.push_back(ToProtocol(batch.items[i], batch.item_key[i], static_cast<uint32_t>(attempt)));
    if (batch.time) FillTimeFields(batch, i, how, &filler, &message.items.back());
  }
  if (batch.time) {
    stores |= how.plan->windowed;
    if (batch.time->watermark != kNoTime) message.watermark_ms = batch.time->watermark;
  }
  for (size_t id = 0; id < how.plan->stores; ++id) {
    if ((stores >> id & 1) != 0) message.state.push_back(filler.Fill(static_cast<uint32_t>(id)));
  }
  *state_bytes = filler.used();
  std::string frame;
  frame.reserve(kFrameOverhead + batch.frame_bytes + *state_bytes + batch.keys.size() * 8 * (1 + message.state.size()));
  protocol::Encode(message, &frame);
  return frame;
}

int64_t FrameBytes(const Item& item) {
  int64_t sum = kItemOverhead + (item.record.key ? item.record.key->size() : 0) +
                (item.record.value ? item.record.value->size() : 0) + (item.due ? item.due->name.size() : 0);
  if (item.due && item.due->run && item.due->run->data) sum += static_cast<int64_t>(item.due->run->data->size());
  for (const Header& header : item.record.headers)
    sum += 12 + header.name.size() + (header.value ? header.value->size() : 0);
  return sum;
}

}  // namespace millstream::engine
