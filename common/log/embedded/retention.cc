#include "common/log/embedded/retention.h"

#include <algorithm>
#include <vector>

#include "common/base/status.h"
#include "common/log/embedded/batch.h"

namespace millstream::log::embedded {
namespace {

// What is to go, decided without a lock: appends go on at the other end.
struct Cut {
  int64_t new_start = 0;
  size_t whole_refs = 0;         // from the first one
  int64_t bytes_of_partial = 0;  // of the ref behind them
};

class Decision {
 public:
  Decision(const TopicConfig& config, int64_t live_bytes, int64_t now_ms)
      : config_(config), left_(live_bytes), now_ms_(now_ms) {}
  bool MayGo(int64_t bytes, int64_t append_ms) const {
    if (config_.retention_ms >= 0 && now_ms_ - append_ms > config_.retention_ms) return true;
    return config_.retention_bytes >= 0 && left_ - bytes >= config_.retention_bytes;
  }
  void Gone(int64_t bytes) { left_ -= bytes; }

 private:
  const TopicConfig& config_;
  int64_t left_;
  const int64_t now_ms_;
};

absl::StatusOr<Cut> FindCut(Core& core, const PartitionState& partition) {
  std::vector<SegmentRef> refs;
  int64_t stable, live;
  Cut cut;
  {
    absl::MutexLock lock(&core.state_mutex);
    refs = partition.refs;
    stable = partition.LastStable();
    live = partition.LiveBytes();
    cut.new_start = partition.start;
  }
  Decision decision(partition.config, live, core.clock->WallMillis());
  while (cut.whole_refs + 1 < refs.size() && refs[cut.whole_refs + 1].first_offset <= stable) {
    const SegmentRef& ref = refs[cut.whole_refs];
    if (!decision.MayGo(ref.bytes - ref.dead, ref.last_append_ms)) break;
    decision.Gone(ref.bytes - ref.dead);
    cut.new_start = refs[++cut.whole_refs].first_offset;
  }
  if (cut.whole_refs == refs.size()) return cut;
  BatchCursor cursor = core.storage->NewCursor(refs[cut.whole_refs].segment, partition.uid);
  for (cursor.SeekAtOrBefore(0); cursor.Valid(); cursor.Next()) {
    MS_ASSIGN_OR_RETURN(const BatchHeader header, BatchReader::ParseHeader(cursor.value()));
    const int64_t end = cursor.base() + header.last_delta + 1;
    const int64_t bytes = static_cast<int64_t>(cursor.value().size());
    if (end > stable || !decision.MayGo(bytes, header.append_ms)) break;
    decision.Gone(bytes);
    cut.bytes_of_partial += bytes;
    cut.new_start = end;
  }
  MS_RETURN_IF_ERROR(cursor.status());
  return cut;
}

absl::Status Apply(Core& core, PartitionState* partition, const Cut& cut) {
  WriteSet set = core.storage->NewWriteSet();
  absl::MutexLock lock(&core.write_mutex);
  std::vector<AbortedTransaction> settled;
  {
    absl::MutexLock state_lock(&core.state_mutex);
    if (partition->deleted) return absl::OkStatus();
    // Before anything is removed, so that no reader takes the gap for an empty stretch.
    partition->start = cut.new_start;
    settled = partition->aborted->Before(cut.new_start);
  }
  auto dead_bytes = core.dead_bytes;
  std::vector<SegmentRef> refs = partition->refs;
  for (size_t i = 0; i < cut.whole_refs; ++i) {
    set.DeleteBatches(refs[i].segment, partition->uid);
    DeleteSegmentRef(partition->uid, refs[i].segment, &set);
    PutDeadBytes(refs[i].segment, dead_bytes[refs[i].segment] += refs[i].bytes - refs[i].dead, &set);
  }
  refs.erase(refs.begin(), refs.begin() + static_cast<std::ptrdiff_t>(cut.whole_refs));
  if (cut.bytes_of_partial > 0) {
    SegmentRef& ref = refs.front();
    set.DeleteBatches(ref.segment, partition->uid, cut.new_start);
    ref.first_offset = cut.new_start;
    ref.dead += cut.bytes_of_partial;
    PutSegmentRef(partition->uid, ref, &set);
    PutDeadBytes(ref.segment, dead_bytes[ref.segment] += cut.bytes_of_partial, &set);
  }
  PutPartition({partition->uid, cut.new_start, cut.new_start, partition->cleaned_to}, &set);
  for (const AbortedTransaction& aborted : settled) DeleteAborted(partition->uid, aborted, &set);
  MS_RETURN_IF_ERROR(core.storage->Write(set));
  core.dead_bytes = std::move(dead_bytes);
  absl::MutexLock state_lock(&core.state_mutex);
  partition->refs = std::move(refs);
  if (!settled.empty()) partition->aborted = partition->aborted->From(cut.new_start);
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyRetention(Core& core, const std::shared_ptr<PartitionState>& partition) {
  const TopicConfig& config = partition->config;
  if (!config.remove_old || (config.retention_ms < 0 && config.retention_bytes < 0)) return absl::OkStatus();
  MS_ASSIGN_OR_RETURN(const Cut cut, FindCut(core, *partition));
  if (cut.whole_refs == 0 && cut.bytes_of_partial == 0) return absl::OkStatus();
  return Apply(core, partition.get(), cut);
}

}  // namespace millstream::log::embedded
