#include "operator/reconcile/difference.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "common/spec/quantity.h"

namespace millstream::reconcile {
namespace {

using kube::Json;

// By what items of Kubernetes' lists are told apart, as server-side apply does; the first that an item has.
constexpr const char* kListKeys[] = {"name", "mountPath", "topologyKey", "containerPort", "port", "uid", "ip"};

// The item of `list` that is `item`, wherever it stands; nullptr: there is none, or items have no names.
const Json* Counterpart(const Json& item, const Json& list) {
  if (!item.is_object()) return nullptr;
  for (const char* key : kListKeys) {
    const auto name = item.find(key);
    if (name == item.end()) continue;
    for (const Json& other : list) {
      if (!other.is_object()) continue;
      const auto found = other.find(key);
      if (found != other.end() && *found == *name) return &other;
    }
    return nullptr;
  }
  return nullptr;
}

bool HasNames(const Json& list) {
  if (list.empty() || !list.front().is_object()) return false;
  for (const char* key : kListKeys) {
    if (list.front().contains(key)) return true;
  }
  return false;
}

// What the API server may leave out of an answer.
bool IsEmpty(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || ((value.is_object() || value.is_array()) && value.empty());
}

std::string AsText(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// A quantity in thousandths of its unit, in which "0.5" and "500m" are the same and "1500m" and "2" are not.
std::optional<int64_t> Thousandths(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const char last = text.back();
  if (last == 'm') return spec::ParseQuantity(std::string_view(text).substr(0, text.size() - 1));
  if (last == '.' || (last >= '0' && last <= '9')) {
    if (const std::optional<int64_t> found = spec::ParseQuantity(text + "k")) return found;
  }
  const std::optional<int64_t> whole = spec::ParseQuantity(text);
  if (!whole || *whole > std::numeric_limits<int64_t>::max() / 1000) return std::nullopt;
  return *whole * 1000;
}

bool SameScalar(const Json& wanted, const Json& live) {
  if (wanted == live) return true;
  const bool numeric = (wanted.is_string() || wanted.is_number()) && (live.is_string() || live.is_number());
  if (!numeric) return false;
  const std::string a = AsText(wanted), b = AsText(live);
  if (a == b) return true;
  const std::optional<int64_t> left = Thousandths(a);
  return left && left == Thousandths(b);
}

bool SameList(const Json& wanted, const Json& live) {
  if (!HasNames(wanted)) {
    if (wanted.size() != live.size()) return false;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!IsAsWanted(wanted[i], live[i])) return false;
    }
    return true;
  }
  for (const Json& item : wanted) {
    const Json* there = Counterpart(item, live);
    if (there == nullptr || !IsAsWanted(item, *there)) return false;
  }
  return true;
}

}  // namespace

bool IsAsWanted(const Json& wanted, const Json& live) {
  if (IsEmpty(wanted) && IsEmpty(live)) return true;
  if (wanted.is_array() && live.is_array()) return SameList(wanted, live);
  if (!wanted.is_object()) return SameScalar(wanted, live);
  if (!live.is_object()) return false;
  for (const auto& [key, value] : wanted.items()) {
    const auto there = live.find(key);
    if (there == live.end() ? !IsEmpty(value) : !IsAsWanted(value, *there)) return false;
  }
  return true;
}

Json PartOf(const Json& wanted, const Json& live) {
  if (wanted.is_object() && live.is_object()) {
    Json part = Json::object();
    for (const auto& [key, value] : wanted.items()) {
      if (const auto there = live.find(key); there != live.end()) part[key] = PartOf(value, *there);
    }
    return part;
  }
  if (!wanted.is_array() || !live.is_array() || !HasNames(wanted)) return live;
  Json part = Json::array();
  for (const Json& item : wanted) {
    if (const Json* there = Counterpart(item, live)) part.push_back(PartOf(item, *there));
  }
  return part;
}

}  // namespace millstream::reconcile
