#ifndef MILLSTREAM_COMMON_HTTP_MESSAGE_H_
#define MILLSTREAM_COMMON_HTTP_MESSAGE_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace millstream::http {

// Names and values in order; names compare without case.
using Fields = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method;                 // "GET", upper case
  std::string path;                   // as sent, percent-encoded, without the query
  std::vector<std::string> segments;  // of the path, each decoded to bytes: "/a/b%2Fc" -> {"a", "b/c"}
  Fields query;                       // decoded to bytes, in order; "+" is a plus sign
  Fields headers;
  std::string body;
  std::string remote_address;

  // The first parameter of that name; nullopt if there is none.
  std::optional<std::string> Parameter(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Fields headers;  // beyond Content-Type and Content-Length
};

// Undoes %XX, zero bytes included. INVALID_ARGUMENT names the place of a broken escape.
absl::StatusOr<std::string> PercentDecode(std::string_view text);
// Everything but letters, digits and -._~ becomes %XX: safe as a path segment and as a query value.
std::string PercentEncode(std::string_view bytes);

}  // namespace millstream::http

#endif  // MILLSTREAM_COMMON_HTTP_MESSAGE_H_
