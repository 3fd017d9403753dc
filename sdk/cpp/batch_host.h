#ifndef MILLSTREAM_SDK_CPP_BATCH_HOST_H_
#define MILLSTREAM_SDK_CPP_BATCH_HOST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millstream/worker.h"
#include "sidecar/protocol/messages.h"

namespace millstream::worker {

using HandlerMap = absl::flat_hash_map<std::string, Handler>;

// A message with the memory its views point into.
struct ReceivedMessage {
  protocol::SidecarMessage message;
  std::shared_ptr<const void> buffer;
};

// What a batch at work asks of whoever brought it: a session with the sidecar, or the test kit. Not thread-safe.
class BatchHost {
 public:
  virtual ~BatchHost() = default;

  const protocol::Welcome& welcome() const { return welcome_; }
  // nullptr: the program has none.
  const Handler* HandlerOf(uint32_t input) const { return input < by_input_.size() ? by_input_[input] : nullptr; }
  uint64_t NewRequest() { return ++last_rid_; }

  virtual absl::Status Send(std::string_view frame) = 0;
  // The sidecar broke the protocol: tells it (ERROR) and gives the status that ends this session.
  virtual absl::Status Refuse(const char* code, std::string_view problem) = 0;
  // Sends a GET or SCAN frame and waits for its answer (VALUES or ROWS of `rid`). Cancelled: so is the batch.
  virtual absl::StatusOr<ReceivedMessage> Ask(std::string_view frame, uint64_t seq, uint64_t rid) = 0;
  // Looks, without waiting, whether the batch at work became void: Cancelled, or the connection's error.
  virtual absl::Status Look() = 0;

 protected:
  // Binds the program's handlers to the inputs of WELCOME.
  void Bind(protocol::Welcome welcome, const HandlerMap& handlers) {
    welcome_ = std::move(welcome);
    by_input_.clear();
    for (const protocol::NamedTopic& input : welcome_.inputs) {
      const auto handler = handlers.find(input.name);
      by_input_.push_back(handler == handlers.end() ? nullptr : &handler->second);
    }
  }

 private:
  protocol::Welcome welcome_;
  std::vector<const Handler*> by_input_;
  uint64_t last_rid_ = 0;
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_BATCH_HOST_H_
