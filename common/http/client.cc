#include "common/http/client.h"

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <vector>

#include "common/base/strings.h"
#include "common/http/response_head.h"
#include "common/http/threads.h"
#include "cpprest/http_client.h"

namespace millstream::http {
namespace {

namespace rest = web::http;

constexpr size_t kReadBytes = 64 << 10;

// What the pool's threads work on; shared with them, since they may finish after the deadline has passed.
struct Exchange {
  pplx::cancellation_token_source cancel;
  std::promise<absl::StatusOr<Response>> result;
  size_t max_body_bytes = 0;
  std::string where;  // the URL without its query
};

absl::Status TooLarge(const Exchange& exchange) {
  return absl::ResourceExhaustedError(
      StrCat(exchange.where, ": the response is larger than ", exchange.max_body_bytes, " bytes"));
}

// A body on its way in.
struct Body {
  concurrency::streams::istream from;
  std::string read;
  std::vector<uint8_t> piece = std::vector<uint8_t>(kReadBytes);
};

// Reads the body piece by piece, so that it can be cut at its bound.
pplx::task<void> ReadBody(std::shared_ptr<Exchange> exchange, std::shared_ptr<Body> body) {
  return body->from.streambuf().getn(body->piece.data(), body->piece.size()).then([exchange, body](size_t bytes) {
    if (bytes == 0) return pplx::task_from_result();
    if (body->read.size() + bytes > exchange->max_body_bytes) throw std::length_error("body");
    body->read.append(reinterpret_cast<const char*>(body->piece.data()), bytes);
    return ReadBody(exchange, body);
  });
}

rest::http_request ToRequest(const ClientRequest& from, const web::uri& uri) {
  rest::http_request request(from.method);
  request.set_request_uri(uri.resource());
  for (const auto& [name, value] : from.headers) request.headers().add(name, value);
  if (!from.body.empty()) {
    request.set_body(std::vector<unsigned char>(from.body.begin(), from.body.end()));
    for (const auto& [name, value] : from.headers) request.headers()[name] = value;  // set_body has chosen a type
  }
  // A pooled connection may have been closed by the other side while it lay idle; a new one costs little.
  request.headers()[rest::header_names::connection] = "close";
  return request;
}

void Begin(const ClientRequest& from, const web::uri& uri, const std::shared_ptr<Exchange>& exchange) {
  rest::client::http_client_config config;
  // The deadline is ours, for the whole exchange. This one, per operation, only ends what we have given up.
  config.set_timeout(absl::ToChronoMilliseconds(from.deadline + absl::Seconds(1)));
  if (uri.scheme() == "https") {
    config.set_ssl_context_callback([ca_pem = from.ca_pem](boost::asio::ssl::context& tls) {
      tls.set_default_verify_paths();
      if (!ca_pem.empty()) tls.add_certificate_authority(boost::asio::buffer(ca_pem));
    });
  }
  auto client = std::make_shared<rest::client::http_client>(uri.authority(), config);
  client->request(ToRequest(from, uri), exchange->cancel.get_token())
      .then([exchange](rest::http_response answer) {
        auto response = std::make_shared<Response>(HeadOf(answer));
        auto body = std::make_shared<Body>();
        body->from = answer.body();
        return ReadBody(exchange, body).then([response, body] {
          response->body = std::move(body->read);
          return std::move(*response);
        });
      })
      .then([exchange, client](pplx::task<Response> done) {
        try {
          exchange->result.set_value(done.get());
        } catch (const std::length_error&) {
          exchange->cancel.cancel();
          exchange->result.set_value(TooLarge(*exchange));
        } catch (const std::exception& error) {
          exchange->result.set_value(absl::UnavailableError(StrCat(exchange->where, ": ", std::string(error.what()))));
        }
      });
}

}  // namespace

absl::StatusOr<Response> Fetch(const ClientRequest& request) {
  CapThreads();
  auto exchange = std::make_shared<Exchange>();
  exchange->max_body_bytes = request.max_body_bytes;
  exchange->where = request.url.substr(0, request.url.find('?'));
  std::future<absl::StatusOr<Response>> result = exchange->result.get_future();
  try {
    const web::uri uri(request.url);
    if ((uri.scheme() != "http" && uri.scheme() != "https") || uri.host().empty()) {
      return absl::InvalidArgumentError(
          StrCat("'", exchange->where, "' is not a URL such as http://127.0.0.1:8080/v1/tasks"));
    }
    Begin(request, uri, exchange);
  } catch (const web::uri_exception& error) {
    return absl::InvalidArgumentError(StrCat("URL ", exchange->where, ": ", std::string(error.what())));
  } catch (const std::exception& error) {
    return absl::UnavailableError(StrCat(exchange->where, ": ", std::string(error.what())));
  }
  if (result.wait_for(absl::ToChronoMilliseconds(request.deadline)) == std::future_status::ready) return result.get();
  exchange->cancel.cancel();
  return absl::DeadlineExceededError(
      StrCat(exchange->where, ": no complete answer within ", absl::FormatDuration(request.deadline)));
}

absl::StatusOr<Response> Get(const std::string& url, absl::Duration deadline) {
  ClientRequest request;
  request.url = url;
  request.deadline = deadline;
  return Fetch(request);
}

}  // namespace millstream::http
