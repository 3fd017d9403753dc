#include "operator/model/json_path.h"

#include "common/base/strings.h"
#include "common/spec/quantity.h"

namespace millstream::model {

const Json* Find(const Json& from, std::initializer_list<std::string_view> path) {
  const Json* at = &from;
  for (const std::string_view key : path) {
    if (!at->is_object()) return nullptr;
    const auto found = at->find(std::string(key));
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at;
}

std::string TextAt(const Json& from, std::initializer_list<std::string_view> path) {
  const Json* found = Find(from, path);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

int64_t IntAt(const Json& from, std::initializer_list<std::string_view> path, int64_t otherwise) {
  const Json* found = Find(from, path);
  return found != nullptr && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

bool BoolAt(const Json& from, std::initializer_list<std::string_view> path) {
  const Json* found = Find(from, path);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

absl::Time TimeAt(const Json& from, std::initializer_list<std::string_view> path, absl::Time otherwise) {
  absl::Time time;
  std::string error;
  const std::string text = TextAt(from, path);
  return !text.empty() && absl::ParseTime(absl::RFC3339_full, text, &time, &error) ? time : otherwise;
}

const Json& ListAt(const Json& from, std::initializer_list<std::string_view> path) {
  static const Json* const none = new Json(Json::array());
  const Json* found = Find(from, path);
  return found != nullptr && found->is_array() ? *found : *none;
}

const Json* ItemOf(const Json& list, std::string_view key, std::string_view value) {
  if (!list.is_array()) return nullptr;
  for (const Json& item : list) {
    if (TextAt(item, {key}) == value) return &item;
  }
  return nullptr;
}

int64_t BytesAt(const Json& from, std::initializer_list<std::string_view> path) {
  const Json* found = Find(from, path);
  if (found == nullptr) return 0;
  if (found->is_number_integer()) return found->get<int64_t>();
  if (!found->is_string()) return 0;
  return spec::ParseQuantity(found->get<std::string>()).value_or(0);
}

}  // namespace millstream::model
