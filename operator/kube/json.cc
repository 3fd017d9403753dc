#include "operator/kube/json.h"

#include "common/base/strings.h"

namespace millstream::kube {

absl::StatusOr<Json> ParseJson(std::string_view text, std::string_view what) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(StrCat(what, " is not JSON: ", std::string(error.what())));
  }
}

const Json* Find(const Json& from, std::initializer_list<std::string_view> path) {
  const Json* at = &from;
  for (const std::string_view key : path) {
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at;
}

std::string TextAt(const Json& from, std::initializer_list<std::string_view> path, std::string_view otherwise) {
  const Json* at = Find(from, path);
  return at != nullptr && at->is_string() ? at->get<std::string>() : std::string(otherwise);
}

int64_t IntAt(const Json& from, std::initializer_list<std::string_view> path, int64_t otherwise) {
  const Json* at = Find(from, path);
  return at != nullptr && at->is_number_integer() ? at->get<int64_t>() : otherwise;
}

bool BoolAt(const Json& from, std::initializer_list<std::string_view> path, bool otherwise) {
  const Json* at = Find(from, path);
  return at != nullptr && at->is_boolean() ? at->get<bool>() : otherwise;
}

}  // namespace millstream::kube
