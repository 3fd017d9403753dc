#ifndef MILLSTREAM_OPERATOR_KUBE_WATCH_DECODER_H_
#define MILLSTREAM_OPERATOR_KUBE_WATCH_DECODER_H_

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "operator/kube/json.h"

namespace millstream::kube {

struct WatchEvent {
  enum class Type { kAdded, kModified, kDeleted, kBookmark };
  Type type = Type::kAdded;
  Json object;                   // kBookmark: of the kind, with nothing but a resource version
  std::string resource_version;  // never empty
};

// The body of a watch: one JSON object per line, {"type": ..., "object": ...}, cut anywhere, in the middle of a
// character too (Kubernetes API concepts, "Efficient detection of changes"). Not thread-safe.
class WatchDecoder {
 public:
  // An object is at most 1.5 MiB in etcd; the rest is room for how JSON writes it and for managedFields.
  static constexpr size_t kMaxLineBytes = 8 << 20;

  using Sink = std::function<absl::Status(WatchEvent event)>;
  explicit WatchDecoder(Sink sink, size_t max_line_bytes = kMaxLineBytes)
      : sink_(std::move(sink)), max_line_bytes_(max_line_bytes) {}

  // Gives every event that is complete to the sink. An ERROR event is an error with an ApiError in it (api_error.h;
  // OUT_OF_RANGE: list again). DATA_LOSS: no JSON, no event, or a line beyond the bound: the stream is of no use any
  // more. An event of an unknown type is left out, its resource version too: it will come again with the next list.
  // Errors of the sink pass through. After an error the decoder takes nothing more and returns the same error.
  absl::Status Feed(std::string_view piece);
  // The stream has ended. DATA_LOSS: in the middle of an event.
  absl::Status Finish();

 private:
  absl::Status TakeLine(std::string_view line);

  const Sink sink_;
  const size_t max_line_bytes_;
  std::string partial_;  // a line whose end has not come
  absl::Status failed_;
};

}  // namespace millstream::kube

#endif  // MILLSTREAM_OPERATOR_KUBE_WATCH_DECODER_H_
