#ifndef MILLSTREAM_OPERATOR_KUBE_JSON_H_
#define MILLSTREAM_OPERATOR_KUBE_JSON_H_

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace millstream::kube {

// Kubernetes objects are JSON values: the operator keeps fields it does not know, and new ones need no new types.
using Json = nlohmann::json;

// INVALID_ARGUMENT with the place of the error. `what` names the text in the message. Never throws.
absl::StatusOr<Json> ParseJson(std::string_view text, std::string_view what);

// Down a path of keys, for objects of which nothing is certain: nullptr where there is no such thing.
const Json* Find(const Json& from, std::initializer_list<std::string_view> path);
// The text, number or truth there; the default when it is missing or of another kind.
std::string TextAt(const Json& from, std::initializer_list<std::string_view> path, std::string_view otherwise = "");
int64_t IntAt(const Json& from, std::initializer_list<std::string_view> path, int64_t otherwise = 0);
bool BoolAt(const Json& from, std::initializer_list<std::string_view> path, bool otherwise = false);

}  // namespace millstream::kube

#endif  // MILLSTREAM_OPERATOR_KUBE_JSON_H_
