#include "sidecar/host/topic_stamp.h"

#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "nlohmann/json.hpp"

namespace millstream::host {
namespace {

using Json = nlohmann::json;

// Brokers refuse metadata above offset.metadata.max.bytes, 4096 unless changed; owner and tag take some hundred.
constexpr size_t kMostBytes = 3000;

constexpr const char kWayOut[] = "`millstream reset --to start` shows what setting offsets and state anew would do";

std::map<std::string, std::string> StampIn(const std::string& metadata) {
  std::map<std::string, std::string> stamp;
  const Json parsed = Json::parse(metadata, nullptr, false);
  if (!parsed.is_object()) return stamp;
  const auto topics = parsed.find("topics");
  if (topics == parsed.end() || !topics->is_object()) return stamp;
  for (const auto& [topic, id] : topics->items()) {
    if (id.is_string()) stamp[topic] = id.get<std::string>();
  }
  return stamp;
}

bool IsRead(const KnownTopic& known) {
  return known.role == KnownTopic::Role::kInput || known.role == KnownTopic::Role::kLoop;
}

absl::Status Recreated(const std::string& group, const KnownTopic& known, const std::string& before,
                       const TopicPartition& of, Offset next) {
  const bool input = IsRead(known);
  const char* const what = known.role == KnownTopic::Role::kLoop ? "loop" : input ? "input" : "changelog";
  return absl::FailedPreconditionError(
      StrCat("TopicRecreated: ", what, " topic ", known.topic, " was deleted and made anew since group ", group,
             " committed ", next.value(), " of ", of.ToString(), " (id ", known.id, " now, ", before, " then): ",
             input ? "offsets are of the old topic, going on would skip or repeat records. "
                   : "the state that belongs to the offsets is gone, going on would count from nothing in the middle. ",
             kWayOut));
}

}  // namespace

std::string TopicStampOf(const PreparedTopics& topics) {
  Json stamp = Json::object();
  size_t bytes = 0;
  for (const KnownTopic::Role role :
       {KnownTopic::Role::kInput, KnownTopic::Role::kLoop, KnownTopic::Role::kChangelog}) {
    for (const KnownTopic& known : topics.known) {
      if (known.role != role || known.id.empty()) continue;
      bytes += known.topic.size() + known.id.size() + 6;
      if (bytes > kMostBytes) break;
      stamp[known.topic] = known.id;
    }
  }
  return stamp.empty() ? "" : stamp.dump();
}

absl::Status CheckTopicStamp(const std::string& group, const PreparedTopics& topics,
                             const std::vector<TopicPartition>& inputs,
                             const std::map<TopicPartition, log::GroupOffset>& committed) {
  for (const auto& [of, offset] : committed) {
    const std::map<std::string, std::string> stamp = StampIn(offset.metadata);
    for (const KnownTopic& known : topics.known) {
      // An input's own offset knows best: it may have been set anew, and the others not.
      const TopicPartition own{known.topic, of.partition};
      if (IsRead(known) && own != of && committed.contains(own)) continue;
      const auto then = stamp.find(known.topic);
      if (then != stamp.end() && !known.id.empty() && then->second != known.id)
        return Recreated(group, known, then->second, of, offset.next);
    }
    for (const TopicPartition& input : inputs) {
      if (committed.contains(input) || !stamp.contains(input.topic)) continue;
      return absl::FailedPreconditionError(StrCat(
          "OffsetsLost: group ", group, " has no committed offset for ", input.ToString(), ", but one for ",
          of.ToString(), " that was committed together with it; going on would skip or repeat records. ", kWayOut));
    }
  }
  return absl::OkStatus();
}

}  // namespace millstream::host
