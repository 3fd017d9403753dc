#ifndef MILLSTREAM_SIDECAR_GROUP_WIRE_HEARTBEAT_H_
#define MILLSTREAM_SIDECAR_GROUP_WIRE_HEARTBEAT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "sidecar/group/wire/api.h"
#include "sidecar/group/wire/error_code.h"

namespace millstream::group::wire {

struct HeartbeatResponse {
  static constexpr std::string_view kName = "HeartbeatResponse";

  int32_t throttle_ms = 0;
  ErrorCode error = ErrorCode::kNone;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.Int32(self.throttle_ms);
    archive.Enum16(self.error);
  }
};

// A sign of life. The answer also says whether the group rebalances.
struct HeartbeatRequest {
  static constexpr std::string_view kName = "HeartbeatRequest";
  static constexpr ApiKey kApi = ApiKey::kHeartbeat;
  static constexpr int16_t kVersion = 3;
  using Response = HeartbeatResponse;

  std::string group;
  int32_t generation = -1;
  std::string member_id, instance_id;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.String(self.group);
    archive.Int32(self.generation);
    archive.String(self.member_id);
    archive.NullIfEmpty(self.instance_id);
  }
};

}  // namespace millstream::group::wire

#endif  // MILLSTREAM_SIDECAR_GROUP_WIRE_HEARTBEAT_H_
