#ifndef MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_JSON_H_
#define MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/http/message.h"
#include "sidecar/server/http_endpoints_query.h"
#include "sidecar/server/http_endpoints_windows.h"
#include "sidecar/server/query_backend.h"

// Internal to the HTTP endpoints: answers as JSON. Values that are JSON are passed on byte by byte.
namespace millstream::server {

http::Response TasksResponse(const ProcessorReport& report);
http::Response StoresResponse(const std::vector<std::string>& stores);
// 200, or 404 if there is no such key: with position and owner all the same.
http::Response KeyResponse(const std::string& store, const KeyQuery& query, const KeyAnswer& answer, int64_t now_ms);
// `windowed`: as QueryBackend::Windowed says.
http::Response RangeResponse(const std::string& store, const spec::StoreSpec* windowed, const RangeQuery& query,
                             const MergedPage& page, int64_t now_ms);
// The windows of one key: 200, or 404 if there are none.
http::Response WindowsResponse(const std::string& store, const KeyQuery& query, const KeyWindows& windows,
                               int64_t now_ms);
// {"error": {"code": "NOT_FOUND", "message": ..., "hint": ...}}; the HTTP status follows from the code.
http::Response ErrorResponse(const absl::Status& status, const std::string& hint = "");

}  // namespace millstream::server

#endif  // MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_JSON_H_
