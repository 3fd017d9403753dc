#ifndef MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_CONTEXT_H_
#define MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millstream/state.h"

namespace millstream::worker {

/// What an output record may have beside key and value.
struct EmitOptions {
  /// Milliseconds since 1970. Default: that of the record being handled (of a timer its time, of a closing window its
  /// last millisecond, of a visit its start); the sidecar's clock where that is outside the limits, and in hooks.
  std::optional<int64_t> timestamp_ms = {};
  /// In order; names may repeat.
  std::vector<std::pair<std::string_view, MaybeView>> headers = {};
  /// Default: by key. Not for the output `loop`.
  std::optional<int32_t> partition = {};
};

/// What a timer goes by.
enum class TimerClock {
  kEventTime,  ///< how far the records of the task have come
  kWallClock,  ///< the sidecar's clock
};

/// Which timer is meant beside its name: one of another key or of the other clock is another timer.
struct TimerOptions {
  /// What it goes by.
  TimerClock clock = TimerClock::kEventTime;
  /// Default: the key of the record being handled.
  MaybeView key = {};
};

/// What is being handled (a record, or a timer that is due, a window that closes, a row that is visited, a
/// transaction), and what its handler
/// may do. Valid during the call, on the calling thread; everything it hands out points into the batch's memory and is
/// gone afterwards.
class Context {
 public:
  /// The input's name in the manifest; empty where it is no record.
  std::string_view input() const;
  /// The name of its topic, for messages.
  std::string_view topic() const;
  /// Of the record, timer, window or visited row; nullopt: a record without key, the end of a visit, or a hook.
  MaybeView key() const;
  /// Of the record; of a closing window the last one; of a visited row the one it has. nullopt: a tombstone, or there is none.
  MaybeView value() const;
  /// Milliseconds since 1970, possibly negative: of the record, when the timer was to be due, the last one of a closing
  /// window, when the visit was started; 0 in a hook.
  int64_t timestamp_ms() const;
  /// In order; names may repeat.
  const std::vector<std::pair<std::string_view, MaybeView>>& headers() const;
  /// The last value of this name; nullopt: there is none, or it is null.
  MaybeView header(std::string_view name) const;
  /// Of the record in its partition; -1 where it is no record.
  int64_t offset() const;
  /// The partition, which is the task.
  int32_t task() const;
  /// Which try of this record, timer, window or visited row this is, from 1.
  uint32_t attempt() const;
  /// The name of the timer that is due.
  std::string_view timer() const;
  /// What that timer goes by.
  TimerClock timer_clock() const;
  /// The window that closes.
  Window closing() const;
  /// The visit whose row, or end, it is; empty where it is none.
  std::string_view visit() const;
  /// What that visit was started with; nullopt: nothing.
  MaybeView visit_data() const;
  /// The processor's name in the manifest.
  std::string_view processor() const;
  /// How far event time has come, milliseconds since 1970; nullopt: not known yet.
  std::optional<int64_t> watermark_ms() const;

  /// A store of type KeyValue by its name in the manifest. An unknown name is told by the methods of what is given; so
  /// with the next ones.
  Store State(std::string_view name);
  /// A store of type Window.
  WindowStore Windows(std::string_view name);
  /// A store of type Session.
  SessionStore Sessions(std::string_view name);
  /// A join.
  Table Join(std::string_view name);
  /// A lookup.
  Table Lookup(std::string_view name);
  /// Sends a record to an output. Bytes are copied. An error (undeclared output, too large, timestamp out of range; for
  /// the output `loop` no key, or a partition) fails the record being handled, whatever its handler returns.
  absl::Status Emit(std::string_view output, MaybeView key, MaybeView value, const EmitOptions& options = {});
  /// Sets a timer: the handler of its name (App::OnTimer) is called once `time_ms`, milliseconds since 1970, has come;
  /// at once if it has passed. A pending one of that key, clock and name is replaced. Errors fail the record as those
  /// of Emit do: no `timers` in the manifest, a name of more than 255 bytes or not UTF-8, a time beyond the limits; no
  /// key.
  absl::Status SetTimer(std::string_view name, int64_t time_ms, const TimerOptions& options = {});
  /// Forgets a timer. One that is not set is fine.
  absl::Status CancelTimer(std::string_view name, const TimerOptions& options = {});
  /// Begins a walk over all rows of the store of a visit of the manifest, in this task: each comes to the handler of its
  /// name (App::OnVisit). One that is under way begins anew, one that is paused as well. `data` comes with every row.
  /// Errors fail the record as those of Emit do: an undeclared visit, data of more than 4,096 bytes, in a hook.
  absl::Status StartVisit(std::string_view name, MaybeView data = {});
  /// Ends a walk where it is: neither a row nor its end comes any more. One that does not run is fine.
  absl::Status StopVisit(std::string_view name);
  /// Holds a walk where it is, until it is resumed, started or stopped.
  absl::Status PauseVisit(std::string_view name);
  /// Lets a paused walk go on.
  absl::Status ResumeVisit(std::string_view name);
  /// Fails the record being handled with failure class Output, as Emit does: for a value that cannot be encoded. Gives
  /// `status` back, to be returned.
  absl::Status FailOutput(absl::Status status);

  /// Nothing of this batch counts any more (the sidecar cancelled it, or the connection is gone): a handler that takes
  /// long may ask now and then, and return. Costs a look at the socket.
  bool Cancelled();

 private:
  friend class BatchRun;
  template <typename T>
  friend class Gathered;
  explicit Context(BatchRun* run) : run_(run) {}
  // What the task has gathered for a handle; nullptr: the task is no longer this worker's.
  std::shared_ptr<void>* GatheredSlot(const void* handle);
  // Changes it once the record counts.
  void ChangeGathered(const void* handle, std::function<void(std::shared_ptr<void>*)> change);
  BatchRun* run_;
};

/// What is called for every record of an input, for timers, closing windows and visited rows, and as a hook. OK: it is done. Any
/// other status (or an exception) fails it: what it staged is dropped, and errors.onFailure of the manifest decides.
/// DataLoss means that the input cannot be read: failure class Decode, not retried. May be called more than once for a
/// record; its effects count once.
using Handler = std::function<absl::Status(Context&)>;

/// Makes one value of those of the sessions that a record connected, oldest first, two at least. An error fails the
/// record.
using SessionMerge = std::function<absl::StatusOr<std::string>(const std::vector<std::string_view>& values)>;

/// What a handler returns for a record that will never succeed: it is not retried, errors.onFailure applies at once.
absl::Status RejectRecord(std::string_view why);

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_CONTEXT_H_
