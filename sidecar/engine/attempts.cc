#include "sidecar/engine/attempts.h"

#include <algorithm>

namespace millstream::engine {

const Attempts::Entry& Attempts::Charge(const spec::ErrorsSpec& errors, uint32_t input, Offset offset,
                                        protocol::Failure failure, bool retriable) {
  return Charge(errors, std::move(failure), retriable, &entries_[{input, offset}]);
}

const Attempts::Entry& Attempts::Charge(const spec::ErrorsSpec& errors, const Item& item, protocol::Failure failure,
                                        bool retriable) {
  Entry& entry = item.due != nullptr ? due_[item.due->row] : entries_[{item.input, item.record.offset}];
  return Charge(errors, std::move(failure), retriable, &entry);
}

const Attempts::Entry& Attempts::Charge(const spec::ErrorsSpec& errors, protocol::Failure failure, bool retriable,
                                        Entry* entry) {
  ++entry->count;
  entry->final = !retriable || entry->count >= errors.max_attempts;
  entry->last = std::move(failure);
  return *entry;
}

const Attempts::Entry* Attempts::Find(const Item& item) const {
  if (item.due == nullptr) return Find(item.input, item.record.offset);
  auto it = due_.find(item.due->row);
  return it == due_.end() ? nullptr : &it->second;
}

void Attempts::ForgetDue(std::string_view prefix) {
  auto it = due_.lower_bound(Bytes(prefix));
  while (it != due_.end() && std::string_view(it->first).starts_with(prefix)) it = due_.erase(it);
}

int Attempts::Next(const Item& item) const {
  const Entry* entry = Find(item);
  return entry == nullptr ? 1 : entry->count + 1;
}

const Attempts::Entry* Attempts::Find(uint32_t input, Offset offset) const {
  if (entries_.empty()) return nullptr;
  auto it = entries_.find({input, offset});
  return it == entries_.end() ? nullptr : &it->second;
}

int Attempts::Next(uint32_t input, Offset offset) const {
  const Entry* entry = Find(input, offset);
  return entry == nullptr ? 1 : entry->count + 1;
}

void Attempts::Committed(uint32_t input, Offset next) {
  entries_.erase(entries_.lower_bound({input, Offset(INT64_MIN)}), entries_.lower_bound({input, next}));
}

Verdict VerdictFor(const spec::ErrorsSpec& errors, const Attempts::Entry& entry) {
  if (!entry.final) return Verdict::kRetry;
  switch (errors.ActionFor(entry.last.failure_class)) {
    case spec::FailureAction::kStop:
      return Verdict::kStop;
    case spec::FailureAction::kSkip:
      return Verdict::kSkip;
    case spec::FailureAction::kDeadLetter:
      return Verdict::kDeadLetter;
  }
  return Verdict::kStop;
}

absl::Duration Backoff(absl::Duration initial, absl::Duration max, int failures) {
  constexpr int kLargestShift = 30;
  const int shift = std::clamp(failures - 1, 0, kLargestShift);
  return std::min(initial * (int64_t{1} << shift), max);
}

}  // namespace millstream::engine
