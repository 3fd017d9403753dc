#ifndef MILLSTREAM_SIDECAR_GROUP_WIRE_API_VERSIONS_H_
#define MILLSTREAM_SIDECAR_GROUP_WIRE_API_VERSIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/group/wire/api.h"
#include "sidecar/group/wire/error_code.h"

namespace millstream::group::wire {

struct ApiRange {
  int16_t key = 0, min = 0, max = 0;
};

struct ApiVersionsResponse {
  static constexpr std::string_view kName = "ApiVersionsResponse";

  ErrorCode error = ErrorCode::kNone;
  std::vector<ApiRange> ranges;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.Enum16(self.error);
    archive.Array(self.ranges, [](auto& a, auto& range) {
      a.Int16(range.key);
      a.Int16(range.min);
      a.Int16(range.max);
    });
  }
};

// What the broker speaks. Version 0, which every broker answers.
struct ApiVersionsRequest {
  static constexpr std::string_view kName = "ApiVersionsRequest";
  static constexpr ApiKey kApi = ApiKey::kApiVersions;
  static constexpr int16_t kVersion = 0;
  using Response = ApiVersionsResponse;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    static_cast<void>(archive);
    static_cast<void>(self);
  }
};

}  // namespace millstream::group::wire

#endif  // MILLSTREAM_SIDECAR_GROUP_WIRE_API_VERSIONS_H_
