#include "cli/access/wire.h"

#include <sys/socket.h>

#include <filesystem>
#include <random>
#include <thread>

#include "gtest/gtest.h"

namespace millstream::cli::wire {
namespace {

std::vector<log::OutgoingRecord> SomeRecords() {
  return {{.to = {"t", Partition(3)},
           .timestamp_ms = -5,
           .key = "k",
           .value = std::nullopt,
           .headers = {{"h", "v"}, {"h", std::nullopt}}},
          {.to = {"t", Partition(0)},
           .timestamp_ms = int64_t{1} << 60,
           .key = std::nullopt,
           .value = std::string("\0\xff", 2),
           .headers = {}},
          {.to = {"u", Partition(1)}, .timestamp_ms = 0, .key = "", .value = "", .headers = {}}};
}

TEST(WireTest, RecordsComeOutAsTheyWentIn) {
  const std::vector<log::OutgoingRecord> records = SomeRecords();
  const auto decoded = DecodeRecords(EncodeRecords(records));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->size(), records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ((*decoded)[i].to, records[i].to);
    EXPECT_EQ((*decoded)[i].timestamp_ms, records[i].timestamp_ms);
    EXPECT_EQ((*decoded)[i].key, records[i].key);
    EXPECT_EQ((*decoded)[i].value, records[i].value);
    EXPECT_EQ((*decoded)[i].headers, records[i].headers);
  }
}

TEST(WireTest, ChunksComeOutAsTheyWentIn) {
  ConsumedChunk chunk;
  chunk.at_end = true;
  chunk.positions = {{Partition(0), Offset(5)}, {Partition(7), Offset(0)}};
  chunk.records.push_back(
      {Partition(7), {.offset = Offset(4), .timestamp_ms = 9, .key = "k", .value = "v", .headers = {{"a", "b"}}}});
  const auto decoded = DecodeChunk(EncodeChunk(chunk));
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(decoded->at_end);
  EXPECT_EQ(decoded->positions, chunk.positions);
  ASSERT_EQ(decoded->records.size(), 1u);
  EXPECT_EQ(decoded->records[0].record.offset, Offset(4));
  EXPECT_EQ(decoded->records[0].record.headers, chunk.records[0].record.headers);
}

TEST(WireTest, DamagedPayloadsAreErrorsAndNothingElse) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::string whole = EncodeRecords(SomeRecords());
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(DecodeRecords(whole.substr(0, length)).ok()) << length;
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = whole;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    (void)DecodeRecords(damaged);
    (void)DecodeChunk(damaged);
  }
  // A count that claims more than there is must not be believed.
  EXPECT_FALSE(DecodeRecords(std::string("\xff\xff\xff\xff", 4)).ok());
}

TEST(WireTest, FramesCrossASocketAndItsEndIsUnavailable) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Connection right(ends[1]);
  const std::string big(5 << 20, 'x');
  {
    Connection left(ends[0]);
    std::thread writer([&] {
      EXPECT_TRUE(left.Send(FrameKind::kProduce, big).ok());
      EXPECT_TRUE(left.Send(FrameKind::kFlush, "").ok());
    });
    const auto frame = right.Receive();
    ASSERT_TRUE(frame.ok());
    EXPECT_EQ(frame->kind, FrameKind::kProduce);
    EXPECT_EQ(frame->payload, big);
    EXPECT_EQ(right.Receive()->kind, FrameKind::kFlush);
    writer.join();
  }
  EXPECT_TRUE(absl::IsUnavailable(right.Receive().status()));
  EXPECT_TRUE(absl::IsUnavailable(right.Send(FrameKind::kFlush, "")));
}

TEST(WireTest, TheSocketOfAFolderWithALongPath) {
  std::string pattern = testing::TempDir() + "/wire-XXXXXX";
  const std::string root = mkdtemp(pattern.data());
  const std::string folder = root + "/" + std::string(120, 'd') + "/" + std::string(120, 'e');
  std::filesystem::create_directories(folder);
  EXPECT_TRUE(absl::IsNotFound(ConnectControlSocket(folder).status()));
  const auto listener = ListenControlSocket(folder);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const auto client = ConnectControlSocket(folder);
  ASSERT_TRUE(client.ok()) << client.status();
  Connection closes_client(*client), closes_listener(*listener);
  // A stale socket is replaced.
  const auto again = ListenControlSocket(folder);
  ASSERT_TRUE(again.ok()) << again.status();
  Connection closes_again(*again);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace millstream::cli::wire
