#ifndef MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_QUERY_H_
#define MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_QUERY_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/bytes.h"
#include "common/http/message.h"
#include "sidecar/server/http_endpoints_scan.h"
#include "sidecar/server/http_endpoints_values.h"

// Internal to the HTTP endpoints: what a request asks for, checked, without asking the backend.
namespace millstream::server {

struct KeyQuery {
  Bytes key;
  std::optional<TaskId> task;
  ValueFormat value_format = ValueFormat::kAuto;
};
absl::StatusOr<KeyQuery> ParseKeyQuery(const http::Request& request, std::string_view key);

struct RangeQuery {
  store::ScanRequest range;
  std::optional<MergedScan::Cursor> cursor;
  std::optional<TaskId> task;
  size_t limit = 100;
  ValueFormat key_format = ValueFormat::kAuto;
  ValueFormat value_format = ValueFormat::kAuto;
};
absl::StatusOr<RangeQuery> ParseRangeQuery(const http::Request& request);

// INVALID_ARGUMENT for a parameter that is not in `known`, naming them.
absl::Status CheckParameters(const http::Request& request, std::initializer_list<std::string_view> known);

}  // namespace millstream::server

#endif  // MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_QUERY_H_
