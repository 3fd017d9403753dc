#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/group/wire/api_versions.h"
#include "sidecar/group/wire/consumer_protocol.h"
#include "sidecar/group/wire/error_code.h"
#include "sidecar/group/wire/find_coordinator.h"
#include "sidecar/group/wire/heartbeat.h"
#include "sidecar/group/wire/init_producer_id.h"
#include "sidecar/group/wire/join_group.h"
#include "sidecar/group/wire/leave_group.h"
#include "sidecar/group/wire/message.h"
#include "sidecar/group/wire/sasl.h"
#include "sidecar/group/wire/sync_group.h"

namespace millstream::group::wire {
namespace {

using ::testing::HasSubstr;
using namespace std::string_literals;  // literals with zero bytes

TEST(WireTest, ARequestIsWhatKafkasSchemasSay) {
  JoinGroupRequest join;
  join.group = "g";
  join.session_timeout_ms = 45'000;
  join.rebalance_timeout_ms = 60'000;
  join.member_id = "m";
  join.protocol_type = "consumer";
  join.protocols = {{"millstream", "xyz"}};
  const std::string body = EncodeMessage(join);
  EXPECT_EQ(body,
            "\0\1g"
            "\0\0\xaf\xc8"
            "\0\0\xea\x60"
            "\0\1m"
            "\xff\xff"
            "\0\x08"
            "consumer"
            "\0\0\0\1"
            "\0\x0a"
            "millstream"
            "\0\0\0\3"
            "xyz"s);
  EXPECT_EQ(FrameRequest(ApiKey::kJoinGroup, 5, 258, "me", "body"), "\0\0\0\x10\0\x0b\0\5\0\0\1\2\0\2mebody"s);
}

TEST(WireTest, AResponseIsWhatKafkasSchemasSay) {
  const auto good = DecodeMessage<JoinGroupResponse>(
      "\0\0\0\0"
      "\0\0"
      "\0\0\0\7"
      "\0\1p"
      "\0\1l"
      "\0\1m"
      "\0\0\0\2"
      "\0\1l\xff\xff\0\0\0\2ab"
      "\0\1m\0\3pod\0\0\0\0"s);
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->generation, 7);
  EXPECT_EQ(good->leader, "l");
  ASSERT_EQ(good->members.size(), 2u);
  EXPECT_EQ(good->members[0].metadata, "ab");
  EXPECT_EQ(good->members[1].instance_id, "pod");
}

TEST(WireTest, ErrorsNameMessageAndPlace) {
  EXPECT_EQ(DecodeMessage<HeartbeatResponse>("\0\0\0\0\0"s).status().message(),
            "malformed HeartbeatResponse: it ends in the middle of a number (at byte 4)");
  EXPECT_EQ(DecodeMessage<HeartbeatResponse>("\0\0\0\0\0\0!"s).status().message(),
            "malformed HeartbeatResponse: 1 bytes are left over (at byte 6)");
  EXPECT_TRUE(DecodeMessage<HeartbeatResponse>("\0\0\0\0\0\0!"s, Trailing::kIgnore).ok());
}

TEST(WireTest, NothingIsAllocatedForWhatIsNotThere) {
  // Two billion ranges, announced in ten bytes.
  EXPECT_THAT(std::string(DecodeMessage<ApiVersionsResponse>("\0\0\x7f\xff\xff\xff\0\0\0\0"s).status().message()),
              HasSubstr("cannot be there"));
  EXPECT_FALSE(DecodeMessage<SyncGroupResponse>("\0\0\0\0\0\0\x7f\xff\xff\xff"s).ok());
  EXPECT_FALSE(DecodeMessage<SyncGroupResponse>("\0\0\0\0\0\0\xff\xff\xff\xfe"s).ok());
  EXPECT_TRUE(DecodeMessage<SyncGroupResponse>("\0\0\0\0\0\0\xff\xff\xff\xff"s).ok());  // null
  EXPECT_FALSE(DecodeMessage<SaslHandshakeRequest>("\xff\xff"s).ok());
}

template <typename M>
void RoundTrip(const M& message) {
  const std::string bytes = EncodeMessage(message);
  const auto read = DecodeMessage<M>(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(EncodeMessage(*read), bytes);
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(DecodeMessage<M>(bytes.substr(0, size)).ok()) << size;
}

TEST(WireTest, EveryMessageComesBackAsItWent) {
  RoundTrip(ApiVersionsRequest{});
  RoundTrip(ApiVersionsResponse{.error = ErrorCode::kUnsupportedVersion, .ranges = {{1, 2, 3}, {18, 0, 4}}});
  RoundTrip(FindCoordinatorRequest{.key = "g", .kind = 1});
  RoundTrip(FindCoordinatorResponse{.error_message = "no", .node = 4, .host = "h", .port = 9092});
  RoundTrip(JoinGroupResponse{
      .generation = 4, .protocol = "p", .leader = "l", .member_id = "m", .members = {{"m", "i", "data"}}});
  RoundTrip(
      SyncGroupRequest{.group = "g", .member_id = "m", .instance_id = "i", .assignments = {{"m", "a"}, {"n", ""}}});
  RoundTrip(SyncGroupResponse{.error = ErrorCode::kRebalanceInProgress, .assignment = "a"});
  RoundTrip(HeartbeatRequest{.group = "g", .generation = 5, .member_id = "m", .instance_id = ""});
  RoundTrip(HeartbeatResponse{.error = ErrorCode::kUnknown});
  RoundTrip(LeaveGroupRequest{.group = "g", .members = {{"m", "i"}}});
  RoundTrip(LeaveGroupResponse{.members = {{"m", "", ErrorCode::kUnknownMemberId}}});
  RoundTrip(InitProducerIdRequest{.transactional_id = "t", .transaction_timeout_ms = 60'000});
  RoundTrip(InitProducerIdResponse{.producer_id = int64_t{1} << 40, .producer_epoch = 3});
  RoundTrip(SaslHandshakeRequest{.mechanism = "PLAIN"});
  RoundTrip(SaslHandshakeResponse{.mechanisms = {"PLAIN", "GSSAPI"}});
  RoundTrip(SaslAuthenticateRequest{.payload = "\0u\0p"s});
  RoundTrip(SaslAuthenticateResponse{.error_message = "no", .payload = "x", .session_lifetime_ms = 1});
  RoundTrip(Subscription{.topics = {"a", "b"}, .user_data = "u", .owned = {{"a", {1, 2}}}});
  RoundTrip(Assignment{.partitions = {{"a", {1, 2}}, {"b", {}}}, .user_data = "u"});
}

TEST(WireTest, MetadataOfOtherVersionsOfTheConsumerProtocolIsRead) {
  Subscription subscription{.version = 0, .topics = {"a"}, .user_data = "u", .owned = {}};
  std::string bytes = EncodeMessage(subscription);
  ASSERT_TRUE(DecodeMessage<Subscription>(bytes, Trailing::kIgnore).ok());
  subscription.version = 3;
  bytes = EncodeMessage(subscription) + "generation and rack";
  ASSERT_TRUE(DecodeMessage<Subscription>(bytes, Trailing::kIgnore).ok());
}

TEST(ErrorCodeTest, WhatAMemberDoesAboutEach) {
  const std::vector<std::pair<ErrorCode, Reaction>> table = {
      {ErrorCode::kNone, Reaction::kProceed},
      {ErrorCode::kCoordinatorLoadInProgress, Reaction::kRetry},
      {ErrorCode::kCoordinatorNotAvailable, Reaction::kFindCoordinator},
      {ErrorCode::kNotCoordinator, Reaction::kFindCoordinator},
      {ErrorCode::kIllegalGeneration, Reaction::kRejoinWithId},
      {ErrorCode::kUnknownMemberId, Reaction::kRejoinAsNew},
      {ErrorCode::kRebalanceInProgress, Reaction::kRebalance},
      {ErrorCode::kMemberIdRequired, Reaction::kTakeMemberId},
      {ErrorCode::kFencedInstanceId, Reaction::kStop},
      {ErrorCode::kGroupMaxSizeReached, Reaction::kComplain},
      {ErrorCode::kInconsistentGroupProtocol, Reaction::kComplain},
      {ErrorCode::kInvalidSessionTimeout, Reaction::kComplain},
      {ErrorCode::kInvalidGroupId, Reaction::kComplain},
      {ErrorCode::kGroupAuthorizationFailed, Reaction::kComplain},
      {static_cast<ErrorCode>(999), Reaction::kRetry},
  };
  for (const auto& [code, reaction] : table) EXPECT_EQ(ReactionTo(code), reaction) << ErrorName(code);
}

TEST(ErrorCodeTest, ErrorsSayTheWayOut) {
  const absl::Status denied = ErrorStatus(ErrorCode::kGroupAuthorizationFailed, "group g: JoinGroup");
  EXPECT_TRUE(absl::IsPermissionDenied(denied));
  EXPECT_EQ(denied.message(),
            "group g: JoinGroup: GROUP_AUTHORIZATION_FAILED (30); allow this user to READ and DESCRIBE the group");
  EXPECT_EQ(ErrorStatus(static_cast<ErrorCode>(999), "x").message(), "x: error (999)");
}

}  // namespace
}  // namespace millstream::group::wire
