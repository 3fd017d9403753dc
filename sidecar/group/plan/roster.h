#ifndef MILLSTREAM_SIDECAR_GROUP_PLAN_ROSTER_H_
#define MILLSTREAM_SIDECAR_GROUP_PLAN_ROSTER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "sidecar/group/wire/reader.h"
#include "sidecar/group/wire/writer.h"

namespace millstream::group {

// The transactional ids of a generation's members, and those of earlier members whose transactions could not be ended
// yet. Who leads the next generation compares them with its members: what is missing has an open transaction at worst.
struct Roster {
  Generation generation{-1};                   // -1: none
  std::vector<std::string> transactional_ids;  // ascending

  bool empty() const { return generation.value() < 0; }
  friend bool operator==(const Roster&, const Roster&) = default;
};

void WriteRoster(wire::Writer& writer, const Roster& roster);
Roster ReadRoster(wire::Reader& reader);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_PLAN_ROSTER_H_
