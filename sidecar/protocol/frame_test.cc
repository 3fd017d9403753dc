#include "sidecar/protocol/frame.h"

#include <algorithm>
#include <functional>
#include <random>

#include "common/base/bytes.h"
#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::protocol {
namespace {

using ::testing::HasSubstr;

std::string FrameOf(std::string_view payload) {
  std::string frame;
  AppendBigEndian32(static_cast<uint32_t>(payload.size()), &frame);
  frame.append(payload);
  return frame;
}

// Feeds `bytes` in pieces of the given sizes and gives every payload.
std::vector<std::string> Split(FrameReader& reader, std::string_view bytes, const std::function<size_t()>& next_size) {
  std::vector<std::string> payloads;
  while (!bytes.empty()) {
    const std::span<char> space = reader.Space();
    EXPECT_FALSE(space.empty());
    const size_t count = std::min({bytes.size(), space.size(), std::max<size_t>(next_size(), 1)});
    std::copy_n(bytes.begin(), count, space.begin());
    reader.Filled(count);
    bytes.remove_prefix(count);
    while (true) {
      auto frame = reader.Next();
      EXPECT_TRUE(frame.ok()) << frame.status();
      if (!frame.ok() || !frame->has_value()) break;
      payloads.emplace_back((*frame)->payload);
    }
  }
  return payloads;
}

TEST(FrameReaderTest, SplitsWhateverThePieces) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::string> sent;
    std::string stream;
    for (int i = 0; i < 40; ++i) {
      const size_t size = random() % 10 == 0 ? random() % 300'000 : 1 + random() % 2000;
      sent.emplace_back(std::max<size_t>(size, 1), static_cast<char>(random()));
      stream += FrameOf(sent.back());
    }
    FrameReader reader(1 << 20);
    const size_t most = round % 3 == 0 ? 7 : round % 3 == 1 ? 5000 : 1'000'000;
    EXPECT_EQ(Split(reader, stream, [&] { return random() % most; }), sent);
    EXPECT_FALSE(reader.InsideFrame());
  }
}

TEST(FrameReaderTest, FramesStayValidWhileTheirBufferIsKept) {
  FrameReader reader(1 << 20);
  std::vector<Frame> kept;
  std::vector<std::string> sent;
  for (int i = 0; i < 200; ++i) {
    sent.push_back(std::string(1 + i * 37 % 5000, static_cast<char>('a' + i % 26)));
    const std::string bytes = FrameOf(sent.back());
    std::string_view rest = bytes;
    while (!rest.empty()) {
      const std::span<char> space = reader.Space();
      const size_t count = std::min(rest.size(), space.size());
      std::copy_n(rest.begin(), count, space.begin());
      reader.Filled(count);
      rest.remove_prefix(count);
      auto frame = reader.Next();
      ASSERT_TRUE(frame.ok());
      if (frame->has_value()) kept.push_back(**frame);
    }
  }
  ASSERT_EQ(kept.size(), sent.size());
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i].payload, sent[i]);
}

TEST(FrameReaderTest, ABlockIsNotReadTwiceForOneByte) {
  // A frame as large as a block, a byte at a time: each byte must not move the rest.
  FrameReader reader(1 << 20);
  const std::string stream = FrameOf(std::string((64 << 10) - 4, 'x')) + FrameOf("y");
  EXPECT_EQ(Split(reader, stream, [] { return size_t{1}; }).size(), 2u);
}

TEST(FrameReaderTest, LargeFramesAreReadIntoTheirOwnMemory) {
  FrameReader reader(32 << 20);
  const std::string payload(20 << 20, 'x');
  const std::string stream = FrameOf(payload);
  const std::span<char> space = reader.Space();
  std::copy_n(stream.begin(), 100, space.begin());
  reader.Filled(100);
  ASSERT_TRUE(reader.Next().ok());
  // All the rest fits, without further copies.
  EXPECT_EQ(reader.Space().size(), stream.size() - 100);
}

TEST(FrameReaderTest, LengthBeyondTheCapIsRefusedBeforeAllocation) {
  FrameReader reader(1000);
  const std::span<char> space = reader.Space();
  const std::string header = std::string("\x80\x00\x00\x00", 4);
  std::copy(header.begin(), header.end(), space.begin());
  reader.Filled(4);
  auto frame = reader.Next();
  EXPECT_TRUE(absl::IsResourceExhausted(frame.status()));
  EXPECT_THAT(std::string(frame.status().message()), HasSubstr("2147483648"));
  EXPECT_FALSE(reader.Next().ok()) << "the stream stays lost";
}

TEST(FrameReaderTest, TheCapItself) {
  for (const size_t size : {size_t{999}, size_t{1000}, size_t{1001}}) {
    FrameReader reader(1000);
    const std::string stream = FrameOf(std::string(size, 'x'));
    const std::span<char> space = reader.Space();
    std::copy(stream.begin(), stream.end(), space.begin());
    reader.Filled(stream.size());
    EXPECT_EQ(reader.Next().ok(), size <= 1000) << size;
  }
}

TEST(FrameReaderTest, LengthZeroIsRefused) {
  FrameReader reader(1000);
  const std::span<char> space = reader.Space();
  std::fill_n(space.begin(), 4, '\0');
  reader.Filled(4);
  EXPECT_TRUE(absl::IsInvalidArgument(reader.Next().status()));
}

TEST(FrameReaderTest, KnowsThatItIsInsideAFrame) {
  FrameReader reader(1000);
  const std::string stream = FrameOf("abc");
  const std::span<char> space = reader.Space();
  std::copy_n(stream.begin(), 6, space.begin());
  reader.Filled(6);
  ASSERT_TRUE(reader.Next().ok());
  EXPECT_TRUE(reader.InsideFrame());
  EXPECT_EQ(reader.partial_bytes(), 6u);
}

}  // namespace
}  // namespace millstream::protocol
