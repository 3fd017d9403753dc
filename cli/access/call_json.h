#ifndef MILLSTREAM_CLI_ACCESS_CALL_JSON_H_
#define MILLSTREAM_CLI_ACCESS_CALL_JSON_H_

// JSON forms of what travels in kCall, kReply and kConsume frames. Internal to this folder: included by
// remote_access.cc and control_server.cc only. Byte strings are base64. A value of the wrong type throws
// nlohmann::json::exception, which both users catch at their frame loop.

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "cli/access/log_access.h"
#include "common/base/strings.h"
#include "nlohmann/json.hpp"

namespace millstream::cli::call_json {

using Json = nlohmann::json;

// Text of an error may hold anything a record held.
inline std::string Dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

inline Json FromBytes(std::string_view bytes) {
  std::string text;
  absl::Base64Escape(ToAbsl(bytes), &text);
  return text;
}
inline Bytes ToBytes(const Json& value) {
  std::string bytes;
  absl::Base64Unescape(ToAbsl(value.get_ref<const std::string&>()), &bytes);
  return bytes;
}
inline Json FromMaybe(const MaybeBytes& bytes) { return bytes.has_value() ? FromBytes(*bytes) : Json(); }
inline MaybeBytes ToMaybe(const Json& value) { return value.is_null() ? MaybeBytes() : MaybeBytes(ToBytes(value)); }

inline std::string OkReply(const Json& value) { return Dump(Json{{"ok", value}}); }
inline std::string ErrorReply(const absl::Status& status) {
  return Dump(Json{{"error", {{"code", static_cast<int>(status.code())}, {"message", std::string(status.message())}}}});
}
// The value of a reply, or the error it carries.
inline absl::StatusOr<Json> ParseReply(const std::string& payload) {
  const Json reply = Json::parse(payload);
  if (reply.contains("ok")) return reply.at("ok");
  const Json& error = reply.at("error");
  return absl::Status(static_cast<absl::StatusCode>(error.at("code").get<int>()),
                      error.at("message").get<std::string>());
}

inline Json FromTopicInfo(const log::TopicInfo& info) {
  return {{"name", info.name}, {"id", info.id}, {"partitions", info.partitions}, {"config", info.config}};
}
inline log::TopicInfo ToTopicInfo(const Json& json) {
  log::TopicInfo info;
  info.name = json.at("name");
  info.id = json.at("id");
  info.partitions = json.at("partitions");
  info.config = json.at("config").get<std::map<std::string, std::string>>();
  return info;
}

inline Json FromTopicDetail(const TopicDetail& detail) {
  Json partitions = Json::array();
  for (const PartitionExtent& extent : detail.partitions) {
    partitions.push_back(
        {extent.partition.value(), extent.start.value(), extent.stable_end.value(), extent.end.value()});
  }
  return {{"info", FromTopicInfo(detail.info)}, {"partitions", partitions}};
}
inline TopicDetail ToTopicDetail(const Json& json) {
  TopicDetail detail;
  detail.info = ToTopicInfo(json.at("info"));
  for (const Json& extent : json.at("partitions")) {
    detail.partitions.push_back({.partition = Partition(extent.at(0).get<int32_t>()),
                                 .start = Offset(extent.at(1).get<int64_t>()),
                                 .stable_end = Offset(extent.at(2).get<int64_t>()),
                                 .end = Offset(extent.at(3).get<int64_t>())});
  }
  return detail;
}

inline Json FromTopicSpec(const log::TopicSpec& spec) {
  return {{"name", spec.name},
          {"partitions", spec.partitions},
          {"replication_factor", spec.replication_factor},
          {"config", spec.config}};
}
inline log::TopicSpec ToTopicSpec(const Json& json) {
  log::TopicSpec spec;
  spec.name = json.at("name");
  spec.partitions = json.at("partitions");
  spec.replication_factor = json.at("replication_factor");
  spec.config = json.at("config").get<std::map<std::string, std::string>>();
  return spec;
}

inline Json FromConsumeRequest(const ConsumeRequest& request) {
  Json partitions = Json::array();
  for (const Partition partition : request.partitions) partitions.push_back(partition.value());
  return {{"topic", request.topic},
          {"partitions", partitions},
          {"where", static_cast<int>(request.start.where)},
          {"number", request.start.number},
          {"committed", request.isolation == log::Isolation::kReadCommitted}};
}
inline ConsumeRequest ToConsumeRequest(const Json& json) {
  ConsumeRequest request;
  request.topic = json.at("topic");
  for (const Json& partition : json.at("partitions")) request.partitions.push_back(Partition(partition.get<int32_t>()));
  request.start = {.where = static_cast<StartAt::Where>(json.at("where").get<int>()), .number = json.at("number")};
  request.isolation =
      json.at("committed").get<bool>() ? log::Isolation::kReadCommitted : log::Isolation::kReadUncommitted;
  return request;
}

inline Json FromStateQuery(const StateQuery& query) {
  return {{"processor", query.processor},  {"store", query.store},      {"key", FromBytes(query.key)},
          {"from", FromMaybe(query.from)}, {"to", FromMaybe(query.to)}, {"reverse", query.reverse},
          {"limit", query.limit}};
}
inline StateQuery ToStateQuery(const Json& json) {
  StateQuery query;
  query.processor = json.at("processor");
  query.store = json.at("store");
  query.key = ToBytes(json.at("key"));
  query.from = ToMaybe(json.at("from"));
  query.to = ToMaybe(json.at("to"));
  query.reverse = json.at("reverse");
  query.limit = json.at("limit");
  return query;
}

inline Json FromTaskRow(const TaskRow& row) {
  return {row.processor, row.task, row.state, row.records, row.lag, row.error};
}
inline TaskRow ToTaskRow(const Json& json) {
  return {.processor = json.at(0),
          .task = json.at(1),
          .state = json.at(2),
          .records = json.at(3),
          .lag = json.at(4),
          .error = json.at(5)};
}

inline Json FromStateRows(const std::vector<StateRow>& rows) {
  Json list = Json::array();
  for (const StateRow& row : rows) {
    Json one = {row.task, FromBytes(row.key), FromBytes(row.value)};
    if (row.window) one.insert(one.end(), {row.window->start_ms, row.window->end_ms});
    list.push_back(std::move(one));
  }
  return list;
}
inline std::vector<StateRow> ToStateRows(const Json& list) {
  std::vector<StateRow> rows;
  for (const Json& json : list) {
    StateRow row{
        .task = json.at(0).get<int32_t>(), .key = ToBytes(json.at(1)), .value = ToBytes(json.at(2)), .window = {}};
    if (json.size() > 3) row.window = {json.at(3).get<int64_t>(), json.at(4).get<int64_t>()};
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace millstream::cli::call_json

#endif  // MILLSTREAM_CLI_ACCESS_CALL_JSON_H_
