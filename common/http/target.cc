#include "common/http/target.h"

#include <string>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::http {
namespace {

// Calls `take` with each part of `text` between separators.
template <typename Take>
absl::Status ForEachPart(std::string_view text, char separator, const Take& take) {
  while (true) {
    const size_t end = text.find(separator);
    MS_RETURN_IF_ERROR(take(text.substr(0, end)));
    if (end == std::string_view::npos) return absl::OkStatus();
    text.remove_prefix(end + 1);
  }
}

absl::Status TakeParameter(std::string_view part, Request* request) {
  if (part.empty()) return absl::OkStatus();
  const size_t equals = part.find('=');
  MS_ASSIGN_OR_RETURN(std::string name, PercentDecode(part.substr(0, equals)));
  std::string value;
  if (equals != std::string_view::npos) {
    MS_ASSIGN_OR_RETURN(value, PercentDecode(part.substr(equals + 1)));
  }
  request->query.emplace_back(std::move(name), std::move(value));
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseTarget(std::string_view target, Request* request) {
  if (target.empty() || target.front() != '/')
    return absl::InvalidArgumentError("the request target has to begin with '/'");
  const size_t question = target.find('?');
  const std::string_view path = target.substr(0, question);
  request->path = std::string(path);
  const absl::Status segments = ForEachPart(path.substr(1), '/', [&](std::string_view part) -> absl::Status {
    MS_ASSIGN_OR_RETURN(std::string segment, PercentDecode(part));
    request->segments.push_back(std::move(segment));
    return absl::OkStatus();
  });
  if (!segments.ok()) return Annotate(segments, "path");
  if (question == std::string_view::npos) return absl::OkStatus();
  const absl::Status query = ForEachPart(target.substr(question + 1), '&',
                                         [&](std::string_view part) { return TakeParameter(part, request); });
  return query.ok() ? query : Annotate(query, "query");
}

}  // namespace millstream::http
