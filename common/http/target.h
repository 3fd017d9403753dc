#ifndef MILLSTREAM_COMMON_HTTP_TARGET_H_
#define MILLSTREAM_COMMON_HTTP_TARGET_H_

#include <string_view>

#include "absl/status/status.h"
#include "common/http/message.h"

namespace millstream::http {

// Takes a request target ("/a/b%2Fc?x=1") apart into path, segments and query of `request`. INVALID_ARGUMENT says what
// is wrong with it. Internal to common/http.
absl::Status ParseTarget(std::string_view target, Request* request);

}  // namespace millstream::http

#endif  // MILLSTREAM_COMMON_HTTP_TARGET_H_
