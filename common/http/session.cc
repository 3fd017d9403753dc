#include "common/http/session.h"

#include <chrono>
#include <exception>
#include <utility>

#include "boost/asio/bind_executor.hpp"
#include "boost/asio/post.hpp"
#include "boost/beast/http/empty_body.hpp"
#include "boost/beast/http/error.hpp"
#include "boost/beast/http/read.hpp"
#include "boost/beast/http/write.hpp"
#include "common/base/log_line.h"
#include "common/base/strings.h"
#include "common/http/server_core.h"
#include "common/http/target.h"

namespace millstream::http {
namespace {

namespace beast = boost::beast;
using Error = boost::system::error_code;

// What a client may still send after it was refused, and for how long, before the connection is cut.
constexpr size_t kLingerBytes = 1 << 20;
constexpr std::chrono::seconds kLingerTime{2};
constexpr size_t kFirstRead = 4096;

std::chrono::nanoseconds ToChrono(absl::Duration duration) { return absl::ToChronoNanoseconds(duration); }

std::string ErrorBody(std::string_view code, std::string_view message) {
  std::string escaped;
  for (const char c : message) {
    if (c == '"' || c == '\\') escaped.push_back('\\');
    escaped.push_back(static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e ? '?' : c);
  }
  return StrCat("{\"error\":{\"code\":\"", code, "\",\"message\":\"", escaped, "\"}}\n");
}

template <typename Message>
void SetFields(const Response& response, bool keep_alive, Message* message) {
  message->result(static_cast<unsigned>(response.status));
  message->set(beast::http::field::content_type, response.content_type);
  for (const auto& [name, value] : response.headers) message->insert(name, value);
  message->content_length(response.body.size());
  message->keep_alive(keep_alive);
}

// Answers 500 when the last copy of the responder goes without a response.
class Exchange {
 public:
  Exchange(std::weak_ptr<Session> session, std::shared_ptr<ServerCore> core, uint64_t number)
      : core_(std::move(core)), session_(std::move(session)), number_(number) {}
  ~Exchange() {
    if (!answered_) Answer({500, "application/json", ErrorBody("INTERNAL", "the handler dropped the request"), {}});
  }
  void Answer(Response response) {
    if (answered_.exchange(true)) return;
    if (const auto session = session_.lock()) session->Respond(number_, std::move(response));
  }

 private:
  const std::shared_ptr<ServerCore> core_;  // the session's strand lives in it
  const std::weak_ptr<Session> session_;
  const uint64_t number_;
  std::atomic<bool> answered_{false};
};

}  // namespace

Session::Session(boost::asio::ip::tcp::socket socket, ServerCore* core)
    : core_(core), stream_(std::move(socket)), response_timer_(stream_.get_executor()) {
  core_->Opened(this);
}

Session::~Session() { core_->Closed(this); }

void Session::Start() {
  boost::asio::post(stream_.get_executor(), [self = shared_from_this()] {
    if (self->core_->stopping()) return;
    Error ignored;
    self->stream_.socket().set_option(boost::asio::ip::tcp::no_delay(true), ignored);
    self->WaitForRequest();
  });
}

void Session::Close(bool unless_handling) {
  boost::asio::post(stream_.get_executor(), [weak = weak_from_this(), unless_handling] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->closing_ = true;
    if (unless_handling && !self->waiting_) return;
    self->answered_ = true;
    self->response_timer_.cancel();
    self->stream_.close();
  });
}

// ---------------------------------------------------------------- reading

void Session::WaitForRequest() {
  waiting_ = true;
  if (closing_) return;
  if (buffer_.size() > 0) return ReadRequest();  // pipelined
  stream_.expires_after(ToChrono(core_->options().idle_deadline));
  stream_.async_read_some(buffer_.prepare(kFirstRead), [self = shared_from_this()](Error error, size_t bytes) {
    if (error) return;
    self->buffer_.commit(bytes);
    self->ReadRequest();
  });
}

void Session::ReadRequest() {
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(core_->options().max_head_bytes));
  parser_->body_limit(core_->options().max_body_bytes);
  // One deadline for the whole of it, however slowly the bytes come.
  stream_.expires_after(ToChrono(core_->options().receive_deadline));
  beast::http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](Error error, size_t) {
    if (!error) return self->Handle();
    if (error == beast::http::error::header_limit) return self->Refuse(431, "request line and headers are too large");
    if (error == beast::http::error::body_limit) return self->Refuse(413, "the body is too large");
    if (error == beast::http::error::end_of_stream || error == beast::http::error::partial_message) return;
    if (error == beast::error::timeout) return;  // the stream is closed by then
    if (error.category() == beast::http::make_error_code(beast::http::error::bad_method).category()) {
      self->Refuse(400, StrCat("not an HTTP/1.1 request: ", error.message()));
    }
  });
}

void Session::Handle() {
  waiting_ = false;
  keep_alive_ = parser_->get().keep_alive();
  Request request;
  {
    auto message = parser_->release();
    request.method = std::string(message.method_string());
    head_only_ = request.method == "HEAD";
    const std::string_view target(message.target().data(), message.target().size());
    if (const absl::Status parsed = ParseTarget(target, &request); !parsed.ok()) {
      return Refuse(400, std::string(parsed.message()));
    }
    for (const auto& field : message) {
      request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    }
    request.body = std::move(message.body());
  }
  Error ignored;
  const auto remote = stream_.socket().remote_endpoint(ignored);
  if (!ignored) request.remote_address = remote.address().to_string();
  parser_.reset();
  stream_.expires_never();

  ++exchange_;
  answered_ = false;
  response_timer_.expires_after(ToChrono(core_->options().response_deadline));
  response_timer_.async_wait([self = shared_from_this(), number = exchange_](Error error) {
    if (error) return;
    self->closing_ = true;
    self->Answer(number, {504,
                          "application/json",
                          ErrorBody("DEADLINE_EXCEEDED", "no answer in time; ask again, or look at /readyz"),
                          {}});
  });
  const Responder respond = MakeResponder();
  try {
    core_->handler()(std::move(request), respond);
  } catch (const std::exception& error) {
    LogError("HTTP handler threw", {{"what", std::string(error.what())}});
    respond({500, "application/json", ErrorBody("INTERNAL", "the request could not be handled; see the log"), {}});
  } catch (...) {
    LogError("HTTP handler threw", {{"what", "not a std::exception"}});
    respond({500, "application/json", ErrorBody("INTERNAL", "the request could not be handled; see the log"), {}});
  }
}

Responder Session::MakeResponder() {
  auto exchange = std::make_shared<Exchange>(weak_from_this(), core_->weak().lock(), exchange_);
  return [exchange](Response response) { exchange->Answer(std::move(response)); };
}

// ---------------------------------------------------------------- answering

void Session::Respond(uint64_t exchange, Response response) {
  // The queued call must not keep the session alive: the threads that would run it may have ended.
  boost::asio::post(stream_.get_executor(),
                    [weak = weak_from_this(), exchange, response = std::move(response)]() mutable {
                      if (const auto self = weak.lock()) self->Answer(exchange, std::move(response));
                    });
}

void Session::Answer(uint64_t exchange, Response response) {
  if (answered_ || exchange != exchange_) return;
  answered_ = true;
  response_timer_.cancel();
  Send(std::move(response));
}

void Session::Refuse(int status, const std::string& message) {
  waiting_ = false;
  closing_ = true;
  head_only_ = false;
  Send({status, "application/json", ErrorBody("INVALID_ARGUMENT", message), {}});
}

void Session::Send(Response response) {
  const bool keep_alive = keep_alive_ && !closing_;
  stream_.expires_after(ToChrono(core_->options().response_deadline));
  const auto sent = [self = shared_from_this(), keep_alive](Error error) {
    if (error) return;
    keep_alive ? self->WaitForRequest() : self->Linger(0);
  };
  if (head_only_) {
    auto message = std::make_shared<beast::http::response<beast::http::empty_body>>();
    SetFields(response, keep_alive, message.get());
    auto serializer = std::make_shared<beast::http::response_serializer<beast::http::empty_body>>(*message);
    beast::http::async_write_header(stream_, *serializer,
                                    [message, serializer, sent](Error error, size_t) { sent(error); });
    return;
  }
  auto message = std::make_shared<beast::http::response<beast::http::string_body>>();
  SetFields(response, keep_alive, message.get());
  message->body() = std::move(response.body);
  beast::http::async_write(stream_, *message, [message, sent](Error error, size_t) { sent(error); });
}

void Session::Linger(size_t drained) {
  if (drained == 0) {
    Error ignored;
    stream_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
    stream_.expires_after(kLingerTime);
  }
  waiting_ = true;
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(kFirstRead), [self = shared_from_this(), drained](Error error, size_t bytes) {
    if (error || drained + bytes > kLingerBytes) return;  // destroyed, and with it the connection
    self->Linger(drained + bytes);
  });
}

}  // namespace millstream::http
