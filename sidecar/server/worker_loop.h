#ifndef MILLSTREAM_SIDECAR_SERVER_WORKER_LOOP_H_
#define MILLSTREAM_SIDECAR_SERVER_WORKER_LOOP_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "sidecar/server/connection.h"
#include "sidecar/server/socket_file.h"
#include "sidecar/server/worker_server.h"

namespace millstream::server {

// The insides of WorkerServer: one thread that waits for the socket, the connections and what other threads ask for.
//
// Other threads only leave notes under `mutex_` and wake the thread; everything else belongs to the thread alone.
class WorkerServer::Impl {
 public:
  Impl(WorkerServerOptions options, WorkerEvents* events, const Clock* clock, MetricsRegistry* metrics);
  ~Impl();

  absl::Status Start();
  absl::Status Send(WorkerId id, std::string frame);
  size_t QueuedBytes(WorkerId id) const;
  void Close(WorkerId id, std::string_view code, std::string_view message);
  void Stop(std::string_view reason, absl::Duration grace);
  absl::Status FirstError() const;
  void ClearFirstError();
  int connected_workers() const { return connected_.load(std::memory_order_relaxed); }
  const std::string& socket_path() const { return options_.socket_path; }

 private:
  using Token = uint64_t;  // of a connection, never reused; in accept order
  struct CloseRequest {
    WorkerId id;
    std::string code, message;
  };

  // Any thread.
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The server's thread only, from here on.
  void Run();
  bool Finished();
  int WaitMillis();
  void HandleEvent(Token token, uint32_t events);
  void HandleNotes();
  void BeginStop(const std::string& reason);
  void CheckTimers();
  // epoll_ctl.
  void Watch(int operation, int fd, Token token, uint32_t events);
  void SetListening(bool listening);

  void Accept();
  void MakeRoomForGreeting();
  // Reads what is there, within a fair share. After it the connection may be gone.
  void ReadFrom(Token token);
  // False: stop reading from it (the connection leaves or is gone).
  bool HandleFrames(Token token, Connection& connection);
  bool HandleFrame(Token token, Connection& connection, protocol::Frame frame);
  bool Greet(Token token, Connection& connection, protocol::Hello hello);
  bool HandleMessage(Token token, Connection& connection, InboundMessage message);
  bool HandleVerdict(Token token, Connection& connection, BatchLedger::Verdict verdict, std::string_view kind,
                     uint64_t seq, InboundMessage message);
  // Writes what is queued. After it the connection may be gone.
  void WriteTo(Token token);
  void WatchForWriting(Token token, Connection& connection, bool watch);
  bool QueueOwn(Token token, Connection& connection, std::string frame);

  // The stream ended, by itself or by an error of the system.
  void HandleEndOfStream(Token token, Connection& connection, const absl::Status& error);
  // ERROR to the peer, then close. Tells the events at once. After it the connection may be gone.
  void Expel(Token token, Connection& connection, std::string_view code, std::string_view message);
  void ReportEnd(Connection& connection, const std::string& cause, const absl::Status& status, bool orderly);
  void Remove(Token token);
  bool MayLog();

  Connection* Find(Token token);
  absl::Duration Now() const { return clock_->Monotonic(); }

  const WorkerServerOptions options_;
  WorkerEvents* const events_;
  const Clock* const clock_;
  MetricsRegistry* const metrics_;
  Gauge* const connected_gauge_;
  Counter* const connections_total_;
  Counter* const received_bytes_;
  Counter* const sent_bytes_;

  std::thread thread_;
  std::atomic<std::thread::id> thread_id_{};
  std::atomic<int> connected_{0};

  ListeningSocket listener_;
  bool listening_ = false;  // the listener is watched
  absl::Duration listen_again_at_ = absl::InfiniteDuration();
  FileDescriptor epoll_;
  FileDescriptor wake_;
  Token next_token_ = 2;  // 0 and 1 are the listener and the wake-up
  uint64_t next_worker_ = 1;
  std::map<Token, std::unique_ptr<Connection>> connections_;
  absl::flat_hash_map<WorkerId, Token> tokens_;
  absl::Duration log_window_ = -absl::InfiniteDuration();
  int logged_ = 0;  // in that window
  bool stopping_ = false;
  absl::Duration stop_by_;  // on the system's clock

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<WorkerId, std::shared_ptr<Outbox>> outboxes_ ABSL_GUARDED_BY(mutex_);
  std::vector<WorkerId> to_write_ ABSL_GUARDED_BY(mutex_);
  std::vector<CloseRequest> to_close_ ABSL_GUARDED_BY(mutex_);
  bool stop_asked_ ABSL_GUARDED_BY(mutex_) = false;
  std::string stop_reason_ ABSL_GUARDED_BY(mutex_);
  absl::Duration stop_grace_ ABSL_GUARDED_BY(mutex_);
  bool awake_ ABSL_GUARDED_BY(mutex_) = false;  // a wake-up is on its way
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millstream::server

#endif  // MILLSTREAM_SIDECAR_SERVER_WORKER_LOOP_H_
