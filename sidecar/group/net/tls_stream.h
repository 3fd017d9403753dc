#ifndef MILLSTREAM_SIDECAR_GROUP_NET_TLS_STREAM_H_
#define MILLSTREAM_SIDECAR_GROUP_NET_TLS_STREAM_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/log/kafka/cluster_access.h"
#include "sidecar/group/net/io_limit.h"
#include "sidecar/group/net/stream.h"

namespace millstream::group {

// TLS 1.2 or later over `under`: shakes hands and checks the peer's certificate, which must name `host` (a DNS name or
// an address). FAILED_PRECONDITION: one's own certificates cannot be read, or the peer's is not to be trusted, with the
// reason; else Stream's errors.
absl::StatusOr<std::unique_ptr<Stream>> StartTls(std::unique_ptr<Stream> under, const kafka::TlsAccess& access,
                                                 const std::string& host, const IoLimit& limit);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_NET_TLS_STREAM_H_
