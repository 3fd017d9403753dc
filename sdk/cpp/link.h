#ifndef MILLSTREAM_SDK_CPP_LINK_H_
#define MILLSTREAM_SDK_CPP_LINK_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "sidecar/protocol/frame.h"
#include "sidecar/protocol/messages.h"

namespace millstream::worker {

// The socket to the sidecar, a frame at a time. Not thread-safe.
class Link {
 public:
  // `wake_fd`: ends Receive early when it is readable; -1: none. Not owned.
  static absl::StatusOr<std::unique_ptr<Link>> Connect(const std::string& path, int wake_fd);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void set_cap(uint32_t cap) { reader_.set_cap(cap); }
  // Waits while the socket is full: the sidecar always reads. Unavailable: the connection is gone. Its last words may
  // still be there to Receive.
  absl::Status Send(std::string_view frame);
  // Ends our direction; the other stays open.
  void HalfClose();
  // The next frame; nullopt: none within `timeout`, or woken. OutOfRange: the connection ended.
  absl::StatusOr<std::optional<protocol::Frame>> Receive(absl::Duration timeout);

 private:
  Link(int fd, int wake_fd) : fd_(fd), wake_fd_(wake_fd) {}

  const int fd_;
  const int wake_fd_;
  protocol::FrameReader reader_{protocol::kDefaultFrameCap};
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_LINK_H_
