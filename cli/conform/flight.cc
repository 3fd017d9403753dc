#include "cli/conform/flight.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/protocol/codec.h"

namespace millstream::cli::conform {
namespace {

constexpr int64_t kFirstTimestamp = 1'700'000'000'000;
// More would not fit a frame's bound of elements.
constexpr uint64_t kMostGenerated = 500'000;

// "key-#" with the number for #.
std::string Numbered(const std::string& text, uint64_t number) {
  std::string result;
  for (const char c : text) {
    if (c == '#') {
      StrAppend(&result, number);
    } else {
      result.push_back(c);
    }
  }
  return result;
}

// [STORE, START, END], of a session with [[START, END]] of those that it is made of.
absl::StatusOr<protocol::ItemWindow> ReadWindow(const Json& list, const std::vector<StoreShape>& shapes) {
  const auto wrong = absl::InvalidArgumentError(
      StrCat("a window is [STORE, START, END], a session [STORE, START, END, [[START, END]]], not ", list.dump()));
  if (!list.is_array() || list.size() < 3 || !list[0].is_string()) return wrong;
  protocol::ItemWindow window;
  const StoreShape& shape = ShapeOf(shapes, list[0].get<std::string>());
  if (!shape.windowed()) return absl::InvalidArgumentError(StrCat(list[0].dump(), " is no store of windows"));
  window.store = static_cast<uint32_t>(&shape - shapes.data());
  window.start_ms = list[1].get<int64_t>();
  window.end_ms = list[2].get<int64_t>();
  window.session = shape.type == StoreShape::Type::kSession;
  if (list.size() != (window.session ? 4u : 3u)) return wrong;
  if (window.session) {
    for (const Json& part : list[3]) window.merged.emplace_back(part[0].get<int64_t>(), part[1].get<int64_t>());
  }
  return window;
}

// {timer: NAME, key, time, clock?, attempt?}
absl::StatusOr<CaseRecord> ReadTimer(const Json& map) {
  CaseRecord timer;
  timer.type = protocol::RecordItem::Type::kTimer;
  for (const auto& [field, value] : map.items()) {
    if (field == "timer" && value.is_string()) {
      timer.name = value.get<std::string>();
    } else if (field == "key") {
      MS_ASSIGN_OR_RETURN(timer.key, ReadBytes(value));
    } else if (field == "time" && value.is_number_integer()) {
      timer.timestamp_ms = value.get<int64_t>();
    } else if (field == "clock" && (value == "event" || value == "wall")) {
      timer.clock = value == "wall" ? protocol::TimerClock::kWallClock : protocol::TimerClock::kEventTime;
    } else if (field == "attempt" && value.is_number_unsigned()) {
      timer.attempt = value.get<uint32_t>();
    } else {
      return absl::InvalidArgumentError(StrCat("a timer has no field ", field, ": ", value.dump()));
    }
  }
  return timer;
}

// {closes: STORE, key, start, end (of a session), attempt?}
absl::StatusOr<CaseRecord> ReadClosing(const Json& map, const std::vector<StoreShape>& shapes) {
  CaseRecord closing;
  closing.type = protocol::RecordItem::Type::kClosing;
  const StoreShape& shape = ShapeOf(shapes, map["closes"].get<std::string>());
  if (!shape.windowed()) return absl::InvalidArgumentError(StrCat(map["closes"].dump(), " is no store of windows"));
  closing.store = static_cast<uint32_t>(&shape - shapes.data());
  for (const auto& [field, value] : map.items()) {
    if (field == "key") {
      MS_ASSIGN_OR_RETURN(closing.key, ReadBytes(value));
    } else if (field == "start" && value.is_number_integer()) {
      closing.start_ms = value.get<int64_t>();
      if (shape.type != StoreShape::Type::kSession) closing.end_ms = closing.start_ms + shape.size_ms;
    } else if (field == "end" && shape.type == StoreShape::Type::kSession && value.is_number_integer()) {
      closing.end_ms = value.get<int64_t>();
    } else if (field == "attempt" && value.is_number_unsigned()) {
      closing.attempt = value.get<uint32_t>();
    } else if (field != "closes") {
      return absl::InvalidArgumentError(StrCat("a window that closes has no field ", field, ": ", value.dump()));
    }
  }
  return closing;
}

// {visit: NAME, key?, time, data?, attempt?}
absl::StatusOr<CaseRecord> ReadVisit(const Json& map, const std::vector<std::string>& visits) {
  CaseRecord row;
  row.type = protocol::RecordItem::Type::kVisit;
  for (const auto& [field, value] : map.items()) {
    if (field == "visit" && value.is_string()) {
      const auto found = std::find(visits.begin(), visits.end(), value.get<std::string>());
      if (found == visits.end()) return absl::InvalidArgumentError(StrCat("there is no visit ", value.dump()));
      row.visit = static_cast<uint32_t>(found - visits.begin());
    } else if (field == "key") {
      MS_ASSIGN_OR_RETURN(row.key, ReadBytes(value));
    } else if (field == "time" && value.is_number_integer()) {
      row.timestamp_ms = value.get<int64_t>();
    } else if (field == "data") {
      MS_ASSIGN_OR_RETURN(row.value, ReadMaybeBytes(value));
    } else if (field == "attempt" && value.is_number_unsigned()) {
      row.attempt = value.get<uint32_t>();
    } else {
      return absl::InvalidArgumentError(StrCat("a row of a visit has no field ", field, ": ", value.dump()));
    }
  }
  return row;
}

absl::StatusOr<CaseRecord> ReadRecord(const Json& map, const std::vector<std::string>& inputs,
                                      const std::vector<StoreShape>& shapes) {
  if (map.contains("timer")) return ReadTimer(map);
  if (map.contains("closes")) return ReadClosing(map, shapes);
  CaseRecord record;
  record.timestamp_ms = kFirstTimestamp;
  for (const auto& [field, value] : map.items()) {
    if (field == "input" && value.is_string()) {
      const auto found = std::find(inputs.begin(), inputs.end(), value.get<std::string>());
      if (found == inputs.end()) return absl::InvalidArgumentError(StrCat("there is no input ", value.dump()));
      record.input = static_cast<uint32_t>(found - inputs.begin());
    } else if (field == "key") {
      MS_ASSIGN_OR_RETURN(record.key, ReadMaybeBytes(value));
    } else if (field == "value") {
      MS_ASSIGN_OR_RETURN(record.value, ReadMaybeBytes(value));
    } else if (field == "headers" && value.is_array()) {
      for (const Json& header : value) {
        if (!header.is_array() || header.size() != 2)
          return absl::InvalidArgumentError(StrCat("a header is [name, value], not ", header.dump()));
        MS_ASSIGN_OR_RETURN(const std::string name, ReadBytes(header[0]));
        MS_ASSIGN_OR_RETURN(const std::optional<std::string> content, ReadMaybeBytes(header[1]));
        record.headers.emplace_back(name, content);
      }
    } else if (field == "timestamp" && value.is_number_integer()) {
      record.timestamp_ms = value.get<int64_t>();
    } else if (field == "offset" && value.is_number_integer()) {
      record.offset = value.get<int64_t>();
    } else if (field == "attempt" && value.is_number_unsigned()) {
      record.attempt = value.get<uint32_t>();
    } else if (field == "windows" && value.is_array()) {
      for (const Json& entry : value) {
        MS_ASSIGN_OR_RETURN(protocol::ItemWindow window, ReadWindow(entry, shapes));
        record.windows.push_back(std::move(window));
      }
    } else {
      return absl::InvalidArgumentError(StrCat("a record has no field ", field, ": ", value.dump()));
    }
  }
  return record;
}

absl::StatusOr<std::vector<CaseRecord>> Generate(const Json& rule, const std::vector<std::string>& inputs,
                                                 const std::vector<StoreShape>& shapes) {
  const uint64_t count = rule.value("count", uint64_t{0});
  const uint64_t keys = rule.value("keys", count);
  if (count == 0 || count > kMostGenerated || keys == 0)
    return absl::InvalidArgumentError(StrCat("generate: count is 1 to ", kMostGenerated));
  std::vector<CaseRecord> records;
  records.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    Json record = rule;
    record.erase("count");
    record.erase("keys");
    for (const char* field : {"key", "value"}) {
      if (record.contains(field) && record[field].is_string()) record[field] = Numbered(record[field], i % keys);
    }
    MS_ASSIGN_OR_RETURN(CaseRecord read, ReadRecord(record, inputs, shapes));
    records.push_back(std::move(read));
  }
  return records;
}

bool Withheld(const Flight& flight, const std::string& store, const StoreShape& shape, std::string_view key) {
  const auto rule = flight.not_prefetched.find(store);
  if (rule == flight.not_prefetched.end()) return false;
  if (rule->is_boolean()) return rule->get<bool>();
  return std::any_of(rule->begin(), rule->end(), [&](const Json& one) {
    const auto bytes = ReadRow(shape, one);
    return bytes.ok() && *bytes == key;
  });
}

// Fills the state of a BATCH, and holds what its views point to.
class StateFill {
 public:
  StateFill(const Flight& flight, const StoreModel& model, const std::vector<std::string>& stores,
            const std::vector<StoreShape>& shapes)
      : flight_(flight), model_(model), stores_(stores), shapes_(shapes) {}

  // The last values of windows that close.
  void Closings(protocol::Batch* batch) {
    for (protocol::RecordItem& item : batch->items) {
      if (item.type != protocol::RecordItem::Type::kClosing) continue;
      const std::string_view key = batch->keys[static_cast<size_t>(item.key_index)];
      item.closing.value =
          Value(item.store, RowKey(shapes_[item.store], key, item.closing.start_ms, item.closing.end_ms));
    }
  }

  void Fill(const protocol::Batch& batch, protocol::Batch::StoreState* state) {
    state->windowed = ShapeOf(shapes_, state->store).windowed();
    if (!state->windowed) {
      for (const std::string_view key : batch.keys) state->values.push_back(Value(state->store, key));
      return;
    }
    state->windows.resize(batch.keys.size());
    std::set<std::string> known;
    for (const protocol::RecordItem& item : batch.items) {
      if (item.key_index < 0) continue;
      for (const protocol::ItemWindow& window : item.windows) {
        if (window.store != state->store) continue;
        if (!window.session) Row(batch, item, window.start_ms, window.end_ms, &known, state);
        for (const auto& [start, end] : window.merged) Row(batch, item, start, end, &known, state);
      }
      if (item.type == protocol::RecordItem::Type::kClosing && item.store == state->store)
        Row(batch, item, item.closing.start_ms, item.closing.end_ms, &known, state);
    }
  }

 private:
  using What = protocol::StateValue::What;

  protocol::StateValue Value(uint32_t store, std::string_view row) {
    const std::optional<std::string> value = model_.Find(store, row);
    const StoreShape& shape = ShapeOf(shapes_, store);
    // A window that is not there is left out, whatever is withheld.
    if (shape.windowed() && !value) return {What::kAbsent, {}};
    if (Withheld(flight_, stores_[store], shape, row)) return {What::kNotPrefetched, {}};
    if (!value) return {What::kAbsent, {}};
    return {What::kValue, held_.emplace_back(*value)};
  }

  void Row(const protocol::Batch& batch, const protocol::RecordItem& item, int64_t start, int64_t end,
           std::set<std::string>* known, protocol::Batch::StoreState* state) {
    const auto key = static_cast<size_t>(item.key_index);
    std::string row = RowKey(shapes_[state->store], batch.keys[key], start, end);
    const protocol::StateValue value = Value(state->store, row);
    if (value.what == What::kAbsent || !known->insert(std::move(row)).second) return;
    state->windows[key].push_back({start, end, value});
  }

  const Flight& flight_;
  const StoreModel& model_;
  const std::vector<std::string>& stores_;
  const std::vector<StoreShape>& shapes_;
  std::deque<std::string> held_;
};

// A value of `expected` as ShowBytes writes it; conditions stay.
absl::StatusOr<Json> Shown(const Json& value) {
  if (value.is_null() || (value.is_object() && !value.contains("repeat"))) return value;
  MS_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(value));
  return ShowBytes(bytes);
}

}  // namespace

absl::StatusOr<std::vector<CaseRecord>> ReadRecords(const Json& list, const std::vector<std::string>& inputs,
                                                    const std::vector<std::string>& visits,
                                                    const std::vector<StoreShape>& shapes, int64_t* next_offset) {
  std::vector<CaseRecord> records;
  for (const Json& entry : list) {
    if (!entry.is_object()) return absl::InvalidArgumentError(StrCat("a record is a map, not ", entry.dump()));
    const size_t before = records.size();
    if (entry.contains("generate")) {
      MS_ASSIGN_OR_RETURN(std::vector<CaseRecord> many, Generate(entry["generate"], inputs, shapes));
      std::move(many.begin(), many.end(), std::back_inserter(records));
    } else if (entry.contains("visit")) {
      MS_ASSIGN_OR_RETURN(CaseRecord row, ReadVisit(entry, visits));
      records.push_back(std::move(row));
    } else {
      MS_ASSIGN_OR_RETURN(CaseRecord record, ReadRecord(entry, inputs, shapes));
      records.push_back(std::move(record));
    }
    for (size_t i = before; i < records.size(); ++i) {
      if (entry.contains("offset") || records[i].type != protocol::RecordItem::Type::kRecord) continue;
      records[i].offset = (*next_offset)++;
    }
  }
  return records;
}

std::string BatchFrame(const Flight& flight, const StoreModel& model, const std::vector<std::string>& stores,
                       const std::vector<StoreShape>& shapes, const std::vector<size_t>& prefetched) {
  protocol::Batch batch;
  batch.seq = flight.sent_as;
  batch.task = TaskId(flight.task);
  batch.flags = flight.flags;
  batch.watermark_ms = flight.watermark_ms;
  std::map<std::string_view, int32_t> indexes;
  for (size_t i = flight.done; i < flight.records.size(); ++i) {
    const CaseRecord& record = flight.records[i];
    protocol::RecordItem& item = batch.items.emplace_back();
    item.type = record.type;
    item.windows = record.windows;
    item.clock = record.clock;
    item.name = record.name;
    item.store = record.store;
    item.visit = record.visit;
    item.closing.start_ms = record.start_ms;
    item.closing.end_ms = record.end_ms;
    item.input = record.input;
    item.offset = Offset(record.offset);
    item.timestamp_ms = record.timestamp_ms;
    item.attempt = record.attempt;
    if (record.value) item.value = *record.value;
    for (const auto& [name, value] : record.headers)
      item.headers.emplace_back(name, value ? protocol::MaybeView(*value) : std::nullopt);
    if (!record.key) continue;
    const auto [at, fresh] = indexes.emplace(*record.key, static_cast<int32_t>(batch.keys.size()));
    if (fresh) batch.keys.push_back(*record.key);
    item.key_index = at->second;
  }
  StateFill fill(flight, model, stores, shapes);
  fill.Closings(&batch);
  for (const size_t store : prefetched) {
    auto& state = batch.state.emplace_back();
    state.store = static_cast<uint32_t>(store);
    fill.Fill(batch, &state);
  }
  return protocol::EncodeFrame(batch);
}

void JoinSessions(const std::vector<StoreShape>& shapes, size_t done, Flight* flight, StoreModel* model) {
  for (size_t i = flight->done; i < flight->done + done; ++i) {
    const CaseRecord& record = flight->records[i];
    if (!record.key) continue;
    for (const protocol::ItemWindow& window : record.windows) {
      if (!window.session) continue;
      const StoreShape& shape = shapes[window.store];
      const std::string row = RowKey(shape, *record.key, window.start_ms, window.end_ms);
      const auto written = flight->state.find(shape.name);
      for (const auto& [start, end] : window.merged) {
        const std::string part = RowKey(shape, *record.key, start, end);
        if (part == row) continue;
        model->Erase(window.store, part);
        if (written != flight->state.end()) written->erase(ShowRow(shape, part).get<std::string>());
      }
      if (!model->Find(window.store, row)) model->Put(window.store, row, "");
      if (written != flight->state.end() && written->empty()) flight->state.erase(written);
    }
  }
}

absl::StatusOr<Json> ReadExpectedState(const Json& state, const std::vector<StoreShape>& shapes) {
  Json read = Json::object();
  for (const auto& [store, rows] : state.items()) {
    if (!rows.is_object()) return absl::InvalidArgumentError(StrCat("state: ", store, " is no map of keys"));
    Json& of_store = read[store] = Json::object();
    const StoreShape& shape = ShapeOf(shapes, store);
    for (const auto& [key, value] : rows.items()) {
      if (key == "generate") {
        for (uint64_t i = 0; i < value.value("count", uint64_t{0}); ++i)
          of_store[Numbered(value["key"], i)] = Numbered(value["value"], i);
        continue;
      }
      MS_ASSIGN_OR_RETURN(const std::string row, ReadRow(shape, key));
      MS_ASSIGN_OR_RETURN(of_store[ShowRow(shape, row).get<std::string>()], Shown(value));
    }
  }
  return read;
}

absl::StatusOr<Json> ReadExpectedTimers(const Json& timers) {
  Json read = Json::array();
  for (const Json& timer : timers) {
    if (!timer.is_array() || timer.size() != 4)
      return absl::InvalidArgumentError(StrCat("a timer is [KEY, event|wall, NAME, TIME or null], not ", timer.dump()));
    Json& one = read.emplace_back(timer);
    MS_ASSIGN_OR_RETURN(one[0], Shown(timer[0]));
  }
  return read;
}

absl::StatusOr<Json> ReadExpectedVisits(const Json& visits) {
  Json read = Json::array();
  for (const Json& visit : visits) {
    if (!visit.is_array() || visit.size() != 3)
      return absl::InvalidArgumentError(
          StrCat("an op on a visit is [NAME, start|stop|pause|resume, DATA or null], not ", visit.dump()));
    Json& one = read.emplace_back(visit);
    MS_ASSIGN_OR_RETURN(one[2], Shown(visit[2]));
  }
  return read;
}

absl::StatusOr<Json> ReadExpectedOutputs(const Json& outputs) {
  Json read = Json::array();
  for (const Json& output : outputs) {
    if (!output.is_object()) return absl::InvalidArgumentError(StrCat("an output is a map, not ", output.dump()));
    Json& one = read.emplace_back(output);
    for (const char* field : {"key", "value"}) {
      if (!one.contains(field)) one[field] = nullptr;
      MS_ASSIGN_OR_RETURN(one[field], Shown(one[field]));
    }
    if (!one.contains("timestamp")) one["timestamp"] = {{"any", true}};
    if (!one.contains("partition")) one["partition"] = nullptr;
    if (!one.contains("headers")) one["headers"] = Json::array();
    for (Json& header : one["headers"]) {
      for (Json& part : header) {
        MS_ASSIGN_OR_RETURN(part, Shown(part));
      }
    }
  }
  return read;
}

}  // namespace millstream::cli::conform
