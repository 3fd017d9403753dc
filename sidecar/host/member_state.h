#ifndef MILLSTREAM_SIDECAR_HOST_MEMBER_STATE_H_
#define MILLSTREAM_SIDECAR_HOST_MEMBER_STATE_H_

#include <optional>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "sidecar/host/orders.h"

namespace millstream::host {

// How far an order to drain has been carried out.
enum class DrainState {
  kNo,        // not ordered
  kDraining,  // tasks are still here, or the group is not left yet
  kDrained,   // no task is here, and this process is no member of its group
};
// "No", "Draining", "Drained".
constexpr std::string_view ToString(DrainState state) {
  return state == DrainState::kNo ? "No" : state == DrainState::kDraining ? "Draining" : "Drained";
}

// A process as a member of its processor's group.
struct MemberState {
  bool in_group = false;
  std::vector<TaskId> held;  // tasks the group has given it, whether open yet or not; ascending
  DrainState drain = DrainState::kNo;
  std::optional<Orders> orders;  // in force
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_MEMBER_STATE_H_
