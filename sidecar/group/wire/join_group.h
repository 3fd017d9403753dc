#ifndef MILLSTREAM_SIDECAR_GROUP_WIRE_JOIN_GROUP_H_
#define MILLSTREAM_SIDECAR_GROUP_WIRE_JOIN_GROUP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/group/wire/api.h"
#include "sidecar/group/wire/error_code.h"

namespace millstream::group::wire {

struct JoinGroupMember {
  std::string member_id, instance_id;
  std::string metadata;  // a Subscription (consumer_protocol.h)
};

// `members` is filled for the leader only.
struct JoinGroupResponse {
  static constexpr std::string_view kName = "JoinGroupResponse";

  int32_t throttle_ms = 0;
  ErrorCode error = ErrorCode::kNone;
  int32_t generation = -1;
  std::string protocol, leader, member_id;
  std::vector<JoinGroupMember> members;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.Int32(self.throttle_ms);
    archive.Enum16(self.error);
    archive.Int32(self.generation);
    archive.NullIfEmpty(self.protocol);
    archive.String(self.leader);
    archive.String(self.member_id);
    archive.Array(self.members, [](auto& a, auto& member) {
      a.String(member.member_id);
      a.NullIfEmpty(member.instance_id);
      a.Bytes(member.metadata);
    });
  }
};

struct JoinGroupProtocol {
  std::string name, metadata;
};

// Become a member of the next generation. Answered when all members have joined or are out of time.
struct JoinGroupRequest {
  static constexpr std::string_view kName = "JoinGroupRequest";
  static constexpr ApiKey kApi = ApiKey::kJoinGroup;
  static constexpr int16_t kVersion = 5;
  using Response = JoinGroupResponse;

  std::string group;
  int32_t session_timeout_ms = 0, rebalance_timeout_ms = 0;
  std::string member_id;    // empty: a new one is given
  std::string instance_id;  // empty: a dynamic member
  std::string protocol_type;
  std::vector<JoinGroupProtocol> protocols;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.String(self.group);
    archive.Int32(self.session_timeout_ms);
    archive.Int32(self.rebalance_timeout_ms);
    archive.String(self.member_id);
    archive.NullIfEmpty(self.instance_id);
    archive.String(self.protocol_type);
    archive.Array(self.protocols, [](auto& a, auto& protocol) {
      a.String(protocol.name);
      a.Bytes(protocol.metadata);
    });
  }
};

}  // namespace millstream::group::wire

#endif  // MILLSTREAM_SIDECAR_GROUP_WIRE_JOIN_GROUP_H_
