#ifndef MILLSTREAM_SIDECAR_GROUP_WIRE_API_H_
#define MILLSTREAM_SIDECAR_GROUP_WIRE_API_H_

#include <cstdint>

namespace millstream::group::wire {

// The calls of Kafka's protocol that are used here, by their numbers.
enum class ApiKey : int16_t {
  kFindCoordinator = 10,
  kJoinGroup = 11,
  kHeartbeat = 12,
  kLeaveGroup = 13,
  kSyncGroup = 14,
  kSaslHandshake = 17,
  kApiVersions = 18,
  kInitProducerId = 22,
  kSaslAuthenticate = 36,
};

}  // namespace millstream::group::wire

#endif  // MILLSTREAM_SIDECAR_GROUP_WIRE_API_H_
