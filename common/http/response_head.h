#ifndef MILLSTREAM_COMMON_HTTP_RESPONSE_HEAD_H_
#define MILLSTREAM_COMMON_HTTP_RESPONSE_HEAD_H_

#include "common/http/message.h"
#include "cpprest/http_msg.h"

// Of this folder only: it names a type of the library.
namespace millstream::http {

// Status, content type and the other headers; the body stays where it is.
Response HeadOf(const web::http::http_response& from);

}  // namespace millstream::http

#endif  // MILLSTREAM_COMMON_HTTP_RESPONSE_HEAD_H_
