#ifndef MILLSTREAM_SIDECAR_SERVER_BATCH_LEDGER_H_
#define MILLSTREAM_SIDECAR_SERVER_BATCH_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "sidecar/protocol/codec.h"

namespace millstream::server {

// Which batches one session was sent and has not ended, hooks (BEGIN, FINALIZE) and LOAD and STORE among them: what a
// worker may talk about at all, and how much. Replies of an old session, of another worker's batch, or twice for one
// batch are wrong frames. Not thread-safe.
class BatchLedger {
 public:
  // Requests (GET, SCAN) a worker may have open. An SDK has a few per task.
  static constexpr int kMaxOpenRequests = 1024;
  // EXTENDs that say something new, per batch; batch.maxRecords is at most 100,000.
  static constexpr uint32_t kMaxExtends = 200'000;
  // Cancelled batches whose RESULT may still come. The oldest are forgotten: a worker that owes so many is broken.
  static constexpr size_t kMaxCancelled = 1024;

  enum class Verdict {
    kDeliver,
    kDrop,  // says nothing new
    kUnknown,
    kFlood,
  };

  // A frame of the sidecar goes out.
  void Sent(const protocol::FrameHead& head);
  // What to do with a frame that came.
  Verdict Received(const protocol::Result& result) { return End(result.seq); }
  Verdict Received(const protocol::Checkpoint& checkpoint) { return End(checkpoint.seq); }
  Verdict Received(const protocol::Stored& stored) { return End(stored.seq); }
  Verdict Received(const protocol::Get& get) { return Request(get.seq); }
  Verdict Received(const protocol::Scan& scan) { return Request(scan.seq); }
  Verdict Received(const protocol::Extend& extend);

  // The worker works on something that was not cancelled.
  bool Busy() const { return batches_.size() > cancelled_count_; }

 private:
  struct State {
    bool cancelled = false;
    uint32_t extends = 0;
    uint32_t last_done = 0;
    int open_requests = 0;
  };
  Verdict End(uint64_t seq);
  Verdict Request(uint64_t seq);
  void Cancel(uint64_t seq);
  void Answered(uint64_t seq);
  void Forget(uint64_t seq);

  absl::flat_hash_map<uint64_t, State> batches_;
  std::deque<uint64_t> cancelled_;  // in that order; may name batches that ended since
  size_t cancelled_count_ = 0;      // of batches_
  int open_requests_ = 0;           // of all batches_
};

}  // namespace millstream::server

#endif  // MILLSTREAM_SIDECAR_SERVER_BATCH_LEDGER_H_
