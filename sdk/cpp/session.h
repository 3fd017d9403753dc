#ifndef MILLSTREAM_SDK_CPP_SESSION_H_
#define MILLSTREAM_SDK_CPP_SESSION_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sdk/cpp/link.h"
#include "sdk/cpp/worker.h"
#include "sidecar/protocol/messages.h"

namespace millstream::worker {

using HandlerMap = absl::flat_hash_map<std::string, Handler>;

// A message with the memory its views point into.
struct ReceivedMessage {
  protocol::SidecarMessage message;
  std::shared_ptr<const void> buffer;
};

// One connection from HELLO to its end: batches in the order they came, one at a time. Not thread-safe.
class Session {
 public:
  // `stop` (set from anywhere, the link is woken): say GOODBYE, finish, end.
  Session(std::unique_ptr<Link> link, const HandlerMap& handlers, const AppOptions& options,
          const std::atomic<bool>& stop);
  ~Session();

  // OK: over in good order. FailedPrecondition: refused, connecting again is no use. Others: connect again.
  absl::Status Run();
  bool welcomed() const { return welcomed_; }

  // For the batch at work.
  const protocol::Welcome& welcome() const { return welcome_; }
  const Handler* HandlerOf(uint32_t input) const { return input < by_input_.size() ? by_input_[input] : nullptr; }
  absl::Status Send(std::string_view frame) { return link_->Send(frame); }
  // The sidecar broke the protocol: tells it (ERROR) and gives the status that ends this session.
  absl::Status Refuse(const char* code, std::string_view problem);
  // Sends a GET or SCAN frame and waits for its answer (VALUES or ROWS of `rid`). Cancelled: so is the batch.
  absl::StatusOr<ReceivedMessage> Ask(std::string_view frame, uint64_t seq, uint64_t rid);
  uint64_t NewRequest() { return ++last_rid_; }

 private:
  struct Pending {
    protocol::Batch batch;
    std::shared_ptr<const void> buffer;
    bool cancelled = false;
  };
  absl::Status Greet();
  absl::Status Serve();
  absl::StatusOr<std::optional<ReceivedMessage>> Receive(absl::Duration timeout);
  absl::Status Take(protocol::Batch batch, std::shared_ptr<const void> buffer);
  // Everything but VALUES and ROWS.
  absl::Status Handle(ReceivedMessage received);
  absl::Status RunFront();

  std::unique_ptr<Link> link_;
  const HandlerMap& handlers_;
  const AppOptions& options_;
  const std::atomic<bool>& stop_;
  protocol::Welcome welcome_;
  std::vector<const Handler*> by_input_;
  bool welcomed_ = false;
  bool leaving_ = false;  // GOODBYE was sent or came: no batch follows
  bool said_goodbye_ = false;
  std::deque<Pending> pending_;  // the front is at work; bounded by the sidecar: one per task, `parallel` tasks
  uint64_t last_rid_ = 0;
  std::unique_ptr<BatchRun> run_;
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_SESSION_H_
