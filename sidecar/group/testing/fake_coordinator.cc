#include "sidecar/group/testing/fake_coordinator.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/strings.h"

namespace millstream::group {
namespace {

template <typename Response>
Response WithError(wire::ErrorCode error) {
  Response response;
  response.error = error;
  return response;
}

}  // namespace

void FakeCoordinator::Call(absl::Duration now, const CallRequest& request, Reply reply) {
  now_ = now;
  std::visit(
      [&](const auto& chosen) {
        using T = std::decay_t<decltype(chosen)>;
        if constexpr (std::is_same_v<T, wire::FindCoordinatorRequest>) {
          wire::FindCoordinatorResponse found;
          found.host = "broker";
          found.port = 9092;
          reply(found);
        } else if constexpr (std::is_same_v<T, wire::JoinGroupRequest>) {
          Join(chosen, std::move(reply));
        } else if constexpr (std::is_same_v<T, wire::SyncGroupRequest>) {
          Sync(chosen, reply);
        } else if constexpr (std::is_same_v<T, wire::HeartbeatRequest>) {
          Heartbeat(chosen, reply);
        } else {
          Leave(chosen, reply);
        }
      },
      request);
}

void FakeCoordinator::Tick(absl::Duration now) {
  now_ = now;
  std::vector<std::string> expired;
  for (const auto& [id, member] : members_) {
    if (!member.join && !member.sync && now_ - member.last_sign > member.session) expired.push_back(id);
  }
  for (const std::string& id : expired) Remove(id);
  if (state_ == State::kPreparing && now_ >= rebalance_by_) CompleteJoin();
  if (state_ == State::kCompleting && now_ >= sync_by_) {
    std::vector<std::string> late;
    for (const auto& [id, member] : members_) {
      if (!member.sync) late.push_back(id);
    }
    for (const std::string& id : late) Remove(id);
    if (state_ == State::kCompleting) Prepare();
  }
}

std::string FakeCoordinator::NewId(const std::string& prefix) {
  return StrCat(prefix, "-", absl::StrFormat("%036d", ++ids_));  // as long as a UUID
}

wire::ErrorCode FakeCoordinator::Check(const std::string& member_id, const std::string& instance_id) const {
  if (!instance_id.empty()) {
    const auto known = static_ids_.find(instance_id);
    if (known == static_ids_.end()) return wire::ErrorCode::kUnknownMemberId;
    if (known->second != member_id) return wire::ErrorCode::kFencedInstanceId;
  }
  return Knows(member_id) ? wire::ErrorCode::kNone : wire::ErrorCode::kUnknownMemberId;
}

void FakeCoordinator::Update(Member* member, const wire::JoinGroupRequest& request) {
  member->instance_id = request.instance_id;
  member->metadata = request.protocols.at(0).metadata;
  member->session = absl::Milliseconds(request.session_timeout_ms);
  member->rebalance = absl::Milliseconds(request.rebalance_timeout_ms);
  member->last_sign = now_;
}

void FakeCoordinator::Join(const wire::JoinGroupRequest& request, Reply reply) {
  if (request.member_id.empty()) {
    if (!request.instance_id.empty()) return JoinStatic(request, std::move(reply));
    auto required = WithError<wire::JoinGroupResponse>(wire::ErrorCode::kMemberIdRequired);
    required.member_id = NewId("member");
    pending_.insert(required.member_id);
    return reply(required);
  }
  if (pending_.erase(request.member_id) > 0) {
    Update(&members_[request.member_id], request);
    members_[request.member_id].join = std::move(reply);
    return Prepare();
  }
  const wire::ErrorCode error = Check(request.member_id, request.instance_id);
  if (error != wire::ErrorCode::kNone) return reply(WithError<wire::JoinGroupResponse>(error));
  JoinKnown(request.member_id, request, std::move(reply));
}

void FakeCoordinator::JoinStatic(const wire::JoinGroupRequest& request, Reply reply) {
  const std::string id = NewId(request.instance_id);
  const auto known = static_ids_.find(request.instance_id);
  if (known == static_ids_.end()) {
    static_ids_[request.instance_id] = id;
    Update(&members_[id], request);
    members_[id].join = std::move(reply);
    return Prepare();
  }
  const std::string old_id = std::exchange(known->second, id);
  Member member = std::move(members_[old_id]);
  members_.erase(old_id);
  const auto fenced = wire::ErrorCode::kFencedInstanceId;
  if (member.join) std::exchange(member.join, nullptr)(WithError<wire::JoinGroupResponse>(fenced));
  if (member.sync) std::exchange(member.sync, nullptr)(WithError<wire::SyncGroupResponse>(fenced));
  Update(&member, request);
  const std::string leader_told = leader_;  // version 5: the former self, if it led
  if (leader_ == old_id) leader_ = id;
  Member& now = members_[id] = std::move(member);
  if (state_ != State::kStable) {
    now.join = std::move(reply);
    return state_ == State::kCompleting ? Prepare() : CompleteJoinIfAllAreHere();
  }
  wire::JoinGroupResponse same;
  same.generation = generation_;
  same.protocol = request.protocols.at(0).name;
  same.leader = leader_told;
  same.member_id = id;
  reply(same);
}

void FakeCoordinator::JoinKnown(const std::string& id, const wire::JoinGroupRequest& request, Reply reply) {
  Member& member = members_[id];
  const bool changed = member.metadata != request.protocols.at(0).metadata;
  Update(&member, request);
  if (state_ != State::kPreparing) {
    if (!changed && (state_ == State::kCompleting || id != leader_)) return ReplyJoin(id, reply);
    member.join = std::move(reply);
    return Prepare();
  }
  member.join = std::move(reply);
  CompleteJoinIfAllAreHere();
}

void FakeCoordinator::Prepare() {
  if (state_ == State::kCompleting) {
    for (auto& [id, member] : members_) {
      if (Reply waiting = std::exchange(member.sync, nullptr)) {
        member.last_sign = now_;
        waiting(WithError<wire::SyncGroupResponse>(wire::ErrorCode::kRebalanceInProgress));
      }
    }
  }
  if (state_ != State::kPreparing) {
    state_ = State::kPreparing;
    absl::Duration longest;
    for (const auto& [id, member] : members_) longest = std::max(longest, member.rebalance);
    rebalance_by_ = now_ + longest;
  }
  CompleteJoinIfAllAreHere();
}

void FakeCoordinator::CompleteJoinIfAllAreHere() {
  if (state_ != State::kPreparing) return;
  const bool all = std::all_of(members_.begin(), members_.end(), [](const auto& entry) { return !!entry.second.join; });
  if (all) CompleteJoin();
}

void FakeCoordinator::CompleteJoin() {
  std::vector<std::string> gone;
  std::string first;
  for (const auto& [id, member] : members_) {
    if (!member.join && member.instance_id.empty()) gone.push_back(id);
    if (member.join && first.empty()) first = id;
  }
  for (const std::string& id : gone) members_.erase(id);
  ++generation_;
  if (members_.empty()) {
    state_ = State::kEmpty;
    return;
  }
  if (first.empty()) {  // only absent static members: wait on
    rebalance_by_ = now_ + absl::Seconds(10);
    return;
  }
  if (members_.count(leader_) == 0 || !members_[leader_].join) leader_ = first;
  state_ = State::kCompleting;
  sync_by_ = now_ + absl::Seconds(60);
  for (auto& [id, member] : members_) {
    member.assignment.clear();
    if (Reply waiting = std::exchange(member.join, nullptr)) {
      member.last_sign = now_;
      ReplyJoin(id, waiting);
    }
  }
}

void FakeCoordinator::ReplyJoin(const std::string& id, const Reply& reply) const {
  wire::JoinGroupResponse response;
  response.generation = generation_;
  response.protocol = "millstream";
  response.leader = leader_;
  response.member_id = id;
  if (id == leader_) {
    for (const auto& [other, member] : members_)
      response.members.push_back({other, member.instance_id, member.metadata});
  }
  reply(response);
}

void FakeCoordinator::Sync(const wire::SyncGroupRequest& request, const Reply& reply) {
  wire::ErrorCode error = Check(request.member_id, request.instance_id);
  if (error == wire::ErrorCode::kNone && request.generation != generation_) error = wire::ErrorCode::kIllegalGeneration;
  if (error == wire::ErrorCode::kNone && state_ == State::kPreparing) error = wire::ErrorCode::kRebalanceInProgress;
  if (error != wire::ErrorCode::kNone) return reply(WithError<wire::SyncGroupResponse>(error));
  Member& member = members_[request.member_id];
  member.last_sign = now_;
  wire::SyncGroupResponse response;
  if (state_ == State::kStable) {
    response.assignment = member.assignment;
    return reply(response);
  }
  member.sync = reply;
  if (request.member_id != leader_) return;
  for (const auto& item : request.assignments) {
    if (Knows(item.member_id)) members_[item.member_id].assignment = item.assignment;
  }
  state_ = State::kStable;
  for (auto& [id, each] : members_) {
    if (Reply waiting = std::exchange(each.sync, nullptr)) {
      each.last_sign = now_;
      response.assignment = each.assignment;
      waiting(response);
    }
  }
}

void FakeCoordinator::Heartbeat(const wire::HeartbeatRequest& request, const Reply& reply) {
  wire::ErrorCode error = Check(request.member_id, request.instance_id);
  if (error == wire::ErrorCode::kNone && request.generation != generation_) error = wire::ErrorCode::kIllegalGeneration;
  if (error == wire::ErrorCode::kNone) {
    members_[request.member_id].last_sign = now_;
    if (state_ == State::kPreparing) error = wire::ErrorCode::kRebalanceInProgress;
  }
  reply(WithError<wire::HeartbeatResponse>(error));
}

void FakeCoordinator::Leave(const wire::LeaveGroupRequest& request, const Reply& reply) {
  wire::LeaveGroupResponse response;
  for (wire::LeavingMember member : request.members) {
    // By its name alone, as Kafka's own tool removes one.
    if (member.member_id.empty() && static_ids_.count(member.instance_id) > 0)
      member.member_id = static_ids_.at(member.instance_id);
    member.error = Check(member.member_id, member.instance_id);
    if (member.error == wire::ErrorCode::kNone) Remove(member.member_id);
    response.members.push_back(member);
  }
  reply(response);
}

void FakeCoordinator::Remove(const std::string& id) {
  const auto member = members_.find(id);
  if (member == members_.end()) return;
  if (!member->second.instance_id.empty()) static_ids_.erase(member->second.instance_id);
  members_.erase(member);
  if (members_.empty() && state_ != State::kPreparing) {
    state_ = State::kEmpty;
    ++generation_;
  } else if (state_ == State::kPreparing) {
    CompleteJoinIfAllAreHere();
  } else {
    Prepare();
  }
}

}  // namespace millstream::group
