#ifndef MILLSTREAM_SIDECAR_PROTOCOL_CAPABILITIES_H_
#define MILLSTREAM_SIDECAR_PROTOCOL_CAPABILITIES_H_

#include <string_view>

namespace millstream::protocol {

// Capabilities of HELLO and WELCOME. Which of the hooks a worker wants:
inline constexpr std::string_view kBeginCapability = "begin", kFinalizeCapability = "finalize",
                                  kCommittedCapability = "committed";
// The worker takes the rows of visits.
inline constexpr std::string_view kVisitsCapability = "visits";
// The worker keeps the state in a database of its own (LOAD, STORE): needed by processors with externalStore.
inline constexpr std::string_view kExternalStoreCapability = "externalStore";
// The worker takes closing items of sessions: needed by processors with a session store that has emit: Final.
inline constexpr std::string_view kSessionClosingsCapability = "sessionClosings";

}  // namespace millstream::protocol

#endif  // MILLSTREAM_SIDECAR_PROTOCOL_CAPABILITIES_H_
