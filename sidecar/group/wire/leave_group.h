#ifndef MILLSTREAM_SIDECAR_GROUP_WIRE_LEAVE_GROUP_H_
#define MILLSTREAM_SIDECAR_GROUP_WIRE_LEAVE_GROUP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/group/wire/api.h"
#include "sidecar/group/wire/error_code.h"

namespace millstream::group::wire {

struct LeavingMember {
  std::string member_id, instance_id;
  ErrorCode error = ErrorCode::kNone;  // in the response
};

// Errors about a member are in its item, not on top.
struct LeaveGroupResponse {
  static constexpr std::string_view kName = "LeaveGroupResponse";

  int32_t throttle_ms = 0;
  ErrorCode error = ErrorCode::kNone;
  std::vector<LeavingMember> members;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.Int32(self.throttle_ms);
    archive.Enum16(self.error);
    archive.Array(self.members, [](auto& a, auto& member) {
      a.String(member.member_id);
      a.NullIfEmpty(member.instance_id);
      a.Enum16(member.error);
    });
  }
};

// With its instance id a static member is removed at once, too.
struct LeaveGroupRequest {
  static constexpr std::string_view kName = "LeaveGroupRequest";
  static constexpr ApiKey kApi = ApiKey::kLeaveGroup;
  static constexpr int16_t kVersion = 3;
  using Response = LeaveGroupResponse;

  std::string group;
  std::vector<LeavingMember> members;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.String(self.group);
    archive.Array(self.members, [](auto& a, auto& member) {
      a.String(member.member_id);
      a.NullIfEmpty(member.instance_id);
    });
  }
};

}  // namespace millstream::group::wire

#endif  // MILLSTREAM_SIDECAR_GROUP_WIRE_LEAVE_GROUP_H_
