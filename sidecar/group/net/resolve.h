#ifndef MILLSTREAM_SIDECAR_GROUP_NET_RESOLVE_H_
#define MILLSTREAM_SIDECAR_GROUP_NET_RESOLVE_H_

#include <sys/socket.h>

#include <vector>

#include "absl/status/statusor.h"
#include "sidecar/group/net/address.h"
#include "sidecar/group/net/io_limit.h"

namespace millstream::group {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
};

// The addresses of a broker, in the order the system prefers. The system's resolver knows no deadline: it runs in a
// thread of its own, which is left behind if it takes longer (at most four at a time, then UNAVAILABLE).
// UNAVAILABLE: no such name, or the resolver does not answer; DEADLINE_EXCEEDED, CANCELLED.
absl::StatusOr<std::vector<SocketAddress>> Resolve(const BrokerAddress& address, const IoLimit& limit);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_NET_RESOLVE_H_
