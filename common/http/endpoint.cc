#include "common/http/endpoint.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/http/response_head.h"
#include "common/http/threads.h"
#include "cpprest/http_client.h"
#include "openssl/ssl.h"

namespace millstream::http {
namespace {

namespace rest = web::http;

constexpr size_t kReadBytes = 64 << 10;

// Throws boost::system::system_error for PEM text that is none.
void UseCertificates(const EndpointOptions& options, boost::asio::ssl::context& tls) {
  if (!options.ca_pem.empty()) {
    // The library has filled the store with the authorities of the system.
    SSL_CTX_set_cert_store(tls.native_handle(), X509_STORE_new());
    tls.add_certificate_authority(boost::asio::buffer(options.ca_pem));
  }
  if (options.certificate_pem.empty()) return;
  tls.use_certificate_chain(boost::asio::buffer(options.certificate_pem));
  tls.use_private_key(boost::asio::buffer(options.key_pem), boost::asio::ssl::context::pem);
}

absl::Status CheckCertificates(const EndpointOptions& options) {
  if (options.certificate_pem.empty() != options.key_pem.empty()) {
    return absl::InvalidArgumentError(
        StrCat(options.url, ": a client certificate and its key belong together: give both or none"));
  }
  try {
    boost::asio::ssl::context tls(boost::asio::ssl::context::sslv23);
    UseCertificates(options, tls);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        StrCat(options.url, ": its certificates or the key in PEM form cannot be used: ", std::string(error.what())));
  }
  return absl::OkStatus();
}

rest::client::http_client_config ConfigFor(const EndpointOptions& options) {
  rest::client::http_client_config config;
  // Deadlines are ours. This one, per operation, ends what we have given up; the default of 30 s would end quiet
  // streams.
  config.set_timeout(absl::ToChronoSeconds(kMaxCallDeadline + absl::Seconds(1)));
  config.set_max_redirects(0);
  config.set_ssl_context_callback([options](boost::asio::ssl::context& tls) { UseCertificates(options, tls); });
  return config;
}

// The result of a task of the library, shared with its threads, which may finish after the caller has given up.
template <typename T>
struct Pending {
  bool done = false;  // this and what follows under the mutex of the interruption
  absl::StatusOr<T> result = absl::UnknownError("not done");
};

// One exchange on the thread of the caller, who waits for one task of the library after the other. The library's own
// threads never wait.
class Exchange {
 public:
  Exchange(rest::client::http_client client, std::string where, const Call& call, const Interruption& interruption)
      : client_(std::move(client)), where_(std::move(where)), state_(interruption.state()), call_(call) {
    deadline_ = SystemClock().Monotonic() + std::min(call.deadline, kMaxCallDeadline);
  }
  // What is still under way is closed, so that its connection is not used again.
  ~Exchange() {
    if (!finished_) cancel_.cancel();
  }

  absl::StatusOr<Response> Head() {
    absl::StatusOr<rest::http_response> answer =
        Await(client_.request(MakeRequest(), cancel_.get_token()), absl::InfiniteDuration());
    if (!answer.ok()) return answer.status();
    body_ = answer->body();
    return HeadOf(*answer);
  }

  // The next piece; empty: the body has ended.
  absl::StatusOr<std::string> Piece(absl::Duration idle) {
    // getn would wait until all it is asked for has come, however long: wait for one byte, then take what is there.
    auto read = body_.streambuf().getc().then([from = body_.streambuf()](int byte) mutable {
      if (byte == concurrency::streams::char_traits<uint8_t>::eof()) return pplx::task_from_result(std::string());
      auto buffer = std::make_shared<std::vector<uint8_t>>(std::min(kReadBytes, from.in_avail()));
      return from.getn(buffer->data(), buffer->size()).then([buffer](size_t bytes) {
        return std::string(reinterpret_cast<const char*>(buffer->data()), bytes);
      });
    });
    absl::StatusOr<std::string> piece = Await(std::move(read), idle);
    if (piece.ok() && piece->empty()) finished_ = true;
    return piece;
  }

  absl::Status CollectBody(std::string* out) {
    while (true) {
      absl::StatusOr<std::string> piece = Piece(absl::InfiniteDuration());
      if (!piece.ok()) return piece.status();
      if (piece->empty()) return absl::OkStatus();
      if (out->size() + piece->size() > call_.max_body_bytes) {
        return absl::ResourceExhaustedError(
            StrCat(where_, ": the response is larger than ", call_.max_body_bytes, " bytes"));
      }
      out->append(*piece);
    }
  }

 private:
  rest::http_request MakeRequest() const {
    rest::http_request request(call_.method);
    request.set_request_uri(web::uri(call_.target));
    if (!call_.body.empty()) request.set_body(std::vector<unsigned char>(call_.body.begin(), call_.body.end()));
    for (const auto& [name, value] : call_.headers) request.headers()[name] = value;  // after set_body's own type
    return request;
  }

  template <typename T>
  absl::StatusOr<T> Await(pplx::task<T> task, absl::Duration idle) {
    auto pending = std::make_shared<Pending<T>>();
    task.then([pending, state = state_, where = where_](pplx::task<T> done) {
      absl::StatusOr<T> result = absl::UnknownError("");
      try {
        result = done.get();
      } catch (const std::exception& error) {
        result = absl::UnavailableError(StrCat(where, ": ", std::string(error.what())));
      }
      absl::MutexLock lock(&state->mutex);
      pending->result = std::move(result);
      pending->done = true;
    });
    const absl::Duration left = deadline_ - SystemClock().Monotonic();
    const auto over = [&pending, this]()
                          ABSL_NO_THREAD_SAFETY_ANALYSIS { return pending->done || state_->interrupted; };
    absl::MutexLock lock(&state_->mutex);
    state_->mutex.AwaitWithTimeout(absl::Condition(&over), std::max(absl::ZeroDuration(), std::min(left, idle)));
    if (pending->done) return std::move(pending->result);
    if (state_->interrupted) return absl::CancelledError(StrCat(where_, ": interrupted"));
    if (idle < left) {
      return absl::DeadlineExceededError(StrCat(where_, ": nothing has arrived for ", absl::FormatDuration(idle)));
    }
    return absl::DeadlineExceededError(
        StrCat(where_, ": no complete answer within ", absl::FormatDuration(call_.deadline)));
  }

  rest::client::http_client client_;  // shares its connections with the endpoint's
  const std::string where_;
  const std::shared_ptr<Interruption::State> state_;
  const Call& call_;
  absl::Duration deadline_;
  pplx::cancellation_token_source cancel_;
  concurrency::streams::istream body_;
  bool finished_ = false;
};

class RestEndpoint : public Endpoint {
 public:
  explicit RestEndpoint(const EndpointOptions& options)
      : url_(absl::StripSuffix(options.url, "/")), client_(url_, ConfigFor(options)) {}

  absl::StatusOr<Response> Fetch(const Call& call) override {
    return Run(call, absl::InfiniteDuration(), Interruption(), nullptr);
  }

  absl::StatusOr<Response> Stream(const Call& call, absl::Duration idle, const Interruption& interruption,
                                  const PieceSink& sink) override {
    return Run(call, idle, interruption, &sink);
  }

 private:
  // Without a sink every body is collected.
  absl::StatusOr<Response> Run(const Call& call, absl::Duration idle, const Interruption& interruption,
                               const PieceSink* sink) {
    const std::string where = url_ + call.target.substr(0, call.target.find('?'));
    try {
      Exchange exchange(client_, where, call, interruption);
      MS_ASSIGN_OR_RETURN(Response response, exchange.Head());
      if (sink == nullptr || response.status < 200 || response.status > 299) {
        MS_RETURN_IF_ERROR(exchange.CollectBody(&response.body));
        return response;
      }
      while (true) {
        MS_ASSIGN_OR_RETURN(const std::string piece, exchange.Piece(idle));
        if (piece.empty()) return response;
        MS_RETURN_IF_ERROR((*sink)(piece));
      }
    } catch (const web::uri_exception& error) {
      return absl::InvalidArgumentError(StrCat("URL ", where, ": ", std::string(error.what())));
    } catch (const std::exception& error) {
      return absl::UnavailableError(StrCat(where, ": ", std::string(error.what())));
    }
  }

  const std::string url_;
  rest::client::http_client client_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Endpoint>> Endpoint::Create(const EndpointOptions& options) {
  CapThreads();
  try {
    const web::uri uri(options.url);
    if ((uri.scheme() != "http" && uri.scheme() != "https") || uri.host().empty() || !uri.query().empty()) {
      return absl::InvalidArgumentError(StrCat("'", options.url, "' is not a URL such as https://127.0.0.1:6443"));
    }
    MS_RETURN_IF_ERROR(CheckCertificates(options));
    return std::make_unique<RestEndpoint>(options);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(StrCat("URL ", options.url, ": ", std::string(error.what())));
  }
}

}  // namespace millstream::http
