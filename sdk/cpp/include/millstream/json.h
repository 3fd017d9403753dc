#ifndef MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_JSON_H_
#define MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_JSON_H_

#include <exception>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace millstream::worker {

/// Compact JSON in UTF-8, through nlohmann-json: a program that includes this header has that library. T is what the
/// library converts: numbers, strings, containers, your own structs (NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE), or
/// nlohmann::json for anything. NaN and infinities become null, as that library has it.
template <typename T = nlohmann::json>
struct Json {
  using Value = T;  ///< what the library converts
  /// For messages.
  std::string_view name() const { return "JSON"; }
  /// Refuses texts that are not UTF-8.
  absl::Status Encode(const T& value, std::string* out) const {
    try {
      out->append(nlohmann::json(value).dump());
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return absl::InvalidArgumentError(error.what());
    }
  }
  /// Refuses what is not JSON, or not that of a T.
  absl::StatusOr<T> Decode(std::string_view bytes) const {
    try {
      return nlohmann::json::parse(bytes.begin(), bytes.end()).template get<T>();
    } catch (const std::exception& error) {
      return absl::InvalidArgumentError(error.what());
    }
  }
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_JSON_H_
