#ifndef MILLSTREAM_COMMON_HTTP_SESSION_H_
#define MILLSTREAM_COMMON_HTTP_SESSION_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "boost/asio/steady_timer.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/core/tcp_stream.hpp"
#include "boost/beast/http/parser.hpp"
#include "boost/beast/http/string_body.hpp"
#include "common/http/server.h"

// Internal to common/http.
namespace millstream::http {

class ServerCore;

// One connection: reads a request, has it handled, sends the response, and again. All of its functions run on its
// strand, unless they say otherwise. What is under way keeps it alive.
class Session : public std::enable_shared_from_this<Session> {
 public:
  // `core` outlives it.
  Session(boost::asio::ip::tcp::socket socket, ServerCore* core);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Start();
  // Thread-safe. Closes the connection; with `unless_handling`, one whose request is being handled closes behind the
  // response.
  void Close(bool unless_handling);
  // Thread-safe. No request is complete; such a connection may be dropped for another.
  bool waiting() const { return waiting_.load(std::memory_order_relaxed); }
  // Thread-safe. Sends the response of the request with that number, unless it has been answered.
  void Respond(uint64_t exchange, Response response);

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void WaitForRequest();
  void ReadRequest();
  void Handle();
  void Answer(uint64_t exchange, Response response);
  void Refuse(int status, const std::string& message);
  void Send(Response response);
  // Lets the other side read what was sent before the connection goes: bounded in bytes and time.
  void Linger(size_t drained);
  Responder MakeResponder();

  ServerCore* const core_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  boost::asio::steady_timer response_timer_;
  std::optional<Parser> parser_;
  std::atomic<bool> waiting_{true};
  bool closing_ = false;     // after the next response
  bool keep_alive_ = false;  // as the request asks
  bool head_only_ = false;
  uint64_t exchange_ = 0;  // number of the request on this connection
  bool answered_ = true;
};

}  // namespace millstream::http

#endif  // MILLSTREAM_COMMON_HTTP_SESSION_H_
