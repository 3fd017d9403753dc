#ifndef MILLSTREAM_SIDECAR_GROUP_WIRE_FIND_COORDINATOR_H_
#define MILLSTREAM_SIDECAR_GROUP_WIRE_FIND_COORDINATOR_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "sidecar/group/wire/api.h"
#include "sidecar/group/wire/error_code.h"

namespace millstream::group::wire {

struct FindCoordinatorResponse {
  static constexpr std::string_view kName = "FindCoordinatorResponse";

  int32_t throttle_ms = 0;
  ErrorCode error = ErrorCode::kNone;
  std::string error_message;
  int32_t node = 0;
  std::string host;
  int32_t port = 0;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.Int32(self.throttle_ms);
    archive.Enum16(self.error);
    archive.NullIfEmpty(self.error_message);
    archive.Int32(self.node);
    archive.String(self.host);
    archive.Int32(self.port);
  }
};

enum class CoordinatorKind : int8_t { kGroup = 0, kTransaction = 1 };

// Which broker looks after a group (key: its id) or a transactional id. Any broker answers.
struct FindCoordinatorRequest {
  static constexpr std::string_view kName = "FindCoordinatorRequest";
  static constexpr ApiKey kApi = ApiKey::kFindCoordinator;
  static constexpr int16_t kVersion = 2;
  using Response = FindCoordinatorResponse;

  std::string key;
  int8_t kind = static_cast<int8_t>(CoordinatorKind::kGroup);

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.String(self.key);
    archive.Int8(self.kind);
  }
};

}  // namespace millstream::group::wire

#endif  // MILLSTREAM_SIDECAR_GROUP_WIRE_FIND_COORDINATOR_H_
