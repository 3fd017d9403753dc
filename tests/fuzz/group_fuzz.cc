#include "tests/fuzz/group_fuzz.h"

#include <vector>

#include "common/base/status.h"
#include "sidecar/group/plan/group_protocol.h"
#include "sidecar/group/plan/leader.h"
#include "sidecar/group/wire/api_versions.h"
#include "sidecar/group/wire/consumer_protocol.h"
#include "sidecar/group/wire/find_coordinator.h"
#include "sidecar/group/wire/heartbeat.h"
#include "sidecar/group/wire/init_producer_id.h"
#include "sidecar/group/wire/join_group.h"
#include "sidecar/group/wire/leave_group.h"
#include "sidecar/group/wire/message.h"
#include "sidecar/group/wire/sasl.h"
#include "sidecar/group/wire/sync_group.h"

namespace millstream {
namespace {

using namespace group;  // what is fuzzed

constexpr size_t kMostPlanned = 16;  // members: a plan of many different ones takes long, which is not what is sought

template <typename Decode, typename Encode>
void Check(std::string_view input, Decode decode, Encode encode) {
  const auto message = decode(input);
  if (!message.ok()) {
    MS_CHECK(!message.status().message().empty());
    return;
  }
  const std::string once = encode(*message);
  const auto again = decode(std::string_view(once));
  MS_CHECK_OK(again);
  MS_CHECK(encode(*again) == once);
}

template <typename M>
void CheckMessage(std::string_view input) {
  Check(
      input, [](std::string_view bytes) { return wire::DecodeMessage<M>(bytes); },
      [](const M& message) { return wire::EncodeMessage(message); });
}

template <typename M>
void CheckIgnoringTrailing(std::string_view input) {
  Check(
      input, [](std::string_view bytes) { return wire::DecodeMessage<M>(bytes, wire::Trailing::kIgnore); },
      [](const M& message) { return wire::EncodeMessage(message); });
}

void CheckPlan(std::string_view input) {
  const auto joined = wire::DecodeMessage<wire::JoinGroupResponse>(input);
  if (!joined.ok() || joined->members.size() > kMostPlanned) return;
  const GenerationPlan plan = PrepareGeneration(*joined, Roster());
  const EncodedPlan encoded = EncodePlan(plan, {"in", "loop"}, plan.vanished, joined->member_id);
  MS_CHECK(encoded.assignments.size() == joined->members.size());
  for (size_t i = 0; i < encoded.assignments.size(); ++i) {
    const auto assignment = ReadAssignment(encoded.assignments[i].assignment);
    MS_CHECK_OK(assignment);
    MS_CHECK(assignment->active == plan.members[i].plan.active);
  }
}

void CheckMemberData(std::string_view input) {
  Check(input, DecodeMemberData, [](const MemberData& data) { return EncodeMemberData(data, SIZE_MAX); });
}

void CheckAssignmentData(std::string_view input) { Check(input, DecodeAssignmentData, EncodeAssignmentData); }

}  // namespace

void FuzzGroup(std::string_view input) {
  static constexpr void (*kChecks[])(std::string_view) = {
      CheckMessage<wire::ApiVersionsResponse>,
      CheckMessage<wire::FindCoordinatorResponse>,
      CheckMessage<wire::JoinGroupResponse>,
      CheckMessage<wire::SyncGroupResponse>,
      CheckMessage<wire::HeartbeatResponse>,
      CheckMessage<wire::LeaveGroupResponse>,
      CheckMessage<wire::InitProducerIdResponse>,
      CheckMessage<wire::SaslHandshakeResponse>,
      CheckMessage<wire::SaslAuthenticateResponse>,
      CheckMessage<wire::JoinGroupRequest>,
      CheckIgnoringTrailing<wire::Subscription>,
      CheckIgnoringTrailing<wire::Assignment>,
      CheckMemberData,
      CheckAssignmentData,
      CheckPlan,
  };
  if (input.empty()) return;
  // A copy of exactly that size: reading a byte too many is found.
  const std::vector<char> exact(input.begin() + 1, input.end());
  kChecks[static_cast<unsigned char>(input[0]) % std::size(kChecks)]({exact.data(), exact.size()});
}

}  // namespace millstream
