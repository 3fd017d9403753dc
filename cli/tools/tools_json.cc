// JSON forms of what the tools are asked and answer: what travels over the control socket, and what -o json prints.

#include "absl/strings/escaping.h"
#include "cli/tools/adopt.h"
#include "cli/tools/dead_letters.h"
#include "cli/tools/reset.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

using Json = nlohmann::json;

Json Base64(const MaybeBytes& bytes) {
  if (!bytes.has_value()) return Json();
  std::string text;
  absl::Base64Escape(ToAbsl(*bytes), &text);
  return text;
}

Json ToJson(const TopicPartition& of) { return {{"topic", of.topic}, {"partition", of.partition.value()}}; }

}  // namespace

Json ToJson(const ResetRequest& request) {
  Json inputs = Json::array();
  for (const ResetRequest::Input& input : request.inputs) {
    inputs.push_back({{"topic", input.topic},
                      {"start", static_cast<int>(input.start_from.type)},
                      {"time", absl::ToUnixMillis(input.start_from.time)},
                      {"toEnd", input.to_end}});
  }
  return {{"group", request.group},
          {"owner", request.owner},
          {"inputs", inputs},
          {"changelogs", request.changelogs},
          {"partitions", request.partitions},
          {"target", static_cast<int>(request.target.kind)},
          {"number", request.target.number}};
}

ResetRequest ResetRequestFrom(const Json& json) {
  ResetRequest request;
  request.group = json.at("group");
  request.owner = json.at("owner");
  for (const Json& input : json.at("inputs")) {
    request.inputs.push_back({.topic = input.at("topic"),
                              .start_from = {.type = static_cast<spec::StartFrom::Type>(input.at("start").get<int>()),
                                             .time = absl::FromUnixMillis(input.at("time").get<int64_t>())},
                              .to_end = input.at("toEnd")});
  }
  request.changelogs = json.at("changelogs").get<std::vector<std::string>>();
  request.partitions = json.at("partitions").get<std::vector<int32_t>>();
  request.target = {.kind = static_cast<ResetTarget::Kind>(json.at("target").get<int>()), .number = json.at("number")};
  return request;
}

Json ToJson(const ResetPlan& plan) {
  Json rows = Json::array();
  for (const ResetRow& row : plan.rows) {
    Json json = ToJson(row.of);
    json["from"] = row.from.has_value() ? Json(row.from->value()) : Json();
    json["to"] = row.to.value();
    json["start"] = row.start.value();
    json["end"] = row.end.value();
    json["clamped"] = row.clamped;
    rows.push_back(std::move(json));
  }
  return {{"partitions", rows},
          {"tasks", plan.tasks},
          {"changelogOffsets", plan.changelog_offsets},
          {"members", plan.members}};
}

Json ToJson(const AdoptRequest& request) {
  return {{"group", request.group}, {"owner", request.owner}, {"topics", request.topics}};
}

AdoptRequest AdoptRequestFrom(const Json& json) {
  return {.group = json.at("group"),
          .owner = json.at("owner"),
          .topics = json.at("topics").get<std::vector<std::string>>()};
}

Json ToJson(const AdoptPlan& plan) {
  Json rows = Json::array();
  for (const AdoptPlan::Row& row : plan.rows) {
    Json json = ToJson(row.of);
    json["offset"] = row.next.value();
    json["owner"] = row.owner.empty() ? Json() : Json(row.owner);
    rows.push_back(std::move(json));
  }
  return {{"partitions", rows}, {"alreadyOurs", plan.already_ours}, {"members", plan.members}};
}

Json ToJson(const DeadLetterRequest& request) {
  Json hashes = Json::object();
  for (const auto& [topic, hash] : request.hashes) hashes[topic] = static_cast<int>(hash);
  return {{"group", request.group},
          {"owner", request.owner},
          {"topic", request.topic},
          {"hashes", hashes},
          {"all", request.all},
          {"partitions", request.partitions},
          {"skipForeign", request.skip_foreign},
          {"limit", request.limit}};
}

DeadLetterRequest DeadLetterRequestFrom(const Json& json) {
  DeadLetterRequest request;
  request.group = json.at("group");
  request.owner = json.at("owner");
  request.topic = json.at("topic");
  for (const auto& [topic, hash] : json.at("hashes").items())
    request.hashes[topic] = static_cast<log::KeyHash>(hash.get<int>());
  request.partitions = json.at("partitions").get<std::vector<int32_t>>();
  request.all = json.at("all");
  request.skip_foreign = json.at("skipForeign");
  request.limit = json.at("limit");
  return request;
}

Json ToJson(const DeadLetterList& list) {
  Json rows = Json::array();
  for (const DeadLetterRow& row : list.rows) {
    Json json = ToJson(row.of);
    json["offset"] = row.record.offset.value();
    json["timestampMs"] = row.record.timestamp_ms;
    json["key"] = Base64(row.record.key);
    json["value"] = Base64(row.record.value);
    json["replayed"] = row.replayed;
    Json headers = Json::array();
    for (const Header& header : OriginalHeaders(row.record.headers))
      headers.push_back({{"name", Base64(header.name)}, {"value", Base64(header.value)}});
    json["headers"] = std::move(headers);
    if (row.origin.has_value()) {
      json["origin"] = {{"topic", row.origin->topic},        {"partition", row.origin->partition},
                        {"offset", row.origin->offset},      {"class", row.origin->failure_class},
                        {"error", row.origin->message},      {"attempts", row.origin->attempts},
                        {"processor", row.origin->processor}};
    }
    rows.push_back(std::move(json));
  }
  return {{"letters", rows}, {"more", list.more}};
}

Json ToJson(const ReplayReport& report) {
  Json to = Json::array();
  for (const auto& [of, records] : report.to) {
    Json json = ToJson(of);
    json["records"] = records;
    to.push_back(std::move(json));
  }
  return {{"to", to}, {"records", report.records}, {"foreign", report.foreign}, {"more", report.more}};
}

}  // namespace millstream::cli
