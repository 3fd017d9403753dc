#include "tests/fuzz/watch_fuzz.h"

#include <string>

#include "common/base/status.h"
#include "operator/kube/resource.h"
#include "operator/kube/watch_decoder.h"

namespace millstream {
namespace {

// Small, so that inputs reach it.
constexpr size_t kMaxLineBytes = 4096;

struct Outcome {
  std::string events;  // one after the other
  absl::Status end;
};

Outcome Decode(std::string_view body, size_t piece_bytes) {
  Outcome outcome;
  kube::WatchDecoder decoder(
      [&outcome](kube::WatchEvent event) {
        MS_CHECK(!event.resource_version.empty());
        const std::string name = kube::KeyOf(event.object).name;
        MS_CHECK(event.type == kube::WatchEvent::Type::kBookmark || !name.empty());
        outcome.events += event.object.dump(-1, ' ', false, kube::Json::error_handler_t::replace);
        outcome.events += '\n';
        return absl::OkStatus();
      },
      kMaxLineBytes);
  while (!body.empty() && outcome.end.ok()) {
    const std::string_view piece = body.substr(0, piece_bytes);
    body.remove_prefix(piece.size());
    outcome.end = decoder.Feed(piece);
  }
  const absl::Status finished = decoder.Finish();
  MS_CHECK(outcome.end.ok() || finished == outcome.end);
  outcome.end = finished;
  return outcome;
}

}  // namespace

void FuzzWatch(std::string_view input) {
  if (input.empty()) return;
  const size_t piece_bytes = 1 + static_cast<unsigned char>(input.front());
  input.remove_prefix(1);
  const Outcome whole = Decode(input, input.size() + 1);
  const Outcome pieces = Decode(input, piece_bytes);
  MS_CHECK(whole.events == pieces.events);
  MS_CHECK(whole.end == pieces.end);
}

}  // namespace millstream
