#ifndef MILLSTREAM_SIDECAR_ENGINE_ATTEMPTS_H_
#define MILLSTREAM_SIDECAR_ENGINE_ATTEMPTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/spec/stream_processor.h"
#include "sidecar/engine/record_queue.h"
#include "sidecar/protocol/messages.h"

namespace millstream::engine {

// What is to be done about an item that failed.
enum class Verdict : uint8_t { kRetry, kStop, kSkip, kDeadLetter };

// Failures of single items, kept across aborts and workers until their offsets are committed. Only the first item of a
// task can fail (prefix rule), so there are few entries: one per item that failed and is not committed yet.
class Attempts {
 public:
  struct Entry {
    int count = 0;
    bool final = false;  // no further try
    protocol::Failure last;
  };

  // Charges the item one attempt. `retriable`: by guarantee and by what the worker said.
  const Entry& Charge(const spec::ErrorsSpec& errors, uint32_t input, Offset offset, protocol::Failure failure,
                      bool retriable);
  const Entry& Charge(const spec::ErrorsSpec& errors, const Item& item, protocol::Failure failure, bool retriable);
  // nullptr: it never failed.
  const Entry* Find(const Item& item) const;
  int Next(const Item& item) const;
  // Something that was due is done.
  void Done(const DueItem& due) { due_.erase(due.row); }
  // What begins with this identity will not come again: a visit was stopped, or begins anew.
  void ForgetDue(std::string_view prefix);
  const Entry* Find(uint32_t input, Offset offset) const;
  // Failures so far plus one.
  int Next(uint32_t input, Offset offset) const;
  void Forget(uint32_t input, Offset offset) { entries_.erase({input, offset}); }
  // Everything of `input` before `next` is committed.
  void Committed(uint32_t input, Offset next);
  bool empty() const { return entries_.empty() && due_.empty(); }

 private:
  static const Entry& Charge(const spec::ErrorsSpec& errors, protocol::Failure failure, bool retriable, Entry* entry);

  std::map<std::pair<uint32_t, Offset>, Entry> entries_;
  std::map<Bytes, Entry> due_;  // by row
};

// Pure.
Verdict VerdictFor(const spec::ErrorsSpec& errors, const Attempts::Entry& entry);
// Wait before the try after `failures` failures: initial, doubled each time, at most max.
absl::Duration Backoff(absl::Duration initial, absl::Duration max, int failures);

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_ATTEMPTS_H_
