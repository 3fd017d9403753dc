#ifndef MILLSTREAM_OPERATOR_MODEL_JSON_PATH_H_
#define MILLSTREAM_OPERATOR_MODEL_JSON_PATH_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "operator/model/processor.h"

namespace millstream::model {

// Down a path of keys, for objects of which nothing is certain: nullptr where there is no such thing.
const Json* Find(const Json& from, std::initializer_list<std::string_view> path);
// What is there; the default when it is missing or of another kind.
std::string TextAt(const Json& from, std::initializer_list<std::string_view> path);
int64_t IntAt(const Json& from, std::initializer_list<std::string_view> path, int64_t otherwise = 0);
bool BoolAt(const Json& from, std::initializer_list<std::string_view> path);
absl::Time TimeAt(const Json& from, std::initializer_list<std::string_view> path, absl::Time otherwise);  // RFC 3339
// The list there; an empty one.
const Json& ListAt(const Json& from, std::initializer_list<std::string_view> path);
// The item of the list whose `key` is `value`; nullptr: none.
const Json* ItemOf(const Json& list, std::string_view key, std::string_view value);
// A quantity there, as text or number, in whole bytes; 0: none.
int64_t BytesAt(const Json& from, std::initializer_list<std::string_view> path);

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_JSON_PATH_H_
