#include "sidecar/protocol/message_json.h"

#include <nlohmann/json.hpp>

#include "sidecar/protocol/utf8.h"

namespace millstream::protocol {
namespace {

using Json = nlohmann::json;

Json BytesJson(std::string_view bytes) {
  if (IsUtf8(bytes)) return std::string(bytes);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned char byte : bytes) (hex += kDigits[byte >> 4]) += kDigits[byte & 15];
  return {{"hex", hex}};
}

template <typename Bytes>
Json MaybeJson(const std::optional<Bytes>& bytes) {
  return bytes.has_value() ? BytesJson(*bytes) : Json();
}

template <typename T>
Json OptionalJson(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json();
}

Json HeadersJson(const std::vector<std::pair<std::string_view, MaybeView>>& headers) {
  Json list = Json::array();
  for (const auto& [name, value] : headers) list.push_back({{"name", BytesJson(name)}, {"value", MaybeJson(value)}});
  return list;
}

Json StateJson(const StateValue& value) {
  switch (value.what) {
    case StateValue::What::kAbsent:
      return Json();
    case StateValue::What::kValue:
      return BytesJson(value.value);
    case StateValue::What::kNotPrefetched:
      return {{"notPrefetched", true}};
  }
  return Json();
}

Json OpsJson(const StateOps& ops, bool with_item) {
  Json stores = Json::object();
  for (const auto& [store, list] : ops) {
    Json& writes = stores[std::to_string(store)] = Json::array();
    for (const StateOp& op : list) {
      writes.push_back({{"key", BytesJson(op.key)}, {"value", MaybeJson(op.value)}});
      if (with_item) writes.back()["item"] = op.item;
    }
  }
  return stores;
}

Json KeysJson(const std::vector<std::string_view>& keys) {
  Json list = Json::array();
  for (std::string_view key : keys) list.push_back(BytesJson(key));
  return list;
}

Json TopicsJson(const std::vector<NamedTopic>& topics) {
  Json list = Json::array();
  for (const NamedTopic& topic : topics) list.push_back({{"name", topic.name}, {"topic", topic.topic}});
  return list;
}

Json MessageJson(const Hello& m) {
  return {{"kind", "HELLO"},
          {"protocol", {m.min_version, m.max_version}},
          {"sdk", m.sdk},
          {"language", m.language},
          {"version", m.version},
          {"capabilities", m.capabilities},
          {"inputs", OptionalJson(m.inputs)},
          {"parallel", m.parallel},
          {"name", m.name}};
}

Json MessageJson(const Welcome& m) {
  Json outputs = Json::array();
  for (const Welcome::Output& output : m.outputs) {
    outputs.push_back({{"name", output.name}, {"topic", output.topic}, {"max_bytes", output.max_bytes}});
  }
  Json stores = Json::array();
  for (const StoreInfo& store : m.stores) {
    stores.push_back({{"name", store.name},
                      {"type", store.type},
                      {"prefetched", store.prefetched},
                      {"max_value_bytes", store.max_value_bytes}});
    if (const auto& window = store.window) {
      stores.back()["window"] = {{"size", window->size_ms},
                                 {"advance", window->advance_ms},
                                 {"grace", window->grace_ms},
                                 {"retention", window->retention_ms},
                                 {"final", window->final}};
    }
    if (const auto& session = store.session) {
      stores.back()["session"] = {
          {"gap", session->gap_ms}, {"grace", session->grace_ms}, {"retention", session->retention_ms}};
      if (session->final) stores.back()["session"]["final"] = true;
    }
  }
  const Json limits = {{"frame", m.frame_cap},
                       {"deadline_ms", m.deadline_ms},
                       {"min_timestamp", m.min_timestamp_ms},
                       {"max_timestamp", m.max_timestamp_ms}};
  Json json = {{"kind", "WELCOME"},
               {"protocol", m.version},
               {"session", m.session},
               {"processor", m.processor},
               {"inputs", TopicsJson(m.inputs)},
               {"outputs", outputs},
               {"stores", stores},
               {"joins", TopicsJson(m.joins)},
               {"lookups", TopicsJson(m.lookups)},
               {"capabilities", m.capabilities},
               {"limits", limits}};
  if (m.timers) json["timers"] = true;
  for (const Welcome::Visit& visit : m.visits) json["visits"].push_back({{"name", visit.name}, {"store", visit.store}});
  return json;
}

Json MessageJson(const Open& m) { return {{"kind", "OPEN"}, {"task", m.task.value()}}; }
Json MessageJson(const Close& m) { return {{"kind", "CLOSE"}, {"task", m.task.value()}}; }

Json ItemJson(const RecordItem& item) {
  if (item.type == RecordItem::Type::kTimer) {
    return {{"timer", BytesJson(item.name)},
            {"clock", static_cast<int>(item.clock)},
            {"keyIndex", item.key_index},
            {"time", item.timestamp_ms},
            {"attempt", item.attempt}};
  }
  if (item.type == RecordItem::Type::kClosing) {
    return {{"closing", item.store},
            {"keyIndex", item.key_index},
            {"start", item.closing.start_ms},
            {"end", item.closing.end_ms},
            {"value", StateJson(item.closing.value)},
            {"attempt", item.attempt}};
  }
  if (item.type == RecordItem::Type::kVisit) {
    return {{"visit", item.visit},
            {"keyIndex", item.key_index < 0 ? Json() : Json(item.key_index)},
            {"time", item.timestamp_ms},
            {"data", MaybeJson(item.value)},
            {"attempt", item.attempt}};
  }
  Json json = {{"input", item.input},
               {"offset", item.offset.value()},
               {"timestamp", item.timestamp_ms},
               {"keyIndex", item.key_index < 0 ? Json() : Json(item.key_index)},
               {"value", MaybeJson(item.value)},
               {"headers", HeadersJson(item.headers)},
               {"attempt", item.attempt}};
  for (const ItemWindow& window : item.windows) {
    Json entry = {{"store", window.store}, {"start", window.start_ms}, {"end", window.end_ms}};
    if (window.session) entry["merged"] = window.merged;
    json["windows"].push_back(std::move(entry));
  }
  return json;
}

Json StoreStateJson(const Batch::StoreState& store) {
  Json values = Json::array();
  for (const StateValue& value : store.values) values.push_back(StateJson(value));
  for (const std::vector<WindowValue>& rows : store.windows) {
    Json list = Json::array();
    for (const WindowValue& row : rows)
      list.push_back({{"start", row.start_ms}, {"end", row.end_ms}, {"value", StateJson(row.value)}});
    values.push_back(std::move(list));
  }
  return values;
}

Json MessageJson(const Batch& m) {
  Json items = Json::array();
  for (const RecordItem& item : m.items) items.push_back(ItemJson(item));
  Json state = Json::object();
  for (const Batch::StoreState& store : m.state) state[std::to_string(store.store)] = StoreStateJson(store);
  return {{"kind", "BATCH"},          {"seq", m.seq},
          {"task", m.task.value()},   {"flags", m.flags},
          {"keys", KeysJson(m.keys)}, {"items", items},
          {"state", state},           {"watermark", OptionalJson(m.watermark_ms)}};
}

Json MessageJson(const Result& m) {
  Json failure;
  if (m.failure.has_value()) {
    failure = {{"class", m.failure->failure_class},
               {"error", m.failure->error},
               {"message", m.failure->message},
               {"retriable", m.failure->retriable}};
  }
  Json outputs = Json::array();
  for (const OutputRecord& output : m.outputs) {
    outputs.push_back({{"output", output.output},
                       {"key", MaybeJson(output.key)},
                       {"value", MaybeJson(output.value)},
                       {"timestamp", OptionalJson(output.timestamp_ms)},
                       {"headers", HeadersJson(output.headers)},
                       {"partition", OptionalJson(output.partition)}});
  }
  Json json = {
      {"kind", "RESULT"},  {"seq", m.seq}, {"done", m.done}, {"failure", failure}, {"ops", OpsJson(m.ops, false)},
      {"outputs", outputs}};
  for (const TimerOp& timer : m.timers) {
    json["timers"].push_back({{"key", BytesJson(timer.key)},
                              {"clock", static_cast<int>(timer.clock)},
                              {"name", BytesJson(timer.name)},
                              {"time", OptionalJson(timer.time_ms)}});
  }
  for (const VisitOp& visit : m.visits) {
    json["visits"].push_back(
        {{"visit", visit.visit}, {"what", static_cast<int>(visit.what)}, {"data", MaybeJson(visit.data)}});
  }
  return json;
}

Json MessageJson(const Cancel& m) { return {{"kind", "CANCEL"}, {"seq", m.seq}}; }

Json MessageJson(const Get& m) {
  return {{"kind", "GET"},
          {"seq", m.seq},
          {"rid", m.rid},
          {"store", m.store},
          {"keys", KeysJson(m.keys)},
          {"newOps", OpsJson(m.new_ops, true)}};
}

Json MessageJson(const Values& m) {
  Json values = Json::array();
  for (const MaybeBytes& value : m.values) values.push_back(MaybeJson(value));
  return {{"kind", "VALUES"}, {"seq", m.seq}, {"rid", m.rid}, {"values", values}, {"error", OptionalJson(m.error)}};
}

Json MessageJson(const Scan& m) {
  return {{"kind", "SCAN"},
          {"seq", m.seq},
          {"rid", m.rid},
          {"store", m.store},
          {"from", MaybeJson(m.from)},
          {"to", MaybeJson(m.to)},
          {"limit", m.limit},
          {"reverse", m.reverse},
          {"cursor", MaybeJson(m.cursor)},
          {"newOps", OpsJson(m.new_ops, true)}};
}

Json MessageJson(const Rows& m) {
  Json rows = Json::array();
  for (const auto& [key, value] : m.rows) rows.push_back({{"key", BytesJson(key)}, {"value", BytesJson(value)}});
  return {{"kind", "ROWS"},
          {"seq", m.seq},
          {"rid", m.rid},
          {"rows", rows},
          {"cursor", MaybeJson(m.cursor)},
          {"error", OptionalJson(m.error)}};
}

Json MessageJson(const Extend& m) { return {{"kind", "EXTEND"}, {"seq", m.seq}, {"done", m.done}}; }
Json MessageJson(const BeginTransaction& m) { return {{"kind", "BEGIN"}, {"seq", m.seq}, {"task", m.task.value()}}; }
Json MessageJson(const FinalizeTransaction& m) {
  return {{"kind", "FINALIZE"}, {"seq", m.seq}, {"task", m.task.value()}};
}
Json MessageJson(const Committed& m) {
  Json tasks = Json::array();
  for (const auto& [task, seq] : m.tasks) tasks.push_back({task.value(), seq});
  return {{"kind", "COMMITTED"}, {"tasks", tasks}};
}
Json MessageJson(const Load& m) { return {{"kind", "LOAD"}, {"seq", m.seq}, {"task", m.task.value()}}; }
Json MessageJson(const Checkpoint& m) {
  return {{"kind", "CHECKPOINT"}, {"seq", m.seq}, {"fence", m.fence}, {"checkpoint", MaybeJson(m.checkpoint)}};
}
Json MessageJson(const Store& m) {
  return {{"kind", "STORE"},
          {"seq", m.seq},
          {"task", m.task.value()},
          {"fence", m.fence},
          {"checkpoint", BytesJson(m.checkpoint)}};
}
Json MessageJson(const Stored& m) { return {{"kind", "STORED"}, {"seq", m.seq}, {"stored", m.stored}}; }
Json MessageJson(const Ping& m) { return {{"kind", "PING"}, {"nonce", m.nonce}}; }
Json MessageJson(const Pong& m) { return {{"kind", "PONG"}, {"nonce", m.nonce}}; }
Json MessageJson(const Error& m) { return {{"kind", "ERROR"}, {"code", m.code}, {"message", m.message}}; }
Json MessageJson(const Goodbye& m) { return {{"kind", "GOODBYE"}, {"reason", m.reason}}; }

}  // namespace

std::string ToJson(const WorkerMessage& message) {
  return std::visit([](const auto& m) { return MessageJson(m).dump(1); }, message);
}

std::string ToJson(const SidecarMessage& message) {
  return std::visit([](const auto& m) { return MessageJson(m).dump(1); }, message);
}

}  // namespace millstream::protocol
