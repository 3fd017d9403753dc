#ifndef MILLSTREAM_SIDECAR_GROUP_WIRE_SYNC_GROUP_H_
#define MILLSTREAM_SIDECAR_GROUP_WIRE_SYNC_GROUP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/group/wire/api.h"
#include "sidecar/group/wire/error_code.h"

namespace millstream::group::wire {

struct SyncGroupResponse {
  static constexpr std::string_view kName = "SyncGroupResponse";

  int32_t throttle_ms = 0;
  ErrorCode error = ErrorCode::kNone;
  std::string assignment;  // an Assignment (consumer_protocol.h)

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.Int32(self.throttle_ms);
    archive.Enum16(self.error);
    archive.Bytes(self.assignment);
  }
};

struct SyncGroupAssignment {
  std::string member_id, assignment;
};

// Fetch one's assignment of the generation; the leader brings everybody's.
struct SyncGroupRequest {
  static constexpr std::string_view kName = "SyncGroupRequest";
  static constexpr ApiKey kApi = ApiKey::kSyncGroup;
  static constexpr int16_t kVersion = 3;
  using Response = SyncGroupResponse;

  std::string group;
  int32_t generation = -1;
  std::string member_id, instance_id;
  std::vector<SyncGroupAssignment> assignments;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.String(self.group);
    archive.Int32(self.generation);
    archive.String(self.member_id);
    archive.NullIfEmpty(self.instance_id);
    archive.Array(self.assignments, [](auto& a, auto& item) {
      a.String(item.member_id);
      a.Bytes(item.assignment);
    });
  }
};

}  // namespace millstream::group::wire

#endif  // MILLSTREAM_SIDECAR_GROUP_WIRE_SYNC_GROUP_H_
