#ifndef MILLSTREAM_SDK_CPP_SESSION_H_
#define MILLSTREAM_SDK_CPP_SESSION_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millstream/worker.h"
#include "sdk/cpp/batch_host.h"
#include "sdk/cpp/link.h"
#include "sidecar/protocol/messages.h"

namespace millstream::worker {

class BatchRun;

// Why a session ends in good order: told by the program's threads and signals, seen by its session.
struct StopState {
  std::atomic<bool> leave{false};  // App::Stop: say GOODBYE, finish, end
  // Signals: serve on until the sidecar's GOODBYE, `stop_timeout` at most. Gives whether there was one.
  std::function<bool()> signalled;
};

// One connection from HELLO to its end: batches in the order they came, one at a time. Not thread-safe.
class Session : public BatchHost {
 public:
  // `stop`: whoever changes it wakes the link. All outlive the session.
  Session(std::unique_ptr<Link> link, const Program& program, const AppOptions& options, const StopState& stop);
  ~Session() override;

  // OK: over in good order. FailedPrecondition: refused, connecting again is no use. Others: connect again.
  absl::Status Run();
  bool welcomed() const { return welcomed_; }

  absl::Status Send(std::string_view frame) override { return link_->Send(frame); }
  absl::Status Refuse(const char* code, std::string_view problem) override;
  absl::StatusOr<ReceivedMessage> Ask(std::string_view frame, uint64_t seq, uint64_t rid) override;
  absl::Status Look() override;

 private:
  struct Pending {
    protocol::Batch batch;  // of a hook its seq and task
    std::shared_ptr<const void> buffer;
    const Handler* hook = nullptr;
    uint64_t generation = 0;  // of the task
    bool cancelled = false;
  };
  absl::Status Greet();
  // A manifest that the program does not fit: tells both sides.
  absl::Status CheckManifest(const protocol::Welcome& welcome);
  absl::Status Serve();
  // Says GOODBYE when it is time to.
  absl::Status LeaveIfTold();
  absl::StatusOr<std::optional<ReceivedMessage>> Receive(absl::Duration timeout);
  absl::Status Take(protocol::Batch batch, std::shared_ptr<const void> buffer);
  // BEGIN or FINALIZE.
  absl::Status TakeHook(std::string_view kind, uint64_t seq, TaskId task, const Handler& hook);
  // Whether something with this seq, or of this task, is in flight.
  absl::Status CheckInFlight(uint64_t seq, TaskId task);
  void CallCommitted();
  // Whether the ids in a batch are those of WELCOME; what is wrong, if anything.
  std::string WrongIds(const protocol::Batch& batch) const;
  // Everything but VALUES and ROWS.
  absl::Status Handle(ReceivedMessage received);
  absl::Status RunFront();
  absl::StatusOr<std::string> RunBatch(const Pending& front);

  std::unique_ptr<Link> link_;
  const AppOptions& options_;
  const StopState& stop_;
  bool welcomed_ = false;
  bool leaving_ = false;  // GOODBYE was sent or came: no batch follows
  bool said_goodbye_ = false;
  std::optional<absl::Duration> leave_at_;  // after a signal
  std::deque<Pending> pending_;   // the front is at work; bounded by the sidecar: one per task, `parallel` tasks
  std::deque<TaskId> committed_;  // to be told to the program, between batches: one per transaction of a task
  std::unique_ptr<BatchRun> run_;
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_SESSION_H_
