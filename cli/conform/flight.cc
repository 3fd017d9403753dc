#include "cli/conform/flight.h"

#include <algorithm>
#include <map>

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

absl::StatusOr<CaseRecord> ReadRecord(const Json& map, const std::vector<std::string>& inputs) {
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
    } else {
      return absl::InvalidArgumentError(StrCat("a record has no field ", field, ": ", value.dump()));
    }
  }
  return record;
}

absl::StatusOr<std::vector<CaseRecord>> Generate(const Json& rule, const std::vector<std::string>& inputs) {
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
    MS_ASSIGN_OR_RETURN(CaseRecord read, ReadRecord(record, inputs));
    records.push_back(std::move(read));
  }
  return records;
}

bool Withheld(const Flight& flight, const std::string& store, std::string_view key) {
  const auto rule = flight.not_prefetched.find(store);
  if (rule == flight.not_prefetched.end()) return false;
  if (rule->is_boolean()) return rule->get<bool>();
  return std::any_of(rule->begin(), rule->end(), [&](const Json& one) {
    const auto bytes = ReadBytes(one);
    return bytes.ok() && *bytes == key;
  });
}

// A value of `expected` as ShowBytes writes it; conditions stay.
absl::StatusOr<Json> Shown(const Json& value) {
  if (value.is_null() || (value.is_object() && !value.contains("repeat"))) return value;
  MS_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(value));
  return ShowBytes(bytes);
}

}  // namespace

absl::StatusOr<std::vector<CaseRecord>> ReadRecords(const Json& list, const std::vector<std::string>& inputs,
                                                    int64_t* next_offset) {
  std::vector<CaseRecord> records;
  for (const Json& entry : list) {
    if (!entry.is_object()) return absl::InvalidArgumentError(StrCat("a record is a map, not ", entry.dump()));
    const size_t before = records.size();
    if (entry.contains("generate")) {
      MS_ASSIGN_OR_RETURN(std::vector<CaseRecord> many, Generate(entry["generate"], inputs));
      std::move(many.begin(), many.end(), std::back_inserter(records));
    } else {
      MS_ASSIGN_OR_RETURN(CaseRecord record, ReadRecord(entry, inputs));
      records.push_back(std::move(record));
    }
    for (size_t i = before; i < records.size(); ++i) {
      if (entry.contains("offset")) continue;
      records[i].offset = (*next_offset)++;
    }
  }
  return records;
}

std::string BatchFrame(const Flight& flight, const StoreModel& model, const std::vector<std::string>& stores,
                       const std::vector<size_t>& prefetched) {
  protocol::Batch batch;
  batch.seq = flight.sent_as;
  batch.task = TaskId(flight.task);
  batch.flags = flight.flags;
  batch.watermark_ms = flight.watermark_ms;
  std::map<std::string_view, int32_t> indexes;
  for (size_t i = flight.done; i < flight.records.size(); ++i) {
    const CaseRecord& record = flight.records[i];
    protocol::RecordItem& item = batch.items.emplace_back();
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
  std::vector<std::vector<std::optional<std::string>>> values;  // what the views in the state point to
  for (const size_t store : prefetched) {
    auto& held = values.emplace_back();
    for (const std::string_view key : batch.keys) held.push_back(model.Find(store, key));
  }
  for (size_t i = 0; i < prefetched.size(); ++i) {
    auto& state = batch.state.emplace_back();
    state.store = static_cast<uint32_t>(prefetched[i]);
    for (size_t k = 0; k < batch.keys.size(); ++k) {
      protocol::StateValue& value = state.values.emplace_back();
      using What = protocol::StateValue::What;
      if (Withheld(flight, stores[prefetched[i]], batch.keys[k])) {
        value.what = What::kNotPrefetched;
      } else if (values[i][k].has_value()) {
        value = {What::kValue, *values[i][k]};
      }
    }
  }
  return protocol::EncodeFrame(batch);
}

absl::StatusOr<Json> ReadExpectedState(const Json& state) {
  Json read = Json::object();
  for (const auto& [store, rows] : state.items()) {
    if (!rows.is_object()) return absl::InvalidArgumentError(StrCat("state: ", store, " is no map of keys"));
    Json& of_store = read[store] = Json::object();
    for (const auto& [key, value] : rows.items()) {
      if (key == "generate") {
        for (uint64_t i = 0; i < value.value("count", uint64_t{0}); ++i)
          of_store[Numbered(value["key"], i)] = Numbered(value["value"], i);
        continue;
      }
      MS_ASSIGN_OR_RETURN(const Json shown_key, Shown(key));
      MS_ASSIGN_OR_RETURN(of_store[shown_key.get<std::string>()], Shown(value));
    }
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
