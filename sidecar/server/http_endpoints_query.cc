#include "sidecar/server/http_endpoints_query.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::server {
namespace {

constexpr size_t kMaxLimit = 1000;  // rows of a page; the cursor leads on

absl::StatusOr<std::optional<TaskId>> ParseTask(const http::Request& request) {
  const auto text = request.Parameter("task");
  if (!text) return std::optional<TaskId>();
  int32_t task = 0;
  if (!absl::SimpleAtoi(*text, &task) || task < 0) {
    return absl::InvalidArgumentError(StrCat("task=", Readable(*text), " is not a task number; see /v1/tasks"));
  }
  return std::optional<TaskId>(TaskId(task));
}

absl::StatusOr<bool> ParseBool(const http::Request& request, std::string_view name) {
  const std::string text = request.Parameter(name).value_or("false");
  if (text == "true" || text.empty()) return true;
  if (text == "false") return false;
  return absl::InvalidArgumentError(StrCat(name, "=", Readable(text), " is neither true nor false"));
}

absl::StatusOr<std::optional<Bytes>> ParseBound(const http::Request& request, std::string_view name,
                                                ValueFormat format) {
  const auto text = request.Parameter(name);
  if (!text) return std::optional<Bytes>();
  MS_ASSIGN_OR_RETURN(Bytes bytes, ToBytes(format, name, *text));
  return std::optional<Bytes>(std::move(bytes));
}

// Narrows the range to the keys that start with `prefix`.
void ApplyPrefix(const Bytes& prefix, store::ScanRequest* range) {
  if (!range->from || *range->from < prefix) range->from = prefix;
  const std::optional<std::string> end = PrefixEnd(prefix);
  if (end && (!range->to || *end < *range->to)) range->to = *end;
}

}  // namespace

absl::Status CheckParameters(const http::Request& request, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : request.query) {
    if (std::find(known.begin(), known.end(), std::string_view(name)) != known.end()) continue;
    for (const std::string_view later : {"consistency", "read-through", "proxy"}) {
      if (name == later) return absl::InvalidArgumentError(StrCat("parameter '", name, "' is not supported yet"));
    }
    std::string list;
    for (const std::string_view one : known) StrAppend(&list, list.empty() ? "" : ", ", one);
    return absl::InvalidArgumentError(
        StrCat("parameter '", Readable(name), "' is not known here; known: ", list.empty() ? "none" : list));
  }
  return absl::OkStatus();
}

absl::StatusOr<KeyQuery> ParseKeyQuery(const http::Request& request, std::string_view key) {
  MS_RETURN_IF_ERROR(CheckParameters(request, {"key.format", "value.format", "task"}));
  KeyQuery query;
  MS_ASSIGN_OR_RETURN(const ValueFormat format, ParseValueFormat("key.format", request.Parameter("key.format"),
                                                                 ValueFormat::kUtf8, /*input=*/true));
  MS_ASSIGN_OR_RETURN(query.key, ToBytes(format, "key", key));
  MS_ASSIGN_OR_RETURN(query.value_format, ParseValueFormat("value.format", request.Parameter("value.format"),
                                                           ValueFormat::kAuto, /*input=*/false));
  MS_ASSIGN_OR_RETURN(query.task, ParseTask(request));
  return query;
}

absl::StatusOr<RangeQuery> ParseRangeQuery(const http::Request& request) {
  MS_RETURN_IF_ERROR(CheckParameters(
      request, {"from", "to", "prefix", "limit", "reverse", "cursor", "task", "key.format", "value.format"}));
  RangeQuery query;
  MS_ASSIGN_OR_RETURN(const ValueFormat input, ParseValueFormat("key.format", request.Parameter("key.format"),
                                                                ValueFormat::kUtf8, /*input=*/true));
  query.key_format = request.Parameter("key.format") ? input : ValueFormat::kAuto;
  MS_ASSIGN_OR_RETURN(query.value_format, ParseValueFormat("value.format", request.Parameter("value.format"),
                                                           ValueFormat::kAuto, /*input=*/false));
  MS_ASSIGN_OR_RETURN(query.range.from, ParseBound(request, "from", input));
  MS_ASSIGN_OR_RETURN(query.range.to, ParseBound(request, "to", input));
  MS_ASSIGN_OR_RETURN(const std::optional<Bytes> prefix, ParseBound(request, "prefix", input));
  if (prefix) ApplyPrefix(*prefix, &query.range);
  MS_ASSIGN_OR_RETURN(query.range.reverse, ParseBool(request, "reverse"));
  MS_ASSIGN_OR_RETURN(query.task, ParseTask(request));
  if (const auto cursor = request.Parameter("cursor"); cursor && !cursor->empty()) {
    MS_ASSIGN_OR_RETURN(query.cursor, DecodeCursor(*cursor));
  }
  if (const auto limit = request.Parameter("limit")) {
    uint64_t rows = 0;
    if (!absl::SimpleAtoi(*limit, &rows) || rows == 0 || rows > kMaxLimit) {
      return absl::InvalidArgumentError(StrCat("limit=", Readable(*limit), " is not a number from 1 to ", kMaxLimit,
                                               "; a longer range comes in pages, by cursor"));
    }
    query.limit = rows;
  }
  return query;
}

}  // namespace millstream::server
