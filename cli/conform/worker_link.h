#ifndef MILLSTREAM_CLI_CONFORM_WORKER_LINK_H_
#define MILLSTREAM_CLI_CONFORM_WORKER_LINK_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/frame.h"
#include "sidecar/server/socket_file.h"

namespace millstream::cli::conform {

// A frame of the worker, with the memory its message points into.
struct WorkerFrame {
  protocol::WorkerMessage message;
  std::shared_ptr<const void> buffer;
};

// The sidecar's end of one connection. Every wait has a deadline. Not thread-safe.
class WorkerLink {
 public:
  explicit WorkerLink(server::FileDescriptor socket) : socket_(std::move(socket)) {}

  // Unavailable: the worker has closed. DeadlineExceeded: it does not read.
  absl::Status Send(std::string_view bytes, absl::Duration timeout);

  // The next frame. OutOfRange: the connection ended; DeadlineExceeded; InvalidArgument: not a frame of the protocol,
  // the message says what is wrong with it.
  absl::StatusOr<WorkerFrame> Receive(absl::Duration timeout);

 private:
  server::FileDescriptor socket_;
  protocol::FrameReader reader_{protocol::kDefaultFrameCap};
};

// Where workers connect: a socket in a folder of its own, removed with this.
class WorkerDoor {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerDoor>> Open();
  ~WorkerDoor();
  WorkerDoor(const WorkerDoor&) = delete;
  WorkerDoor& operator=(const WorkerDoor&) = delete;

  const std::string& path() const { return path_; }
  // DeadlineExceeded if nobody comes. `gone` is asked now and then: true ends the wait with Unavailable.
  template <typename Gone>
  absl::StatusOr<std::unique_ptr<WorkerLink>> Accept(absl::Duration timeout, Gone gone) {
    for (absl::Duration waited; waited < timeout; waited += kSlice) {
      auto link = AcceptWithin(kSlice);
      if (link != nullptr) return link;
      if (gone()) return absl::UnavailableError("the program has ended");
    }
    return absl::DeadlineExceededError("no worker connected");
  }

 private:
  static constexpr absl::Duration kSlice = absl::Milliseconds(50);
  WorkerDoor(std::string folder, std::string path) : folder_(std::move(folder)), path_(std::move(path)) {}
  std::unique_ptr<WorkerLink> AcceptWithin(absl::Duration timeout);

  const std::string folder_, path_;
  server::ListeningSocket socket_;
};

}  // namespace millstream::cli::conform

#endif  // MILLSTREAM_CLI_CONFORM_WORKER_LINK_H_
