#ifndef MILLSTREAM_OPERATOR_MODEL_STATUS_H_
#define MILLSTREAM_OPERATOR_MODEL_STATUS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "operator/model/processor.h"

namespace millstream::model {

struct Condition {
  enum class Status { kTrue, kFalse, kUnknown };
  std::string type;  // "Ready", "TopicsReady", "WorkloadReady", "Restored", "Reconciling", "Stalled"
  Status status = Status::kUnknown;
  std::string reason;   // one CamelCase word, never empty
  std::string message;  // a sentence; cut at 32 KiB, the schema's bound
};

// status.conditions as they shall be: `now` in its order, each with the generation it was made from. The transition
// time of one whose status is as in `before` (status.conditions as read, or null) stays what it was. Reconciling and
// Stalled are there only while they are True: kubectl wait, Argo CD and Flux read their presence (kstatus).
Json ConditionsOf(const Json& before, const std::vector<Condition>& now, int64_t generation, absl::Time time);

// What is to be written over `before`, the status as read; nullopt: nothing, so that a steady processor costs no
// writes. A difference anywhere but in the numbers (lag, restore) is written at once. One in the numbers only when
// `since_last`, the time since the last write, is 30 s or more, and when a number went to or from zero or changed by
// more than a tenth.
std::optional<Json> StatusToWrite(const Json& before, const Json& wanted, absl::Duration since_last);

inline constexpr absl::Duration kNumbersInterval = absl::Seconds(30);

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_STATUS_H_
