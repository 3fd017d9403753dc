#include "operator/kube/watch_decoder.h"

#include "absl/strings/ascii.h"
#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "operator/kube/api_error.h"
#include "operator/kube/resource.h"

namespace millstream::kube {
namespace {

constexpr size_t kShown = 120;

absl::Status NoEvent(std::string_view line, std::string_view why) {
  return absl::DataLossError(StrCat("watch: ", why, ": ", Readable(line, kShown)));
}

}  // namespace

absl::Status WatchDecoder::Feed(std::string_view piece) {
  while (failed_.ok() && !piece.empty()) {
    const size_t end = piece.find('\n');
    const std::string_view part = piece.substr(0, end);
    if (partial_.size() + part.size() > max_line_bytes_) {
      failed_ = absl::DataLossError(StrCat("watch: an event is larger than ", max_line_bytes_, " bytes"));
    } else if (end == std::string_view::npos) {
      partial_.append(part);
      return absl::OkStatus();
    } else if (partial_.empty()) {
      failed_ = TakeLine(part);
    } else {
      partial_.append(part);
      failed_ = TakeLine(partial_);
      partial_.clear();
      if (partial_.capacity() > (64 << 10)) partial_.shrink_to_fit();
    }
    if (end != std::string_view::npos) piece.remove_prefix(end + 1);
  }
  return failed_;
}

absl::Status WatchDecoder::Finish() {
  if (!failed_.ok()) return failed_;
  if (!absl::StripAsciiWhitespace(partial_).empty()) failed_ = NoEvent(partial_, "the stream ends within an event");
  return failed_;
}

absl::Status WatchDecoder::TakeLine(std::string_view line) {
  if (absl::StripAsciiWhitespace(ToAbsl(line)).empty()) return absl::OkStatus();
  absl::StatusOr<Json> parsed = ParseJson(line, "event");
  if (!parsed.ok()) return NoEvent(line, "not JSON");
  const std::string type = TextAt(*parsed, {"type"});
  if (type.empty() || Find(*parsed, {"object"}) == nullptr) return NoEvent(line, "no event");
  WatchEvent event;
  event.object = std::move((*parsed)["object"]);
  if (type == "ERROR") {
    return ToStatus(ReadApiError(0, event.object.dump(-1, ' ', false, Json::error_handler_t::replace), ""), "watch");
  }
  if (type == "ADDED") {
    event.type = WatchEvent::Type::kAdded;
  } else if (type == "MODIFIED") {
    event.type = WatchEvent::Type::kModified;
  } else if (type == "DELETED") {
    event.type = WatchEvent::Type::kDeleted;
  } else if (type == "BOOKMARK") {
    event.type = WatchEvent::Type::kBookmark;
  } else {
    return absl::OkStatus();
  }
  event.resource_version = ResourceVersionOf(event.object);
  if (event.resource_version.empty()) return NoEvent(line, "an event without a resource version");
  if (event.type != WatchEvent::Type::kBookmark && KeyOf(event.object).name.empty()) {
    return NoEvent(line, "an object without a name");
  }
  return sink_(std::move(event));
}

}  // namespace millstream::kube
