#include "sidecar/server/batch_ledger.h"

namespace millstream::server {

using protocol::Kind;

void BatchLedger::Sent(const protocol::FrameHead& head) {
  switch (head.kind) {
    case Kind::kBatch:
    case Kind::kBegin:
    case Kind::kFinalize:
    case Kind::kLoad:
    case Kind::kStore:
      batches_.try_emplace(head.number);
      break;
    case Kind::kCancel:
      Cancel(head.number);
      break;
    case Kind::kValues:
    case Kind::kRows:
      Answered(head.number);
      break;
    default:
      break;
  }
}

void BatchLedger::Cancel(uint64_t seq) {
  const auto batch = batches_.find(seq);
  if (batch == batches_.end() || batch->second.cancelled) return;
  batch->second.cancelled = true;
  ++cancelled_count_;
  cancelled_.push_back(seq);
  if (cancelled_.size() <= kMaxCancelled) return;
  Forget(cancelled_.front());
  cancelled_.pop_front();
}

void BatchLedger::Answered(uint64_t seq) {
  const auto batch = batches_.find(seq);
  if (batch == batches_.end() || batch->second.open_requests == 0) return;
  --batch->second.open_requests;
  --open_requests_;
}

void BatchLedger::Forget(uint64_t seq) {
  const auto batch = batches_.find(seq);
  if (batch == batches_.end()) return;
  if (batch->second.cancelled) --cancelled_count_;
  open_requests_ -= batch->second.open_requests;
  batches_.erase(batch);
}

BatchLedger::Verdict BatchLedger::End(uint64_t seq) {
  if (!batches_.contains(seq)) return Verdict::kUnknown;
  Forget(seq);
  return Verdict::kDeliver;
}

BatchLedger::Verdict BatchLedger::Received(const protocol::Extend& extend) {
  const auto batch = batches_.find(extend.seq);
  if (batch == batches_.end()) return Verdict::kUnknown;
  State& state = batch->second;
  if (state.extends > 0 && extend.done <= state.last_done) return Verdict::kDrop;
  if (state.extends == kMaxExtends) return Verdict::kFlood;
  ++state.extends;
  state.last_done = extend.done;
  return Verdict::kDeliver;
}

BatchLedger::Verdict BatchLedger::Request(uint64_t seq) {
  const auto batch = batches_.find(seq);
  if (batch == batches_.end()) return Verdict::kUnknown;
  if (open_requests_ == kMaxOpenRequests) return Verdict::kFlood;
  ++batch->second.open_requests;
  ++open_requests_;
  return Verdict::kDeliver;
}

}  // namespace millstream::server
