#ifndef MILLSTREAM_OPERATOR_KUBE_API_ERROR_H_
#define MILLSTREAM_OPERATOR_KUBE_API_ERROR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace millstream::kube {

// What an API server answered instead of the object: its meta/v1 Status, or what could be read of an answer that is
// none (a proxy's page). Travels as a payload of an absl::Status, so that callers decide by reason and not by text.
struct ApiError {
  int code = 0;         // HTTP status
  std::string reason;   // "NotFound", "Conflict", "Invalid" ...; made from the code where the server gave none
  std::string message;  // the server's words
  // Field path and words of the first cause ("spec.replicas: must be greater than 0"); empty: none given.
  std::string cause;
  bool namespace_terminating = false;
  std::optional<absl::Duration> retry_after;  // the server's wish: header Retry-After, else details.retryAfterSeconds
};

// `body`: as received. `retry_after`: the header, empty when there was none.
ApiError ReadApiError(int code, std::string_view body, std::string_view retry_after);

// The codes: NOT_FOUND; ALREADY_EXISTS; ABORTED (409 Conflict: read again and repeat); INVALID_ARGUMENT (400, 413, 415,
// 422: the same request will never pass); OUT_OF_RANGE (410: list again); UNAUTHENTICATED; PERMISSION_DENIED;
// RESOURCE_EXHAUSTED (429); UNAVAILABLE (5xx). 500 with "field not declared in schema", which is how a server-side
// apply answers an unknown field, is INVALID_ARGUMENT. `call` names the call: "apply apps/statefulsets orders/totals".
absl::Status ToStatus(const ApiError& error, std::string_view call);

// nullopt: the error is none of the server's (a broken connection, a deadline of ours).
std::optional<ApiError> ApiErrorOf(const absl::Status& status);

// Whether the same call may succeed later with nothing changed by us: no connection, 429, 5xx, a conflict, a deadline.
bool IsRetryable(const absl::Status& status);
// The objects are gone from the server's history: a watch or continued list has to begin anew.
bool IsExpired(const absl::Status& status);
// Writes into a namespace that is being deleted: nothing to repair, nothing to report.
bool IsNamespaceTerminating(const absl::Status& status);
// How long the server wants to be left alone; nullopt: it did not say.
std::optional<absl::Duration> RetryAfterOf(const absl::Status& status);

}  // namespace millstream::kube

#endif  // MILLSTREAM_OPERATOR_KUBE_API_ERROR_H_
