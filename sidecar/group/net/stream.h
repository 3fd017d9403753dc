#ifndef MILLSTREAM_SIDECAR_GROUP_NET_STREAM_H_
#define MILLSTREAM_SIDECAR_GROUP_NET_STREAM_H_

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sidecar/group/net/io_limit.h"

namespace millstream::group {

// Bytes to and from a peer. One thread at a time. After an error only good for destruction, which closes it.
// Errors: UNAVAILABLE (the peer is gone), DEADLINE_EXCEEDED, CANCELLED; of TLS also FAILED_PRECONDITION.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual absl::Status WriteAll(std::string_view bytes, const IoLimit& limit) = 0;
  // At least one byte, waiting for it; 0: the peer has ended the stream.
  virtual absl::StatusOr<size_t> ReadSome(char* buffer, size_t size, const IoLimit& limit) = 0;
  // Nothing is expected to come, yet something has: bytes nobody asked for, or the end.
  virtual bool Stale() const = 0;
};

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_NET_STREAM_H_
