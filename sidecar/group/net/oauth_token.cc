#include "sidecar/group/net/oauth_token.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/http/client.h"
#include "sidecar/group/net/secrets.h"

namespace millstream::group {
namespace {

constexpr absl::Duration kLongestFetch = absl::Seconds(5);  // an endpoint is near, and a lane waits for it
constexpr size_t kMaxAnswerBytes = 256 << 10;
constexpr int64_t kDefaultLifeSeconds = 300;  // where expires_in is missing
constexpr int64_t kLongestLifeSeconds = 86'400;
constexpr size_t kMaxTokenBytes = 64 << 10;

http::ClientRequest TokenRequest(const kafka::SaslAccess& access, const IoLimit& limit) {
  http::ClientRequest request;
  request.method = "POST";
  request.url = access.token_endpoint;
  request.deadline = std::min(limit.Left(), kLongestFetch);
  request.max_body_bytes = kMaxAnswerBytes;
  // RFC 6749, 2.3.1: both are form-encoded before they become user and password.
  const std::string user =
      StrCat(http::PercentEncode(access.client_id), ":", http::PercentEncode(access.client_secret));
  request.headers = {{"Content-Type", "application/x-www-form-urlencoded"},
                     {"Accept", "application/json"},
                     {"Authorization", StrCat("Basic ", Base64Encode(user))}};
  request.body = "grant_type=client_credentials";
  if (!access.scope.empty()) StrAppend(&request.body, "&scope=", http::PercentEncode(access.scope));
  return request;
}

std::string Text(const nlohmann::json& answer, const char* name) {
  const auto field = answer.find(name);
  return field != answer.end() && field->is_string() ? field->get<std::string>() : "";
}

}  // namespace

OauthTokenSource::OauthTokenSource(kafka::SaslAccess access) : access_(std::move(access)) {}

absl::StatusOr<std::string> OauthTokenSource::Token(const IoLimit& limit) {
  absl::MutexLock lock(&mutex_);
  if (!token_.empty() && SystemClock().Monotonic() < good_until_) return token_;
  absl::StatusOr<std::string> token = Fetch(limit);
  if (!token.ok()) return Annotate(token.status(), "asking for an access token");
  return token;
}

absl::StatusOr<std::string> OauthTokenSource::Fetch(const IoLimit& limit) {
  const absl::Duration asked_at = SystemClock().Monotonic();
  MS_ASSIGN_OR_RETURN(const http::Response response, http::Fetch(TokenRequest(access_, limit)));
  const nlohmann::json answer = nlohmann::json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  if (response.status != 200) {
    const std::string why = answer.is_object() ? Text(answer, "error") : "";
    const std::string message = StrCat(access_.token_endpoint, " answered ", response.status, why.empty() ? "" : " ",
                                       why, "; check kafka.sasl.oauth");
    return response.status >= 500 ? absl::UnavailableError(message) : absl::UnauthenticatedError(message);
  }
  const std::string token = answer.is_object() ? Text(answer, "access_token") : "";
  // RFC 7628: visible ASCII; anything else would end the message it is put into.
  const bool printable = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (token.empty() || token.size() > kMaxTokenBytes || !printable) {
    return absl::FailedPreconditionError(StrCat(access_.token_endpoint, " answered without an access_token"));
  }
  const auto life = answer.find("expires_in");
  const int64_t seconds =
      life != answer.end() && life->is_number_integer() ? life->get<int64_t>() : kDefaultLifeSeconds;
  token_ = token;
  good_until_ = asked_at + absl::Seconds(std::clamp<int64_t>(seconds, 0, kLongestLifeSeconds)) * 4 / 5;
  return token;
}

}  // namespace millstream::group
