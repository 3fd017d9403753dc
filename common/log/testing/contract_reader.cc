// What every log promises its readers.
#include <gmock/gmock.h>

#include <thread>

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/log/testing/contract_suite.h"

namespace millstream::log {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

bool IsEnd(const ReaderEvent& event) { return std::holds_alternative<EndOfPartition>(event); }
bool IsRecords(const ReaderEvent& event) { return std::holds_alternative<RecordsRead>(event); }
bool IsFailed(const ReaderEvent& event) { return std::holds_alternative<PartitionFailed>(event); }

Offset EndIn(const std::vector<ReaderEvent>& events) {
  return events.empty() || !IsEnd(events.back()) ? kNoOffset : std::get<EndOfPartition>(events.back()).position;
}

TEST_P(LogContract, RecordsComeBackByteForByte) {
  const TopicPartition tp{MakeTopic(1, {{"max.message.bytes", "2097152"}}), Partition(0)};
  const std::string binary("\0\xff\xfe\r\n\0k", 7);
  std::vector<OutgoingRecord> written = {
      To(tp, std::nullopt, std::nullopt, 5),     To(tp, "", "", 1),
      To(tp, binary, binary, 1'700'000'000'000), To(tp, std::nullopt, "value only", 2),
      To(tp, "key only", std::nullopt, 3),       To(tp, "big", std::string(1 << 20, '\xab'), 4),
  };
  written[2].headers = {{"a", "1"}, {"a", "2"}, {"", ""}, {"null", std::nullopt}, {"b", binary}, {"a", "1"}};
  const auto writer = MakeWriter(Unique("writer"));
  for (const OutgoingRecord& record : written) CommitRecords(*writer, {record});
  WritePlain(written);

  const std::vector<Record> read = ReadAll(tp);
  ASSERT_EQ(read.size(), 2 * written.size());
  for (size_t i = 0; i < read.size(); ++i) {
    const OutgoingRecord& expected = written[i % written.size()];
    SCOPED_TRACE(i);
    EXPECT_EQ(read[i].key, expected.key);
    EXPECT_EQ(read[i].value, expected.value);
    EXPECT_EQ(read[i].headers, expected.headers);
    EXPECT_EQ(read[i].timestamp_ms, expected.timestamp_ms);
    if (i > 0) {
      EXPECT_GT(read[i].offset, read[i - 1].offset);
    }
  }
}

TEST_P(LogContract, OffsetsAreGivenPerPartitionInOrder) {
  const std::string topic = MakeTopic(3);
  const auto writer = log().NewPlainWriter();
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(writer->Append({To({topic, Partition(i % 3)}, "k", StrCat(i))}).ok());
  }
  const auto acknowledged = writer->Flush();
  ASSERT_TRUE(acknowledged.ok()) << acknowledged.status();
  for (int p = 0; p < 3; ++p) {
    const TopicPartition tp{topic, Partition(p)};
    EXPECT_EQ(acknowledged->at(tp), Offset(9));
    const std::vector<Record> records = ReadAll(tp);
    ASSERT_EQ(records.size(), 10u);
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(records[i].offset, Offset(i));
      EXPECT_EQ(records[i].value, StrCat(3 * i + p));
    }
  }
}

TEST_P(LogContract, ReadsFromAnyPosition) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  WritePlain(Numbered(tp, 0, 50));
  const auto reader = log().NewReader({});
  ASSERT_TRUE(reader->Add(tp, Offset(17)).ok());
  std::vector<Record> records = ReadTo(*reader, tp, Offset(50));
  ASSERT_EQ(records.size(), 33u);
  EXPECT_EQ(records.front().offset, Offset(17));
  ASSERT_TRUE(reader->Seek(tp, Offset(49)).ok());
  EXPECT_THAT(Values(ReadTo(*reader, tp, Offset(50))), ElementsAre("v49"));
}

TEST_P(LogContract, RecordsReadTellThePositionBehindThem) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  WritePlain(Numbered(tp, 0, 100));
  ReaderOptions options;
  options.max_read_bytes = 1;  // at least one record each
  const auto reader = log().NewReader(options);
  ASSERT_TRUE(reader->Add(tp, Offset(0)).ok());
  Offset expected(0);
  PollUntil(*reader, [&](const ReaderEvent& event) {
    if (IsEnd(event)) return true;
    const auto& read = std::get<RecordsRead>(event);
    EXPECT_FALSE(read.records.empty());
    EXPECT_EQ(read.records.front().offset, expected);
    EXPECT_EQ(read.next, read.records.back().offset.Next());
    expected = read.next;
    return false;
  });
  EXPECT_EQ(expected, Offset(100));
}

TEST_P(LogContract, EndIsReportedOncePerEnd) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  const auto reader = log().NewReader({});
  ASSERT_TRUE(reader->Add(tp, Offset(0)).ok());
  EXPECT_EQ(EndIn(PollUntil(*reader, IsEnd)), Offset(0));
  ExpectQuiet(*reader);
  const auto writer = MakeWriter(Unique("writer"));
  CommitRecords(*writer, Numbered(tp, 0, 3));
  EXPECT_THAT(Values(ReadTo(*reader, tp, Offset(4))), ElementsAre("v0", "v1", "v2"));
  ExpectQuiet(*reader);
  // Moved by an aborted transaction: no record, but another end.
  ASSERT_TRUE(writer->Begin().ok());
  Append(*writer, Numbered(tp, 3, 2));
  ExpectQuiet(*reader);
  ASSERT_TRUE(writer->Abort().ok());
  const auto events = PollUntil(*reader, IsEnd);
  EXPECT_EQ(events.size(), 1u);
  EXPECT_EQ(EndIn(events), Offset(7));
  ExpectQuiet(*reader);
}

TEST_P(LogContract, AReaderAtTheEndIsToldOfIt) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  WritePlain(Numbered(tp, 0, 3));
  const auto reader = log().NewReader({});
  ASSERT_TRUE(reader->Add(tp, Offset(3)).ok());
  EXPECT_EQ(EndIn(PollUntil(*reader, IsEnd)), Offset(3));
}

TEST_P(LogContract, PositionsBeyondTheEndFail) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  WritePlain(Numbered(tp, 0, 3));
  const auto reader = log().NewReader({});
  ASSERT_TRUE(reader->Add(tp, Offset(4)).ok());
  const auto events = PollUntil(*reader, IsFailed);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.size(), 1u);
  const auto& failed = std::get<PartitionFailed>(events.back());
  EXPECT_EQ(failed.from, tp);
  EXPECT_TRUE(absl::IsOutOfRange(failed.status)) << failed.status;
  WritePlain(Numbered(tp, 3, 5));
  ExpectQuiet(*reader);  // paused until Seek
  ASSERT_TRUE(reader->Seek(tp, Offset(7)).ok());
  EXPECT_THAT(Values(ReadTo(*reader, tp, Offset(8))), ElementsAre("v7"));
}

TEST_P(LogContract, PausedPartitionsAreSilentAndKeepTheirPosition) {
  const std::string topic = MakeTopic(2);
  const TopicPartition a{topic, Partition(0)}, b{topic, Partition(1)};
  const auto reader = log().NewReader({});
  ASSERT_TRUE(reader->Add(a, Offset(0)).ok());
  ASSERT_TRUE(reader->Add(b, Offset(0)).ok());
  reader->Pause(a);
  WritePlain(Numbered(a, 0, 5));
  WritePlain(Numbered(b, 0, 5));
  const auto events = PollUntil(*reader, [&](const ReaderEvent& event) {
    return IsEnd(event) && std::get<EndOfPartition>(event).position == Offset(5);
  });
  for (const ReaderEvent& event : events) {
    std::visit([&](const auto& of) { EXPECT_EQ(of.from, b); }, event);
  }
  ExpectQuiet(*reader);
  reader->Resume(a);
  EXPECT_THAT(Values(ReadTo(*reader, a, Offset(5))), ElementsAre("v0", "v1", "v2", "v3", "v4"));
  // A seek while paused moves the position and stays silent.
  reader->Pause(a);
  ASSERT_TRUE(reader->Seek(a, Offset(4)).ok());
  ExpectQuiet(*reader);
  reader->Resume(a);
  EXPECT_THAT(Values(ReadTo(*reader, a, Offset(5))), ElementsAre("v4"));
}

TEST_P(LogContract, RemovedPartitionsAreSilentAndMayBeAddedAgain) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  const auto reader = log().NewReader({});
  ASSERT_TRUE(reader->Add(tp, Offset(0)).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(reader->Add(tp, Offset(0))));
  reader->Remove(tp);
  reader->Remove(tp);
  WritePlain(Numbered(tp, 0, 2));
  ExpectQuiet(*reader);
  EXPECT_FALSE(reader->Seek(tp, Offset(0)).ok());
  ASSERT_TRUE(reader->Add(tp, Offset(1)).ok());
  EXPECT_THAT(Values(ReadTo(*reader, tp, Offset(2))), ElementsAre("v1"));
}

TEST_P(LogContract, UnknownPartitionsAreNotFound) {
  const std::string topic = MakeTopic(2);
  const auto reader = log().NewReader({});
  EXPECT_TRUE(absl::IsNotFound(reader->Add({Unique("nothing"), Partition(0)}, Offset(0))));
  EXPECT_TRUE(absl::IsNotFound(reader->Add({topic, Partition(2)}, Offset(0))));
}

TEST_P(LogContract, DeletedTopicsFailTheirReaders) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  WritePlain(Numbered(tp, 0, 2));
  const auto reader = log().NewReader({});
  ASSERT_TRUE(reader->Add(tp, Offset(0)).ok());
  ReadTo(*reader, tp, Offset(2));
  ASSERT_TRUE(admin().DeleteTopic(tp.topic).ok());
  const auto events = PollUntil(*reader, IsFailed);
  ASSERT_FALSE(events.empty());
  EXPECT_TRUE(absl::IsNotFound(std::get<PartitionFailed>(events.back()).status));
}

TEST_P(LogContract, ReadUncommittedSeesWhatIsOpenAndAborted) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  const auto writer = MakeWriter(Unique("writer"));
  ASSERT_TRUE(writer->Begin().ok());
  Append(*writer, Numbered(tp, 0, 2));
  ReaderOptions options;
  options.isolation = Isolation::kReadUncommitted;
  const auto reader = log().NewReader(options);
  ASSERT_TRUE(reader->Add(tp, Offset(0)).ok());
  EXPECT_THAT(Values(ReadTo(*reader, tp, Offset(2))), ElementsAre("v0", "v1"));
  ASSERT_TRUE(writer->Abort().ok());
  EXPECT_THAT(ReadTo(*reader, tp, Offset(3)), IsEmpty());
  EXPECT_THAT(Values(ReadAll(tp, Isolation::kReadUncommitted)), ElementsAre("v0", "v1"));
  EXPECT_THAT(ReadAll(tp), IsEmpty());
}

TEST_P(LogContract, NoPartitionStarves) {
  const std::string topic = MakeTopic(4);
  for (int p = 0; p < 4; ++p) WritePlain(Numbered({topic, Partition(p)}, 0, 500));
  ReaderOptions options;
  options.max_read_bytes = 2'000;
  options.max_buffered_bytes = 8'000;
  const auto reader = log().NewReader(options);
  for (int p = 0; p < 4; ++p) ASSERT_TRUE(reader->Add({topic, Partition(p)}, Offset(0)).ok());
  // A broker may begin with one partition before another. From when all are under way until one is done, none of the
  // others may be far behind it.
  std::map<int, size_t> seen, at_start;
  int done = 0;
  PollUntil(*reader, [&](const ReaderEvent& event) {
    if (IsRecords(event)) {
      const auto& read = std::get<RecordsRead>(event);
      seen[read.from.partition.value()] += read.records.size();
      if (seen.size() == 4 && at_start.empty()) at_start = seen;
    }
    if (!IsEnd(event) || at_start.empty()) return false;
    done = std::get<EndOfPartition>(event).from.partition.value();
    return true;
  });
  const size_t given = seen[done] - at_start[done];
  for (int p = 0; p < 4; ++p) {
    const size_t left = 500 - at_start[p];
    EXPECT_GE(seen[p] - at_start[p], std::min(left, given) / 5) << "partition " << p << ", while " << done << " ended";
  }
}

TEST_P(LogContract, WakeEndsAPoll) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  const auto reader = log().NewReader({});
  ASSERT_TRUE(reader->Add(tp, Offset(0)).ok());
  PollUntil(*reader, IsEnd);
  const absl::Duration start = SystemClock().Monotonic();
  std::thread waker([&] { reader->Wake(); });
  const auto events = reader->Poll(backend_->patience());
  waker.join();
  ASSERT_TRUE(events.ok()) << events.status();
  EXPECT_THAT(*events, IsEmpty());
  EXPECT_LT(SystemClock().Monotonic() - start, backend_->patience());
}

TEST_P(LogContract, ManyPartitionsAreReadTogether) {
  const std::string topic = MakeTopic(64);
  const auto reader = log().NewReader({});
  for (int p = 0; p < 64; ++p) ASSERT_TRUE(reader->Add({topic, Partition(p)}, Offset(0)).ok());
  std::vector<OutgoingRecord> records;
  for (int i = 0; i < 640; ++i) records.push_back(To({topic, Partition(i % 64)}, "k", StrCat(i)));
  WritePlain(records);
  std::map<int, int> seen;
  int total = 0;
  PollUntil(*reader, [&](const ReaderEvent& event) {
    if (!IsRecords(event)) return false;
    for (const Record& record : std::get<RecordsRead>(event).records) {
      EXPECT_EQ(record.value, StrCat(std::get<RecordsRead>(event).from.partition.value() + 64 * record.offset.value()));
      ++total;
    }
    return total == 640;
  });
  EXPECT_EQ(total, 640);
}

}  // namespace
}  // namespace millstream::log
