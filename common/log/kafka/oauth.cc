#include "common/log/kafka/oauth.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/http/client.h"

namespace millstream::kafka {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(10);
// RFC 6749 lets an endpoint leave the lifetime out; then it is asked again after this.
constexpr absl::Duration kAssumedLife = absl::Minutes(5);
constexpr size_t kMostBytes = 1 << 20;

// application/x-www-form-urlencoded
std::string FormEncode(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
        c == '.' || c == '~') {
      out.push_back(c);
    } else {
      out.append({'%', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  return out;
}

class ClientCredentials : public TokenSource {
 public:
  explicit ClientCredentials(const ClusterAccess& access)
      : sasl_(*access.sasl), ca_pem_(access.tls ? access.tls->ca_pem : "") {}

  absl::StatusOr<Token> Get() override {
    // Held while asking: others want the same answer.
    absl::MutexLock lock(&mutex_);
    const absl::Time now = SystemClock().WallTime();
    if (!token_.text.empty() && token_.expires - now > life_ / 10) return token_;
    MS_ASSIGN_OR_RETURN(const http::Response response, Ask());
    MS_RETURN_IF_ERROR(Accept(response, now));
    return token_;
  }

 private:
  absl::StatusOr<http::Response> Ask() const {
    http::ClientRequest request;
    request.method = "POST";
    request.url = sasl_.token_endpoint;
    request.ca_pem = ca_pem_;
    request.deadline = kDeadline;
    request.max_body_bytes = kMostBytes;
    request.body = "grant_type=client_credentials";
    if (!sasl_.scope.empty()) StrAppend(&request.body, "&scope=", FormEncode(sasl_.scope));
    request.headers = {
        {"Content-Type", "application/x-www-form-urlencoded"},
        {"Accept", "application/json"},
        {"Authorization", StrCat("Basic ", absl::Base64Escape(StrCat(FormEncode(sasl_.client_id), ":",
                                                                     FormEncode(sasl_.client_secret))))},
    };
    auto response = http::Fetch(request);
    if (!response.ok()) return Annotate(response.status(), "fetch a token");
    return response;
  }

  absl::Status Accept(const http::Response& response, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto json = nlohmann::json::parse(response.body, nullptr, /*allow_exceptions=*/false);
    const auto text_of = [&](const char* name) {
      return json.is_object() && json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : "";
    };
    const std::string from = StrCat("token endpoint ", sasl_.token_endpoint);
    if (response.status / 100 == 5) return absl::UnavailableError(StrCat(from, " answered ", response.status));
    if (response.status != 200) {
      return absl::UnauthenticatedError(StrCat(from, " answered ", response.status, " ", text_of("error"), " ",
                                               text_of("error_description"), "; check kafka.sasl.oauth"));
    }
    const std::string token = text_of("access_token");
    if (token.empty()) return absl::InvalidArgumentError(StrCat(from, " answered without an access_token"));
    life_ = json.contains("expires_in") && json["expires_in"].is_number()
                ? absl::Seconds(json["expires_in"].get<double>())
                : kAssumedLife;
    token_ = {.text = token, .principal = sasl_.client_id, .expires = now + life_};
    return absl::OkStatus();
  }

  const SaslAccess sasl_;
  const std::string ca_pem_;
  absl::Mutex mutex_;
  Token token_ ABSL_GUARDED_BY(mutex_);
  absl::Duration life_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<TokenSource> NewTokenSource(const ClusterAccess& access) {
  return std::make_unique<ClientCredentials>(access);
}

}  // namespace millstream::kafka
