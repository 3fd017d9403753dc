#include "cli/tools/read_range.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <variant>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

constexpr absl::Duration kStall = absl::Seconds(30);
// A dead owner's transaction: its timeout of 15 s, and the 10 s after which brokers look for such.
constexpr absl::Duration kSettle = absl::Seconds(30);

}  // namespace

absl::StatusOr<Range> StableRange(log::Log* log, const TopicPartition& of) {
  Range range;
  MS_ASSIGN_OR_RETURN(range.start, log->admin().StartOffset(of));
  MS_ASSIGN_OR_RETURN(range.end, log->admin().EndOffset(of, log::Isolation::kReadCommitted));
  return range;
}

absl::StatusOr<Range> SettledRange(log::Log* log, const TopicPartition& of) {
  const absl::Duration deadline = SystemClock().Monotonic() + kSettle;
  while (true) {
    MS_ASSIGN_OR_RETURN(const Range range, StableRange(log, of));
    MS_ASSIGN_OR_RETURN(const Offset end, log->admin().EndOffset(of, log::Isolation::kReadUncommitted));
    if (range.end >= end) return range;
    if (SystemClock().Monotonic() >= deadline) {
      return absl::DeadlineExceededError(
          StrCat(of.ToString(), ": a transaction is open at offset ", range.end.value(), ", the end is ", end.value(),
                 "; it ends by itself after its timeout (spec.transaction.timeout): try again then"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

absl::Status ReadRange(log::Log* log, const TopicPartition& of, const Range& range,
                       const std::function<absl::Status(std::vector<log::Record>)>& take) {
  if (range.start >= range.end) return absl::OkStatus();
  const std::unique_ptr<log::Reader> reader = log->NewReader({.isolation = log::Isolation::kReadCommitted});
  MS_RETURN_IF_ERROR(reader->Add(of, range.start));
  Offset position = range.start;
  absl::Duration progress_at = SystemClock().Monotonic();
  while (position < range.end) {
    MS_ASSIGN_OR_RETURN(std::vector<log::ReaderEvent> events, reader->Poll(absl::Seconds(1)));
    for (log::ReaderEvent& event : events) {
      if (auto* read = std::get_if<log::RecordsRead>(&event)) {
        std::erase_if(read->records, [&](const log::Record& record) { return record.offset >= range.end; });
        MS_RETURN_IF_ERROR(take(std::move(read->records)));
        position = std::max(position, read->next);
      } else if (auto* end = std::get_if<log::EndOfPartition>(&event)) {
        position = std::max(position, end->position);
      } else if (auto* failed = std::get_if<log::PartitionFailed>(&event)) {
        return Annotate(failed->status, of.ToString());
      }
    }
    const absl::Duration now = SystemClock().Monotonic();
    if (!events.empty()) progress_at = now;
    if (now - progress_at < kStall) continue;
    return absl::DeadlineExceededError(StrCat(of.ToString(), ": nothing came for 30 s at offset ", position.value(),
                                              " of ", range.end.value(), "; are the brokers well?"));
  }
  return absl::OkStatus();
}

}  // namespace millstream::cli
