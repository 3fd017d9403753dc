#ifndef MILLSTREAM_SIDECAR_SERVER_TESTING_RAW_WORKER_H_
#define MILLSTREAM_SIDECAR_SERVER_TESTING_RAW_WORKER_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/frame.h"
#include "sidecar/server/socket_file.h"

namespace millstream::server {

// A worker for tests that does exactly what it is told, wrong things included. Every wait has a deadline. Not
// thread-safe.
class RawWorker {
 public:
  static absl::StatusOr<RawWorker> Connect(const std::string& path);

  // Bytes as they are. False: the other side closed, or did not read for 5 s.
  bool SendBytes(std::string_view bytes);
  template <typename Message>
  bool Send(const Message& message) {
    return SendBytes(protocol::EncodeFrame(message));
  }
  // As many bytes as the socket takes now without being read. Gives their number.
  size_t SendUntilBlocked(std::string_view bytes, size_t most);

  // The next message, waited for. Error: OutOfRange at the end of the stream, DeadlineExceeded.
  absl::StatusOr<protocol::SidecarMessage> Receive(absl::Duration timeout = absl::Seconds(5));
  // HELLO, WELCOME.
  absl::StatusOr<protocol::Welcome> Greet(protocol::Hello hello = DefaultHello());
  // The connection ends (whatever still comes before is dropped).
  bool WaitForEnd(absl::Duration timeout = absl::Seconds(5));
  // No more writing from our side, reading goes on.
  void HalfClose();
  void Close() { fd_.Reset(); }

  static protocol::Hello DefaultHello();

 private:
  RawWorker() = default;

  FileDescriptor fd_;
  protocol::FrameReader reader_{protocol::kDefaultFrameCap};
  protocol::Frame last_;  // memory of the views in the last message
};

}  // namespace millstream::server

#endif  // MILLSTREAM_SIDECAR_SERVER_TESTING_RAW_WORKER_H_
