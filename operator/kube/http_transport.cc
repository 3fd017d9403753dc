#include "operator/kube/http_transport.h"

#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/http/endpoint.h"
#include "operator/kube/watched_file.h"

namespace millstream::kube {
namespace {

// A page of 500 processors of a few KiB each fits many times; one of 500 objects at etcd's limit does not, and is
// better refused than kept.
constexpr size_t kMaxAnswerBytes = 128 << 20;

// A text, or a file that changes.
class Material {
 public:
  Material(std::string text, const std::string& file, const Clock* clock) : text_(std::move(text)) {
    if (text_.empty() && !file.empty()) file_.emplace(file, clock);
  }
  absl::StatusOr<std::string> Get() { return file_ ? file_->Contents() : text_; }
  void Expire() {
    if (file_) file_->Expire();
  }
  bool changes() const { return file_.has_value(); }

 private:
  std::string text_;
  std::optional<WatchedFile> file_;
};

class HttpTransport : public Transport {
 public:
  HttpTransport(const ClientConfig& config, std::string user_agent, const Clock* clock)
      : server_(config.server),
        user_agent_(std::move(user_agent)),
        ca_(config.ca_pem, config.ca_file, clock),
        certificate_(config.certificate_pem, config.certificate_file, clock),
        key_(config.key_pem, config.key_file, clock),
        token_(config.token, config.token_file, clock) {}

  absl::StatusOr<HttpAnswer> Do(const HttpCall& call) override {
    return Twice(call, [](http::Endpoint& endpoint, const http::Call& request) { return endpoint.Fetch(request); });
  }

  absl::StatusOr<HttpAnswer> Stream(const HttpCall& call, absl::Duration idle, const http::Interruption& interruption,
                                    const PieceSink& sink) override {
    bool began = false;
    const PieceSink noting = [&](std::string_view piece) {
      began = true;
      return sink(piece);
    };
    return Twice(call, [&](http::Endpoint& endpoint, const http::Call& request) -> absl::StatusOr<http::Response> {
      absl::StatusOr<http::Response> answer = endpoint.Stream(request, idle, interruption, noting);
      // What the sink has seen cannot be taken back: no second try.
      if (!answer.ok() && began && absl::IsUnavailable(answer.status())) {
        return absl::AbortedError(answer.status().message());
      }
      return answer;
    });
  }

  // The endpoint for the certificates of now.
  absl::StatusOr<std::shared_ptr<http::Endpoint>> Current() {
    MS_ASSIGN_OR_RETURN(std::string ca, ca_.Get());
    MS_ASSIGN_OR_RETURN(std::string certificate, certificate_.Get());
    MS_ASSIGN_OR_RETURN(std::string key, key_.Get());
    absl::MutexLock lock(&mutex_);
    if (endpoint_ != nullptr && ca == options_.ca_pem && certificate == options_.certificate_pem &&
        key == options_.key_pem) {
      return endpoint_;
    }
    const http::EndpointOptions options{
        .url = server_, .ca_pem = std::move(ca), .certificate_pem = std::move(certificate), .key_pem = std::move(key)};
    absl::StatusOr<std::unique_ptr<http::Endpoint>> made = http::Endpoint::Create(options);
    if (made.ok()) {
      options_ = options;
      endpoint_ = *std::move(made);
    } else if (endpoint_ == nullptr) {
      return made.status();
    } else {
      // A file caught while it is written, or a certificate whose key is not there yet. What worked goes on.
      LogWarning("certificates cannot be used, the ones before stay",
                 {{"error", std::string(made.status().message())}});
    }
    return endpoint_;
  }

 private:
  template <typename Send>
  absl::StatusOr<HttpAnswer> Twice(const HttpCall& call, const Send& send) {
    for (int attempt = 1;; ++attempt) {
      const bool last = attempt == 2;
      MS_ASSIGN_OR_RETURN(const std::shared_ptr<http::Endpoint> endpoint, Current());
      MS_ASSIGN_OR_RETURN(const http::Call request, MakeCall(call));
      const absl::StatusOr<http::Response> response = send(*endpoint, request);
      if (!response.ok()) {
        if (absl::IsUnavailable(response.status()) && call.repeatable && !last) continue;
        if (absl::IsAborted(response.status())) return absl::UnavailableError(response.status().message());
        return response.status();
      }
      if (response->status == 401 && token_.changes() && !last) {
        token_.Expire();
        continue;
      }
      return ToAnswer(*response);
    }
  }

  absl::StatusOr<http::Call> MakeCall(const HttpCall& call) {
    http::Call request;
    request.method = call.method;
    request.target = call.target;
    request.body = call.body;
    request.deadline = call.deadline;
    request.max_body_bytes = kMaxAnswerBytes;
    request.headers = {{"Accept", "application/json"}, {"User-Agent", user_agent_}};
    if (!call.content_type.empty()) request.headers.emplace_back("Content-Type", call.content_type);
    const absl::StatusOr<std::string> token = token_.Get();
    if (!token.ok()) return absl::UnauthenticatedError(StrCat("the token: ", std::string(token.status().message())));
    const std::string trimmed(absl::StripAsciiWhitespace(*token));
    if (!trimmed.empty()) request.headers.emplace_back("Authorization", "Bearer " + trimmed);
    return request;
  }

  static HttpAnswer ToAnswer(const http::Response& response) {
    HttpAnswer answer;
    answer.status = response.status;
    answer.body = response.body;
    for (const auto& [name, value] : response.headers) {
      if (absl::EqualsIgnoreCase(name, "Retry-After")) answer.retry_after = value;
    }
    return answer;
  }

  const std::string server_, user_agent_;
  Material ca_, certificate_, key_, token_;
  absl::Mutex mutex_;
  http::EndpointOptions options_ ABSL_GUARDED_BY(mutex_);  // of endpoint_
  std::shared_ptr<http::Endpoint> endpoint_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> NewHttpTransport(const ClientConfig& config, const std::string& user_agent,
                                                            const Clock* clock) {
  auto transport = std::make_unique<HttpTransport>(config, user_agent, clock);
  if (const auto endpoint = transport->Current(); !endpoint.ok()) {
    return Annotate(endpoint.status(), config.source);
  }
  return transport;
}

}  // namespace millstream::kube
