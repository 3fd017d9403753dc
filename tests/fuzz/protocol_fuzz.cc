#include "tests/fuzz/protocol_fuzz.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/frame.h"

namespace millstream {
namespace {

// Inputs are at most some 100 KiB; larger lengths are there to be refused.
constexpr uint32_t kCap = 1u << 20;

template <typename Decode>
void CheckPayload(std::string_view payload, Decode decode) {
  // A copy of exactly that size: reading a byte too many is found.
  const std::vector<char> exact(payload.begin(), payload.end());
  const auto message = decode(std::string_view(exact.data(), exact.size()));
  if (!message.ok()) {
    MS_CHECK(!message.status().message().empty());
    return;
  }
  std::string once;
  std::visit([&](const auto& m) { protocol::Encode(m, &once); }, *message);
  const auto again = decode(std::string_view(once).substr(protocol::kFrameHeaderBytes));
  MS_CHECK_OK(again);
  std::string twice;
  std::visit([&](const auto& m) { protocol::Encode(m, &twice); }, *again);
  MS_CHECK(once == twice);
}

}  // namespace

void FuzzProtocol(std::string_view input) {
  if (input.empty()) return;
  const size_t piece = 1 + static_cast<unsigned char>(input[0]) * 16u;
  input.remove_prefix(1);
  protocol::FrameReader reader(kCap);
  while (true) {
    auto frame = reader.Next();
    if (!frame.ok()) return;
    if (frame->has_value()) {
      protocol::PeekHead((*frame)->payload);
      CheckPayload((*frame)->payload, protocol::DecodeWorkerMessage);
      CheckPayload((*frame)->payload, protocol::DecodeSidecarMessage);
      continue;
    }
    if (input.empty()) return;
    const std::span<char> space = reader.Space();
    MS_CHECK(!space.empty());
    const size_t count = std::min({piece, space.size(), input.size()});
    std::copy_n(input.begin(), count, space.begin());
    reader.Filled(count);
    input.remove_prefix(count);
  }
}

}  // namespace millstream
