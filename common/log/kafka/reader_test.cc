// Readers against the cluster of MILLSTREAM_TEST_KAFKA, where the contract of common/log does not look hard enough.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/strings.h"
#include "common/log/kafka/open.h"

namespace millstream::kafka {
namespace {

constexpr int kPartitions = 3, kRecords = 3000;

class KafkaReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* const servers = std::getenv("MILLSTREAM_TEST_KAFKA");
    if (servers == nullptr) GTEST_SKIP() << "MILLSTREAM_TEST_KAFKA names no cluster";
    ClusterAccess access;
    access.bootstrap_servers = servers;
    access_ = std::make_shared<LiveAccess>(access);
    KafkaLogOptions options;
    options.live_access = access_;
    options.metrics = metrics_.get();
    options.client_id = "millstream-reader-test";
    auto opened = OpenKafkaLog(options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    log_ = *std::move(opened);
    topic_ = StrCat("reader-", std::random_device()());
    MakeTopic();
  }

  void MakeTopic() {
    absl::Status made;
    const absl::Duration until = SystemClock().Monotonic() + absl::Seconds(60);
    do {  // a topic of this name may still be on its way out
      made = log_->admin().CreateTopic({topic_, kPartitions, -1, {{"retention.ms", "-1"}}});
    } while (!made.ok() && SystemClock().Monotonic() < until);
    ASSERT_TRUE(made.ok()) << made;
    // A broker that has just begun may take a while to hear of it.
    for (int p = 0; p < kPartitions; ++p) {
      absl::Status known;
      do {
        known = log_->admin().EndOffset({topic_, Partition(p)}, log::Isolation::kReadUncommitted).status();
      } while (!known.ok() && SystemClock().Monotonic() < until);
      ASSERT_TRUE(known.ok()) << known;
    }
  }

  // Offset n of every partition holds the value "n".
  void Fill(int records) {
    const auto writer = log_->NewPlainWriter();
    for (int i = 0; i < records; ++i) {
      for (int p = 0; p < kPartitions; ++p) {
        const absl::Status status = writer->Append(
            {{.to = {topic_, Partition(p)}, .timestamp_ms = 1 + i, .key = "k", .value = StrCat(i), .headers = {}}});
        ASSERT_TRUE(status.ok()) << status;
      }
    }
    const auto flushed = writer->Flush();
    ASSERT_TRUE(flushed.ok()) << flushed.status();
  }

  // Offsets of the first partition [first, first + count): the next that the reader gives.
  static void ExpectNext(log::Reader& reader, int64_t first, int64_t count) {
    int64_t next = first;
    const absl::Duration until = SystemClock().Monotonic() + absl::Seconds(60);
    while (next < first + count) {
      ASSERT_LT(SystemClock().Monotonic(), until) << "no offset " << next;
      const auto events = reader.Poll(absl::Milliseconds(100));
      ASSERT_TRUE(events.ok()) << events.status();
      for (const log::ReaderEvent& event : *events) {
        ASSERT_FALSE(std::holds_alternative<log::PartitionFailed>(event))
            << std::get<log::PartitionFailed>(event).status;
        const auto* read = std::get_if<log::RecordsRead>(&event);
        if (read == nullptr) continue;
        for (const log::Record& record : read->records) ASSERT_EQ(record.offset.value(), next++);
      }
    }
    ASSERT_EQ(next, first + count);
  }
  // The same servers, by another version: what a rotation is to clients.
  void Rotate() { access_->Change(access_->Now()->access); }
  void RotateToNonsense() {
    ClusterAccess access = access_->Now()->access;
    access.tls.emplace().ca_pem = "no certificate";
    access_->Change(access);
  }
  double Renewed() {
    return metrics_->GetCounter("millstream_kafka_clients_renewed_total", "", {{"client", "reader"}})->Value();
  }

  const std::unique_ptr<MetricsRegistry> metrics_ = NewMetricsRegistry();
  std::shared_ptr<LiveAccess> access_;
  std::unique_ptr<log::Log> log_;
  std::string topic_;
};

// What a partition may give next, and whether it may give anything.
struct Expected {
  int64_t next = 0;
  bool paused = false, read = true;
};

// Every record must be the one behind the last one, or the one sought: nothing of before a seek, nothing twice.
TEST_F(KafkaReaderTest, NoOrderOfSeeksAndPausesShowsARecordOfBefore) {
  Fill(kRecords);
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937 random(seed);
  log::ReaderOptions options;
  options.max_buffered_bytes = 1 << 20;
  options.max_read_bytes = 20'000;
  const auto reader = log_->NewReader(options);
  std::map<TopicPartition, Expected> expected;
  for (int p = 0; p < kPartitions; ++p) {
    const TopicPartition tp{topic_, Partition(p)};
    ASSERT_TRUE(reader->Add(tp, Offset(0)).ok());
    expected[tp] = {};
  }
  int64_t seen = 0;
  for (int step = 0; step < 600; ++step) {
    const TopicPartition tp{topic_, Partition(static_cast<int32_t>(random() % kPartitions))};
    Expected& of = expected[tp];
    switch (random() % 6) {
      case 0:
        if (!of.read) break;
        of.next = static_cast<int64_t>(random() % kRecords);
        ASSERT_TRUE(reader->Seek(tp, Offset(of.next)).ok());
        break;
      case 1:
        reader->Pause(tp);
        of.paused = of.read;
        break;
      case 2:
      case 3:
        reader->Resume(tp);
        of.paused = false;
        break;
      case 4:
        if (of.read) {
          reader->Remove(tp);
        } else {
          of.next = static_cast<int64_t>(random() % kRecords);
          ASSERT_TRUE(reader->Add(tp, Offset(of.next)).ok());
        }
        of.read = !of.read;
        of.paused = false;
        break;
      default:
        break;
    }
    for (int polls = static_cast<int>(random() % 4); polls > 0; --polls) {
      const auto events = reader->Poll(absl::Milliseconds(random() % 20));
      ASSERT_TRUE(events.ok()) << events.status();
      for (const log::ReaderEvent& event : *events) {
        const TopicPartition from = std::visit([](const auto& some) { return some.from; }, event);
        Expected& source = expected[from];
        ASSERT_TRUE(source.read && !source.paused) << from << " at step " << step;
        if (const auto* failed = std::get_if<log::PartitionFailed>(&event)) FAIL() << failed->status;
        if (const auto* end = std::get_if<log::EndOfPartition>(&event)) {
          ASSERT_EQ(source.next, kRecords) << from << " at step " << step;
          ASSERT_EQ(end->position, Offset(kRecords));
          continue;
        }
        for (const log::Record& record : std::get<log::RecordsRead>(event).records) {
          ASSERT_EQ(record.offset, Offset(source.next)) << from << " at step " << step;
          ASSERT_EQ(record.value, StrCat(source.next));
          ++source.next;
          ++seen;
        }
      }
    }
  }
  EXPECT_GT(seen, kRecords);
}

// librdkafka alone would go on at the old offset in the new topic.
TEST_F(KafkaReaderTest, ATopicThatWasMadeAgainFailsItsReader) {
  Fill(10);
  const TopicPartition tp{topic_, Partition(0)};
  const auto reader = log_->NewReader({});
  ASSERT_TRUE(reader->Add(tp, Offset(5)).ok());
  ASSERT_TRUE(log_->admin().DeleteTopic(topic_).ok());
  MakeTopic();
  Fill(10);
  const absl::Duration until = SystemClock().Monotonic() + absl::Seconds(40);
  while (SystemClock().Monotonic() < until) {
    const auto events = reader->Poll(absl::Milliseconds(100));
    ASSERT_TRUE(events.ok()) << events.status();
    for (const log::ReaderEvent& event : *events) {
      const auto* failed = std::get_if<log::PartitionFailed>(&event);
      if (failed == nullptr) continue;
      EXPECT_TRUE(absl::IsNotFound(failed->status)) << failed->status;
      return;
    }
  }
  FAIL() << "the topic was made again and nobody noticed";
}

TEST_F(KafkaReaderTest, AnotherAccessGoesOnWhereItWas) {
  const TopicPartition tp{topic_, Partition(0)};
  const auto reader = log_->NewReader({});
  ASSERT_EQ(reader->Add(tp, Offset(0)), absl::OkStatus());
  Fill(5);
  ExpectNext(*reader, 0, 5);
  Rotate();
  Fill(5);
  ExpectNext(*reader, 5, 5);
  EXPECT_EQ(Renewed(), 1);
  // What came of a paused partition, before and after, is given once.
  reader->Pause(tp);
  Fill(5);
  ASSERT_TRUE(reader->Poll(absl::Milliseconds(300)).ok());
  Rotate();
  ASSERT_TRUE(reader->Poll(absl::Milliseconds(300)).ok());
  reader->Resume(tp);
  Fill(1);
  ExpectNext(*reader, 10, 6);
  EXPECT_EQ(Renewed(), 2);
}

TEST_F(KafkaReaderTest, AClientThatCannotBeReplacedIsKept) {
  const auto reader = log_->NewReader({});
  ASSERT_EQ(reader->Add({topic_, Partition(0)}, Offset(0)), absl::OkStatus());
  const auto writer = log_->NewPlainWriter();
  const auto append = [&](int64_t offset) {
    return writer->Append(
        {{.to = {topic_, Partition(0)}, .timestamp_ms = 1, .key = "k", .value = StrCat(offset), .headers = {}}});
  };
  ASSERT_EQ(append(0), absl::OkStatus());
  ASSERT_TRUE(writer->Flush().ok());
  ExpectNext(*reader, 0, 1);
  ASSERT_EQ(append(1), absl::OkStatus());  // under way: this writer keeps its client
  RotateToNonsense();
  ASSERT_TRUE(writer->Flush().ok());
  ExpectNext(*reader, 1, 1);
  EXPECT_EQ(Renewed(), 0);
}

}  // namespace
}  // namespace millstream::kafka
