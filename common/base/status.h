#ifndef MILLSTREAM_COMMON_BASE_STATUS_H_
#define MILLSTREAM_COMMON_BASE_STATUS_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millstream {

// What the caller of a transactional call has to do about its error. Attached to a status where transactions are
// concerned; a status without one is a plain error of its code.
enum class Recovery {
  kNone,      // no action attached
  kRetry,     // the same call may be repeated; nothing happened
  kAbort,     // abort the transaction; the writer stays usable
  kRecreate,  // the writer is unusable: destroy it, create one with the same transactional id
};

absl::Status WithRecovery(absl::Status status, Recovery recovery);
Recovery RecoveryOf(const absl::Status& status);

// Marks a commit or abort whose effect is unknown (timeout, disconnect): it may have happened, or happen later
// (engine.md, R6). Implies Recovery::kRecreate.
absl::Status WithUnknownOutcome(absl::Status status);
bool IsOutcomeUnknown(const absl::Status& status);

// Adds what was being done, keeping code and payloads: Annotate(s, "open /data/x") -> "open /data/x: <message>".
absl::Status Annotate(const absl::Status& status, std::string_view context);

namespace internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, std::string_view detail);
inline const absl::Status& AsStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& AsStatus(const absl::StatusOr<T>& result) {
  return result.status();
}
}  // namespace internal

}  // namespace millstream

// On in production. For our own bugs, never for input: prints file, line, condition, and aborts the process.
#define MS_CHECK(condition)                                                                    \
  do {                                                                                         \
    if (!(condition)) ::millstream::internal::CheckFailed(__FILE__, __LINE__, #condition, ""); \
  } while (false)
#define MS_CHECK_OK(expression)                                                                          \
  do {                                                                                                   \
    const auto& ms_check_result = (expression);                                                          \
    if (!ms_check_result.ok())                                                                           \
      ::millstream::internal::CheckFailed(__FILE__, __LINE__, #expression,                               \
                                          ::millstream::internal::AsStatus(ms_check_result).ToString()); \
  } while (false)

#define MS_CONCAT_INNER(a, b) a##b
#define MS_CONCAT(a, b) MS_CONCAT_INNER(a, b)

#define MS_RETURN_IF_ERROR(expression)                                            \
  do {                                                                            \
    if (absl::Status ms_status = (expression); !ms_status.ok()) return ms_status; \
  } while (false)

// MS_ASSIGN_OR_RETURN(auto x, Call());
#define MS_ASSIGN_OR_RETURN(target, expression) \
  MS_ASSIGN_OR_RETURN_IMPL(MS_CONCAT(ms_result_, __LINE__), target, expression)
#define MS_ASSIGN_OR_RETURN_IMPL(result, target, expression) \
  auto result = (expression);                                \
  if (!result.ok()) return result.status();                  \
  target = *std::move(result)

#endif  // MILLSTREAM_COMMON_BASE_STATUS_H_
