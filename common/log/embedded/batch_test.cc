#include "common/log/embedded/batch.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "common/base/strings.h"
#include "common/log/embedded/crc32c.h"

namespace millstream::log::embedded {
namespace {

std::string Encode(const BatchBuilder& builder) {
  char header[kBatchHeaderBytes];
  EncodeBatchHeader(builder.header(), builder.payload(), header);
  return std::string(header, sizeof header) + builder.payload();
}

void ExpectSame(const Record& read, const OutgoingRecord& written) {
  EXPECT_EQ(read.key, written.key);
  EXPECT_EQ(read.value, written.value);
  EXPECT_EQ(read.timestamp_ms, written.timestamp_ms);
  EXPECT_EQ(read.headers, written.headers);
}

TEST(Batch, AnythingComesBackAsItWas) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  const auto maybe_bytes = [&]() -> MaybeBytes {
    if (random() % 4 == 0) return std::nullopt;
    std::string bytes(random() % 5 == 0 ? random() % 300 : random() % 20, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    return bytes;
  };
  std::vector<OutgoingRecord> written(500);
  BatchBuilder builder;
  for (OutgoingRecord& record : written) {
    record.key = maybe_bytes();
    record.value = maybe_bytes();
    record.timestamp_ms = static_cast<int64_t>(random() % 2 == 0 ? random() : random() % 1000);
    for (uint64_t headers = random() % 4; headers > 0; --headers) {
      record.headers.push_back({maybe_bytes().value_or(""), maybe_bytes()});
    }
    builder.Add(record);
  }
  const std::string bytes = Encode(builder);
  auto batch = BatchReader::Parse(bytes);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->header().count, 500u);
  RecordView view;
  for (size_t i = 0; i < written.size(); ++i) {
    ASSERT_TRUE(batch->Next(&view)) << batch->status();
    const Record record = MakeRecord(1000, view);
    EXPECT_EQ(record.offset, Offset(1000 + static_cast<int64_t>(i)));
    ExpectSame(record, written[i]);
  }
  EXPECT_FALSE(batch->Next(&view));
  EXPECT_TRUE(batch->status().ok());
}

TEST(Batch, TimestampsOfAnySizeSurvive) {
  BatchBuilder builder;
  const int64_t extremes[] = {0, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), -1,
                              253'402'300'799'999};
  for (const int64_t timestamp : extremes) {
    OutgoingRecord record;
    record.timestamp_ms = timestamp;
    builder.Add(record);
  }
  const std::string bytes = Encode(builder);
  auto batch = BatchReader::Parse(bytes);
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(batch->header().max_timestamp, std::numeric_limits<int64_t>::max());
  RecordView view;
  for (const int64_t timestamp : extremes) {
    ASSERT_TRUE(batch->Next(&view));
    EXPECT_EQ(view.timestamp_ms, timestamp);
  }
}

TEST(Batch, GapsLeftByCompactionKeepTheOffsets) {
  BatchBuilder full;
  for (int i = 0; i < 10; ++i) {
    OutgoingRecord record;
    record.value = StrCat(i);
    record.headers = {{"h", StrCat(i)}};
    full.Add(record);
  }
  const std::string before = Encode(full);
  auto batch = BatchReader::Parse(before);
  ASSERT_TRUE(batch.ok());
  BatchBuilder thinned;
  RecordView view;
  while (batch->Next(&view)) {
    if (view.delta % 3 == 1) thinned.Add(view, view.delta + 5);
  }
  const std::string after = Encode(thinned);
  auto rest = BatchReader::Parse(after);
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(rest->header().last_delta, 12u);
  for (uint32_t delta : {1, 4, 7}) {
    ASSERT_TRUE(rest->Next(&view));
    const Record record = MakeRecord(0, view);
    EXPECT_EQ(record.offset, Offset(delta + 5));
    EXPECT_EQ(record.value, StrCat(delta));
    EXPECT_EQ(record.headers, (Headers{{"h", StrCat(delta)}}));
  }
  EXPECT_FALSE(rest->Next(&view));
}

TEST(Batch, EveryFlippedBitIsNoticed) {
  BatchBuilder builder;
  OutgoingRecord record;
  record.key = "key";
  record.value = "value";
  builder.Add(record);
  std::string bytes = Encode(builder);
  for (size_t i = 4; i < bytes.size(); ++i) {  // bytes 0-3 select the reader; the first is checked for its range
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] ^= static_cast<char>(1 << bit);
      EXPECT_TRUE(absl::IsDataLoss(BatchReader::Parse(bytes).status())) << "byte " << i << " bit " << bit;
      bytes[i] ^= static_cast<char>(1 << bit);
    }
  }
  EXPECT_TRUE(BatchReader::Parse(bytes).ok());
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(BatchReader::Parse(bytes.substr(0, size)).ok());
}

TEST(Batch, MalformedPayloadsWithAGoodChecksumAreRefusedWithoutReadingBeyondThem) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20'000; ++round) {
    std::string payload(random() % 40, '\0');
    for (char& c : payload) c = static_cast<char>(random() % 3 == 0 ? random() : random() % 4);
    BatchHeader header;
    header.count = random() % 5;
    char encoded[kBatchHeaderBytes];
    EncodeBatchHeader(header, payload, encoded);
    const std::string bytes = std::string(encoded, sizeof encoded) + payload;
    auto batch = BatchReader::Parse(bytes);
    ASSERT_TRUE(batch.ok());
    RecordView view;
    while (batch->Next(&view)) MakeRecord(0, view);
  }
}

TEST(Crc32c, KnowsTheStandardVectors) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c("56789", Crc32c("1234")), Crc32c("123456789"));
}

}  // namespace
}  // namespace millstream::log::embedded
