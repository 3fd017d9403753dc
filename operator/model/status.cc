#include "operator/model/status.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status.h"

namespace millstream::model {
namespace {

constexpr size_t kMaxMessageBytes = 32 << 10;
constexpr double kWorthTelling = 0.1;

std::string StatusText(Condition::Status status) {
  switch (status) {
    case Condition::Status::kTrue:
      return "True";
    case Condition::Status::kFalse:
      return "False";
    case Condition::Status::kUnknown:
      return "Unknown";
  }
  return "Unknown";
}

// Not ending within a UTF-8 character.
std::string Cut(const std::string& text) {
  size_t end = std::min(text.size(), kMaxMessageBytes);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

const Json* Named(const Json& conditions, const std::string& type) {
  if (!conditions.is_array()) return nullptr;
  for (const Json& condition : conditions) {
    if (condition.is_object() && condition.value("type", Json()) == type) return &condition;
  }
  return nullptr;
}

bool OnlyWhileTrue(const std::string& type) { return type == "Reconciling" || type == "Stalled"; }

bool IsNews(const Json& before, const Json& after) {
  if (!before.is_number() || !after.is_number()) return before != after;
  const double old_number = before.get<double>();
  const double new_number = after.get<double>();
  if ((old_number == 0) != (new_number == 0)) return true;
  return std::abs(new_number - old_number) > kWorthTelling * std::abs(old_number);
}

Json At(const Json& status, const char* block, const char* number) {
  if (!status.is_object() || !status.contains(block) || !status.at(block).is_object()) return nullptr;
  return status.at(block).value(number, Json());
}

bool NumbersAreNews(const Json& before, const Json& wanted) {
  for (const auto& [block, number] : {std::pair{"lag", "records"}, std::pair{"lag", "seconds"},
                                      std::pair{"restore", "bytesLeft"}, std::pair{"restore", "etaSeconds"}}) {
    if (IsNews(At(before, block, number), At(wanted, block, number))) return true;
  }
  return false;
}

Json WithoutNumbers(Json status) {
  if (!status.is_object()) return Json::object();
  status.erase("lag");
  status.erase("restore");
  return status;
}

}  // namespace

Json ConditionsOf(const Json& before, const std::vector<Condition>& now, int64_t generation, absl::Time time) {
  Json conditions = Json::array();
  for (const Condition& condition : now) {
    MS_CHECK(!condition.type.empty() && !condition.reason.empty());
    if (OnlyWhileTrue(condition.type) && condition.status != Condition::Status::kTrue) continue;
    const std::string status = StatusText(condition.status);
    // Kubernetes' Time: whole seconds.
    Json since = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
    if (const Json* old = Named(before, condition.type); old != nullptr && old->value("status", Json()) == status) {
      if (const Json then = old->value("lastTransitionTime", Json()); then.is_string()) since = then;
    }
    conditions.push_back(Json{{"type", condition.type},
                              {"status", status},
                              {"observedGeneration", generation},
                              {"lastTransitionTime", since},
                              {"reason", condition.reason},
                              {"message", Cut(condition.message)}});
  }
  return conditions;
}

std::optional<Json> StatusToWrite(const Json& before, const Json& wanted, absl::Duration since_last) {
  if (before == wanted) return std::nullopt;
  if (WithoutNumbers(before) != WithoutNumbers(wanted)) return wanted;
  if (since_last < kNumbersInterval || !NumbersAreNews(before, wanted)) return std::nullopt;
  return wanted;
}

}  // namespace millstream::model
