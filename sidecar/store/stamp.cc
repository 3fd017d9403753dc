#include "sidecar/store/stamp.h"

#include <map>

#include "common/base/strings.h"
#include "nlohmann/json.hpp"

namespace millstream::store {
namespace {

using Json = nlohmann::json;

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json Parse(std::string_view text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false); }

bool IsOnDisk(const StoreDefinition& store) { return store.backend == StoreDefinition::Backend::kDisk; }

Json StoresToJson(const TaskIdentity& identity) {
  Json stores = Json::object();
  for (const StoreDefinition& store : identity.stores) {
    if (!IsOnDisk(store)) continue;
    stores[store.name] = {{"topic", store.changelog_topic}, {"topicId", store.changelog_topic_id}};
    if (store.timed) stores[store.name]["timed"] = true;
  }
  return stores;
}

std::string Quoted(const Json& value) {
  return value.is_string() ? StrCat("'", value.get<std::string>(), "'") : Dump(value);
}

std::string DifferenceOfStores(const Json& found, const Json& wanted) {
  if (!found.is_object()) return "its stamp names no stores";
  for (const auto& [name, store] : wanted.items()) {
    if (!found.contains(name)) return StrCat("it has no store '", name, "'");
    if (found[name] == store) continue;
    if (!found[name].is_object() || found[name].value("topic", Json()) != store["topic"]) {
      return StrCat("store '", name, "' had another changelog topic (", Dump(found[name]), ", now ",
                    Quoted(store["topic"]), ")");
    }
    const bool was_timed = found[name].value("timed", Json()) == true;
    if (was_timed != store.contains("timed")) {
      return StrCat(
          "rows of store '", name, "' ",
          was_timed ? "have times, which one without ttl has not" : "have no times, which one with ttl needs");
    }
    return StrCat("the changelog topic ", Quoted(store["topic"]), " of store '", name, "' was created anew (id ",
                  Quoted(found[name].value("topicId", Json())), ", now ", Quoted(store["topicId"]), ")");
  }
  for (const auto& [name, unused] : found.items()) {
    if (!wanted.contains(name)) return StrCat("it has a store '", name, "' that the manifest does not name any more");
  }
  return "";
}

}  // namespace

std::string EncodeStamp(const TaskIdentity& identity) {
  return Dump({{"format", kFormatVersion},
               {"group", identity.group},
               {"task", identity.task.value()},
               {"stores", StoresToJson(identity)}});
}

std::string DifferenceFromStamp(std::string_view found, const TaskIdentity& identity) {
  const Json stamp = Parse(found);
  if (!stamp.is_object()) return "its stamp cannot be read";
  const Json format = stamp.value("format", Json());
  if (format != kFormatVersion)
    return StrCat("its format version is ", Dump(format), "; this build knows ", kFormatVersion);
  const Json group = stamp.value("group", Json());
  if (group != identity.group) return StrCat("it belongs to group ", Quoted(group), ", not '", identity.group, "'");
  const Json task = stamp.value("task", Json());
  if (task != identity.task.value()) return StrCat("it belongs to task ", Dump(task), ", not ", identity.task.value());
  return DifferenceOfStores(stamp.value("stores", Json()), StoresToJson(identity));
}

std::string EncodePositions(const Positions& positions, const TaskIdentity& identity) {
  Json changelog = Json::object();
  for (const auto& [index, offset] : positions.changelog) {
    if (IsOnDisk(identity.stores[index])) changelog[identity.stores[index].name] = offset.value();
  }
  Json inputs = Json::object();
  for (const auto& [topic, offset] : positions.inputs) inputs[topic] = offset.value();
  return Dump({{"changelog", changelog}, {"inputs", inputs}, {"wallMs", positions.wall_ms}});
}

absl::StatusOr<Positions> DecodePositions(std::string_view text, const TaskIdentity& identity) {
  const Json json = Parse(text);
  const auto broken = [&] { return absl::DataLossError("the record of positions cannot be read"); };
  if (!json.is_object() || !json.contains("changelog") || !json.contains("inputs") || !json.contains("wallMs"))
    return broken();
  const Json &changelog = json["changelog"], &inputs = json["inputs"];
  if (!changelog.is_object() || !inputs.is_object() || !json["wallMs"].is_number_integer()) return broken();

  Positions positions;
  positions.wall_ms = json["wallMs"].get<int64_t>();
  for (StoreIndex i = 0; i < identity.stores.size(); ++i) {
    const StoreDefinition& store = identity.stores[i];
    const auto found = changelog.find(store.name);
    if (found == changelog.end() || !IsOnDisk(store) || store.changelog_topic.empty()) continue;
    if (!found->is_number_integer()) return broken();
    positions.changelog[i] = Offset(found->get<int64_t>());
  }
  for (const auto& [topic, offset] : inputs.items()) {
    if (!offset.is_number_integer()) return broken();
    positions.inputs[topic] = Offset(offset.get<int64_t>());
  }
  return positions;
}

}  // namespace millstream::store
