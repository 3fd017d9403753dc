#ifndef MILLSTREAM_SIDECAR_SERVER_CONNECTION_H_
#define MILLSTREAM_SIDECAR_SERVER_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "sidecar/protocol/frame.h"
#include "sidecar/server/batch_ledger.h"
#include "sidecar/server/outbox.h"
#include "sidecar/server/socket_file.h"
#include "sidecar/server/worker_server.h"

namespace millstream::server {

// One socket connection: reading frames from it and writing queued ones to it without ever waiting, and when it is time
// to speak to or give up on its peer. Used by the server's thread only, but for its outbox.
class Connection {
 public:
  enum class Phase {
    kGreeting,  // before a whole HELLO
    kServing,   // welcomed
    kLeaving,   // decided to close; what is queued last (ERROR) still leaves, nothing is read
  };
  enum class Progress { kMore, kWouldBlock, kClosed };

  Connection(FileDescriptor fd, PeerIdentity peer, const WorkerServerOptions& options, absl::Duration now);

  int fd() const { return fd_.get(); }
  Phase phase() const { return phase_; }
  ConnectedWorker& worker() { return worker_; }
  const ConnectedWorker& worker() const { return worker_; }
  const std::shared_ptr<Outbox>& outbox() const { return outbox_; }
  BatchLedger& ledger() { return ledger_; }
  protocol::FrameReader& reader() { return reader_; }
  // "worker 3 (python 1.2, pid 77)", "a connection (pid 77)".
  std::string Name() const;

  void StartServing(const ConnectedWorker& worker, absl::Duration batch_deadline);
  // Drops what is queued but for a frame already begun, queues `last`, and leaves by `deadline`.
  void StartLeaving(std::string last, absl::Duration deadline);
  void NoteGoodbye() { goodbye_ = true; }
  bool goodbye() const { return goodbye_; }

  // One read. kClosed: *error is OK for an end of stream.
  Progress Read(absl::Duration now, size_t* bytes, absl::Status* error);
  // Writes until everything is gone (kMore) or the socket is full. *writable: Outbox::Written said so.
  Progress Write(absl::Duration now, size_t* bytes, bool* writable, absl::Status* error);
  bool waits_for_socket() const { return waits_for_socket_; }
  void set_waits_for_socket(bool waits) { waits_for_socket_ = waits; }

  // What time asks for: nothing, a PING with this nonce, or the end of the connection.
  enum class Due { kNothing, kPing, kDead };
  Due CheckTime(absl::Duration now);
  // When CheckTime has to be asked again at the latest.
  absl::Duration NextCheck() const;
  uint64_t NewPing(absl::Duration now);
  absl::Duration accepted_at() const { return accepted_at_; }

 private:
  void NoteSent(std::string_view frame, absl::Duration now);

  FileDescriptor fd_;
  const WorkerServerOptions& options_;
  const absl::Duration accepted_at_;
  Phase phase_ = Phase::kGreeting;
  ConnectedWorker worker_;
  bool goodbye_ = false;

  protocol::FrameReader reader_;
  std::shared_ptr<Outbox> outbox_;
  std::deque<std::string> writing_;
  size_t front_written_ = 0;  // of writing_.front()
  bool waits_for_socket_ = false;
  BatchLedger ledger_;

  absl::Duration heard_at_;       // last bytes from the peer
  absl::Duration patient_until_;  // no PING before: a cancelled batch may still be on
  absl::Duration batch_deadline_;
  absl::Duration pinged_at_ = absl::InfiniteDuration();  // infinite: no PING is open
  absl::Duration leave_by_ = absl::InfiniteDuration();
  uint64_t pings_ = 0;
};

}  // namespace millstream::server

#endif  // MILLSTREAM_SIDECAR_SERVER_CONNECTION_H_
