#ifndef MILLSTREAM_SIDECAR_GROUP_NET_TCP_STREAM_H_
#define MILLSTREAM_SIDECAR_GROUP_NET_TCP_STREAM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "sidecar/group/net/address.h"
#include "sidecar/group/net/io_limit.h"
#include "sidecar/group/net/stream.h"

namespace millstream::group {

// Resolves and connects; every address of the name is tried, each with its share of the time. Errors as Stream's.
absl::StatusOr<std::unique_ptr<Stream>> ConnectTcp(const BrokerAddress& address, const IoLimit& limit);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_NET_TCP_STREAM_H_
