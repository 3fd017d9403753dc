// Every file of tests/conformance/frames, both ways: the frame decodes to its description, and the description's
// message encodes to the frame, byte by byte. The frames were made by another MessagePack library.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/frame.h"
#include "sidecar/protocol/message_json.h"

namespace millstream::protocol {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

struct GoldenFrame {
  std::string name;
  Json content;
  std::string bytes;  // with the length
};

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<GoldenFrame> AllFrames() {
  std::vector<GoldenFrame> frames;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("tests/conformance/frames")) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    GoldenFrame frame{entry.path().stem(), Json::parse(file), ""};
    frame.bytes = FromHex(frame.content["frame"]);
    frames.push_back(std::move(frame));
  }
  std::sort(frames.begin(), frames.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return frames;
}

// The payload, by way of the splitter.
absl::StatusOr<std::string> PayloadOf(const std::string& bytes) {
  FrameReader reader(kDefaultFrameCap);
  const std::span<char> space = reader.Space();
  std::copy(bytes.begin(), bytes.end(), space.begin());
  reader.Filled(bytes.size());
  auto frame = reader.Next();
  if (!frame.ok()) return frame.status();
  if (!frame->has_value() || reader.InsideFrame()) return absl::InternalError("not exactly one frame");
  return std::string((*frame)->payload);
}

template <typename Message>
void ExpectGolden(const GoldenFrame& golden, const absl::StatusOr<Message>& message) {
  ASSERT_EQ(message.status(), absl::OkStatus());
  EXPECT_EQ(ToJson(*message), golden.content["message"].dump(1));
  if (!golden.content["canonical"].get<bool>()) return;
  std::string encoded;
  std::visit([&](const auto& m) { Encode(m, &encoded); }, *message);
  EXPECT_EQ(encoded, golden.bytes);
}

template <typename Message>
void ExpectRefused(const GoldenFrame& golden, const absl::StatusOr<Message>& message) {
  ASSERT_FALSE(message.ok());
  EXPECT_THAT(std::string(message.status().message()), HasSubstr(golden.content["refused"].get<std::string>()));
}

TEST(GoldenFramesTest, EveryKindIsThere) {
  std::set<std::string> kinds;
  for (const GoldenFrame& golden : AllFrames()) {
    if (golden.content.contains("message")) kinds.insert(golden.content["message"]["kind"]);
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<WorkerMessage> + std::variant_size_v<SidecarMessage> - 4)
      << "PING, PONG, ERROR, GOODBYE go both ways";
}

TEST(GoldenFramesTest, BothWays) {
  for (const GoldenFrame& golden : AllFrames()) {
    SCOPED_TRACE(golden.name);
    const std::string direction = golden.content["direction"];
    ASSERT_TRUE(direction == "W->S" || direction == "S->W" || direction == "both");
    const bool refused = golden.content.contains("refused");
    const auto payload = PayloadOf(golden.bytes);
    if (!payload.ok()) {
      ASSERT_TRUE(refused) << payload.status();
      EXPECT_THAT(std::string(payload.status().message()), HasSubstr(golden.content["refused"].get<std::string>()));
      continue;
    }
    if (direction != "S->W") {
      const auto message = DecodeWorkerMessage(*payload);
      refused ? ExpectRefused(golden, message) : ExpectGolden(golden, message);
    }
    if (direction != "W->S") {
      const auto message = DecodeSidecarMessage(*payload);
      refused ? ExpectRefused(golden, message) : ExpectGolden(golden, message);
    }
  }
}

// Frames cut at every byte are refused, and never read beyond their end (the sanitizers watch).
TEST(GoldenFramesTest, EveryPrefixIsRefused) {
  for (const GoldenFrame& golden : AllFrames()) {
    if (golden.content.contains("refused")) continue;
    SCOPED_TRACE(golden.name);
    for (size_t size = 0; size + kFrameHeaderBytes < golden.bytes.size(); ++size) {
      const std::vector<char> exact(golden.bytes.begin() + kFrameHeaderBytes,
                                    golden.bytes.begin() + static_cast<std::ptrdiff_t>(kFrameHeaderBytes + size));
      EXPECT_FALSE(DecodeWorkerMessage({exact.data(), exact.size()}).ok());
      EXPECT_FALSE(DecodeSidecarMessage({exact.data(), exact.size()}).ok());
    }
  }
}

}  // namespace
}  // namespace millstream::protocol
