#include "operator/kube/api_error.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "common/base/bytes.h"
#include "common/base/strings.h"
#include "operator/kube/json.h"

namespace millstream::kube {
namespace {

constexpr char kPayload[] = "millstream.dev/kube-api-error";
// A server that says more than that is wrong about the time, or no API server.
constexpr absl::Duration kMaxRetryAfter = absl::Minutes(10);
// Of an answer that is no Status: enough to recognize a proxy's page.
constexpr size_t kMaxForeignText = 200;

std::string_view ReasonFor(int code) {
  switch (code) {
    case 400:
      return "BadRequest";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "NotFound";
    case 405:
      return "MethodNotAllowed";
    case 406:
      return "NotAcceptable";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 413:
      return "RequestEntityTooLarge";
    case 415:
      return "UnsupportedMediaType";
    case 422:
      return "Invalid";
    case 429:
      return "TooManyRequests";
    case 503:
      return "ServiceUnavailable";
    case 504:
      return "Timeout";
    default:
      return code >= 500 ? "InternalError" : "Unknown";
  }
}

std::optional<absl::Duration> Seconds(int64_t seconds) {
  if (seconds <= 0) return std::nullopt;
  return std::min(absl::Seconds(seconds), kMaxRetryAfter);
}

void ReadCauses(const Json& status, ApiError* error) {
  const Json* causes = Find(status, {"details", "causes"});
  if (causes == nullptr || !causes->is_array()) return;
  for (const Json& cause : *causes) {
    if (TextAt(cause, {"reason"}) == "NamespaceTerminating") error->namespace_terminating = true;
    if (!error->cause.empty()) continue;
    const std::string field = TextAt(cause, {"field"});
    error->cause = StrCat(field, field.empty() ? "" : ": ", TextAt(cause, {"message"}));
  }
}

absl::StatusCode CodeOf(const ApiError& error) {
  switch (error.code) {
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 409:
      return error.reason == "AlreadyExists" ? absl::StatusCode::kAlreadyExists : absl::StatusCode::kAborted;
    case 410:
      return absl::StatusCode::kOutOfRange;
    case 429:
      return absl::StatusCode::kResourceExhausted;
    default:
      break;
  }
  // A redirect, or an error event that says nothing: no API server speaks like that.
  if (error.code < 400) return absl::StatusCode::kUnavailable;
  if (error.code < 500 || absl::StrContains(error.message, "field not declared in schema")) {
    return absl::StatusCode::kInvalidArgument;
  }
  return absl::StatusCode::kUnavailable;
}

}  // namespace

ApiError ReadApiError(int code, std::string_view body, std::string_view retry_after) {
  ApiError error;
  error.code = code;
  const absl::StatusOr<Json> status = ParseJson(body, "status");
  if (status.ok() && TextAt(*status, {"kind"}) == "Status") {
    error.reason = TextAt(*status, {"reason"});
    error.message = TextAt(*status, {"message"});
    // In a watch the code is in the object only.
    if (code == 0 || code == 200) error.code = static_cast<int>(std::clamp<int64_t>(IntAt(*status, {"code"}), 0, 999));
    error.retry_after = Seconds(IntAt(*status, {"details", "retryAfterSeconds"}));
    ReadCauses(*status, &error);
  } else {
    error.message = StrCat("the answer is no Kubernetes Status: ", Readable(body, kMaxForeignText));
  }
  if (error.reason == "Expired" && error.code == 0) error.code = 410;
  if (error.reason.empty()) error.reason = std::string(ReasonFor(error.code));
  int64_t seconds = 0;
  if (absl::SimpleAtoi(ToAbsl(retry_after), &seconds) && Seconds(seconds)) error.retry_after = Seconds(seconds);
  return error;
}

absl::Status ToStatus(const ApiError& error, std::string_view call) {
  const std::string text = error.message.empty() ? error.cause : error.message;
  absl::Status status(CodeOf(error), ToAbsl(StrCat(call, ": ", error.code, " ", error.reason, ": ", text)));
  Json payload = {{"code", error.code},
                  {"reason", error.reason},
                  {"message", error.message},
                  {"cause", error.cause},
                  {"terminating", error.namespace_terminating},
                  {"retryAfter", error.retry_after ? absl::ToInt64Seconds(*error.retry_after) : 0}};
  // The server's words may be cut in the middle of a character.
  status.SetPayload(kPayload, absl::Cord(payload.dump(-1, ' ', false, Json::error_handler_t::replace)));
  return status;
}

std::optional<ApiError> ApiErrorOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  if (!payload) return std::nullopt;
  const absl::StatusOr<Json> json = ParseJson(std::string(*payload), "payload");
  if (!json.ok()) return std::nullopt;
  ApiError error;
  error.code = static_cast<int>(IntAt(*json, {"code"}));
  error.reason = TextAt(*json, {"reason"});
  error.message = TextAt(*json, {"message"});
  error.cause = TextAt(*json, {"cause"});
  error.namespace_terminating = BoolAt(*json, {"terminating"});
  error.retry_after = Seconds(IntAt(*json, {"retryAfter"}));
  return error;
}

bool IsRetryable(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) || absl::IsAborted(status) ||
         absl::IsDeadlineExceeded(status);
}

bool IsExpired(const absl::Status& status) { return absl::IsOutOfRange(status); }

bool IsNamespaceTerminating(const absl::Status& status) {
  const std::optional<ApiError> error = ApiErrorOf(status);
  return error && error->namespace_terminating;
}

std::optional<absl::Duration> RetryAfterOf(const absl::Status& status) {
  const std::optional<ApiError> error = ApiErrorOf(status);
  return error ? error->retry_after : std::nullopt;
}

}  // namespace millstream::kube
