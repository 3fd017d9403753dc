#include "common/http/response_head.h"

#include "absl/strings/match.h"

namespace millstream::http {

Response HeadOf(const web::http::http_response& from) {
  Response response;
  response.status = from.status_code();
  response.content_type = "";
  for (const auto& [name, value] : from.headers()) {
    if (absl::EqualsIgnoreCase(name, web::http::header_names::content_type)) {
      response.content_type = value;
    } else {
      response.headers.emplace_back(name, value);
    }
  }
  return response;
}

}  // namespace millstream::http
