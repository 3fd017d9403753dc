#ifndef MILLSTREAM_SIDECAR_POD_DRAIN_SOCKET_H_
#define MILLSTREAM_SIDECAR_POD_DRAIN_SOCKET_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace millstream::pod {

// Where `millstream-sidecar drain` (the preStop hook of the container) reaches the sidecar: the Unix socket
// `drain.sock` in the folder of its state, which no other container mounts, so that nobody but the kubelet's hook gets
// there. A connection asks for the drain; it is answered and closed when the drain is over. Thread-safe.
class DrainSocket {
 public:
  // Makes the folder if it is missing. ALREADY_EXISTS: another sidecar listens there; other errors name the path.
  static absl::StatusOr<std::unique_ptr<DrainSocket>> Listen(const std::string& folder);
  // Closes what waits without an answer, removes the socket.
  virtual ~DrainSocket() = default;

  // Somebody asked.
  virtual bool requested() const = 0;
  // Waits until somebody asks, `most` has passed or a signal comes. Once asked, returns at once.
  virtual void WaitForRequest(absl::Duration most) const = 0;
  // Answers those who wait, and whoever comes later.
  virtual void SetDrained() = 0;
};

// The other side. Returns when the sidecar has drained. NOT_FOUND: no sidecar listens in the folder. DEADLINE_EXCEEDED:
// it has begun and is not done yet. UNAVAILABLE: it ended before it was done.
absl::Status RequestDrain(const std::string& folder, absl::Duration timeout);

}  // namespace millstream::pod

#endif  // MILLSTREAM_SIDECAR_POD_DRAIN_SOCKET_H_
