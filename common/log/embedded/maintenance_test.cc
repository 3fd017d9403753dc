// Retention, compaction and expiry, with a clock that stands still.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/embedded/open.h"
#include "common/log/embedded/test_folder.h"

namespace millstream::log::embedded {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Maintenance : public testing::Test {
 protected:
  Maintenance() { Reopen(); }

  void Reopen() {
    log_.reset();
    EmbeddedLogOptions options;
    options.directory = folder_.path();
    options.clock = &clock_;
    options.maintenance_interval = absl::ZeroDuration();
    InternalOptions internal;
    internal.segment_bytes = segment_bytes_;
    auto log = OpenLog(options, internal);
    MS_CHECK_OK(log);
    log_ = *std::move(log);
  }

  TopicPartition MakeTopic(const std::string& name, std::map<std::string, std::string> config) {
    MS_CHECK_OK(log_->admin().CreateTopic({name, 1, -1, std::move(config)}));
    return {name, Partition(0)};
  }

  static OutgoingRecord To(const TopicPartition& to, MaybeBytes key, MaybeBytes value) {
    OutgoingRecord record;
    record.to = to;
    record.key = std::move(key);
    record.value = std::move(value);
    return record;
  }

  void Write(const TopicPartition& to, MaybeBytes key, MaybeBytes value) {
    MS_CHECK_OK(log_->NewPlainWriter()->Append({To(to, std::move(key), std::move(value))}));
  }

  std::unique_ptr<TransactionalWriter> Writer(const std::string& id, absl::Duration timeout = absl::Minutes(1)) {
    WriterOptions options;
    options.transactional_id = id;
    options.transaction_timeout = timeout;
    auto writer = log_->NewTransactionalWriter(options);
    MS_CHECK_OK(writer->Init());
    return writer;
  }

  void Maintain() {
    const absl::Status status = log_->RunMaintenance();
    EXPECT_TRUE(status.ok()) << status;
  }

  // "offset:key=value" from the start (or `from`) to the end; the end as the last entry.
  std::vector<std::string> Contents(const TopicPartition& of, Isolation isolation = Isolation::kReadCommitted,
                                    int64_t from = -1) {
    ReaderOptions options;
    options.isolation = isolation;
    auto reader = log_->NewReader(options);
    if (from < 0) from = log_->admin().StartOffset(of)->value();
    MS_CHECK_OK(reader->Add(of, Offset(from)));
    std::vector<std::string> contents;
    for (;;) {
      auto events = reader->Poll(absl::Seconds(5));
      MS_CHECK_OK(events);
      if (events->empty()) return {"no end"};
      for (const ReaderEvent& event : *events) {
        if (const auto* failed = std::get_if<PartitionFailed>(&event)) return {failed->status.ToString()};
        if (const auto* end = std::get_if<EndOfPartition>(&event)) {
          contents.push_back(StrCat("end ", end->position.value()));
          return contents;
        }
        for (const Record& record : std::get<RecordsRead>(event).records) {
          contents.push_back(
              StrCat(record.offset.value(), ":", record.key.value_or("null"), "=", record.value.value_or("null")));
        }
      }
    }
  }

  uintmax_t DiskBytes() const {
    uintmax_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path() + "/db")) {
      if (file.path().extension() == ".sst") bytes += file.file_size();
    }
    return bytes;
  }

  TestFolder folder_;
  FakeClock clock_;
  int64_t segment_bytes_ = 64 << 20;
  std::unique_ptr<EmbeddedLog> log_;
};

using Compaction = Maintenance;
using Retention = Maintenance;
using Expiry = Maintenance;

TEST_F(Retention, RemovesWhatIsOlderThanRetentionMsCountedFromTheAppend) {
  const TopicPartition tp = MakeTopic("t", {{"retention.ms", "60000"}});
  Write(tp, "a", "1");
  clock_.Advance(absl::Seconds(40));
  Write(tp, "b", "2");
  Maintain();
  EXPECT_THAT(Contents(tp), ElementsAre("0:a=1", "1:b=2", "end 2"));
  clock_.Advance(absl::Seconds(30));
  Maintain();
  EXPECT_EQ(*log_->admin().StartOffset(tp), Offset(1));
  EXPECT_THAT(Contents(tp), ElementsAre("1:b=2", "end 2"));
  EXPECT_THAT(Contents(tp, Isolation::kReadCommitted, 0)[0], testing::HasSubstr("OUT_OF_RANGE"));
  clock_.Advance(absl::Seconds(60));
  Maintain();
  EXPECT_THAT(Contents(tp), ElementsAre("end 2"));
  EXPECT_EQ(*log_->admin().StartOffset(tp), Offset(2));
  // The end is remembered although nothing is left.
  Reopen();
  EXPECT_THAT(Contents(tp), ElementsAre("end 2"));
  Write(tp, "c", "3");
  EXPECT_THAT(Contents(tp), ElementsAre("2:c=3", "end 3"));
}

TEST_F(Retention, KeepsRetentionBytesOverManySegments) {
  segment_bytes_ = 20'000;
  Reopen();
  const TopicPartition tp = MakeTopic("t", {{"retention.bytes", "50000"}, {"retention.ms", "-1"}});
  for (int i = 0; i < 200; ++i) Write(tp, "k", std::string(1000, 'x'));
  Maintain();
  const int64_t start = log_->admin().StartOffset(tp)->value();
  EXPECT_GE(start, 145);  // 1,000 bytes and a header of 64 and more each
  EXPECT_LE(start, 155);
  EXPECT_EQ(Contents(tp).size(), 200u - start + 1);
  Reopen();
  EXPECT_EQ(*log_->admin().StartOffset(tp), Offset(start));
  Maintain();  // nothing more to remove
  EXPECT_EQ(*log_->admin().StartOffset(tp), Offset(start));
}

TEST_F(Retention, StopsAtOpenTransactions) {
  const TopicPartition tp = MakeTopic("t", {{"retention.ms", "1000"}});
  Write(tp, "a", "1");
  auto writer = Writer("w");
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Append({To(tp, "b", "2")}).ok());
  clock_.Advance(absl::Seconds(10));
  Maintain();
  EXPECT_EQ(*log_->admin().StartOffset(tp), Offset(1));
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_THAT(Contents(tp), ElementsAre("1:b=2", "end 3"));
  Maintain();
  EXPECT_THAT(Contents(tp), ElementsAre("end 3"));
  EXPECT_EQ(*log_->admin().EndOffset(tp, Isolation::kReadCommitted), Offset(3));
}

TEST_F(Retention, StopsAtATransactionThatIsOpenOverManySegments) {
  segment_bytes_ = 2'000;
  Reopen();
  const TopicPartition tp = MakeTopic("t", {{"retention.ms", "60000"}});
  const std::string big(1'500, 'x');
  for (int i = 0; i < 4; ++i) Write(tp, "before", big);
  auto writer = Writer("w", absl::Minutes(15));
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Append({To(tp, "open", "1")}).ok());
  for (int i = 0; i < 8; ++i) Write(tp, "after", big);
  clock_.Advance(absl::Minutes(2));
  Maintain();
  EXPECT_EQ(*log_->admin().StartOffset(tp), Offset(4));
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_EQ(Contents(tp).front(), "4:open=1");
  Maintain();  // everything is old but the marker
  EXPECT_EQ(*log_->admin().StartOffset(tp), Offset(13));
}

TEST_F(Retention, AReaderInTheRemovedPartFails) {
  const TopicPartition tp = MakeTopic("t", {{"retention.ms", "1000"}});
  Write(tp, "a", "1");
  Write(tp, "b", "2");
  auto reader = log_->NewReader({});
  ASSERT_TRUE(reader->Add(tp, Offset(0)).ok());
  clock_.Advance(absl::Seconds(10));
  Maintain();
  const auto events = reader->Poll(absl::Seconds(5));
  ASSERT_TRUE(events.ok());
  ASSERT_EQ(events->size(), 1u);
  EXPECT_TRUE(absl::IsOutOfRange(std::get<PartitionFailed>(events->front()).status));
}

TEST_F(Retention, DiskSpaceComesBack) {
  segment_bytes_ = 4 << 20;
  Reopen();
  const TopicPartition tp = MakeTopic("t", {{"retention.ms", "1000"}});
  std::mt19937 random(1);
  for (int i = 0; i < 40; ++i) {
    std::string value(1'000'000, '\0');
    for (char& c : value) c = static_cast<char>(random());
    Write(tp, "k", std::move(value));
  }
  Reopen();  // everything is flushed
  const uintmax_t before = DiskBytes();
  EXPECT_GT(before, 20'000'000u);
  clock_.Advance(absl::Seconds(10));
  Maintain();
  EXPECT_THAT(Contents(tp), ElementsAre("end 40"));
  EXPECT_LT(DiskBytes(), before / 3);
}

TEST_F(Compaction, KeepsTheLastValueOfEachKey) {
  const TopicPartition tp = MakeTopic("t", {{"cleanup.policy", "compact"}});
  for (int i = 0; i < 10; ++i) Write(tp, StrCat("k", i % 3), StrCat("v", i));
  Maintain();
  EXPECT_THAT(Contents(tp), ElementsAre("7:k1=v7", "8:k2=v8", "9:k0=v9", "end 10"));
  EXPECT_EQ(*log_->admin().StartOffset(tp), Offset(0));
  EXPECT_THAT(Contents(tp, Isolation::kReadCommitted, 8), ElementsAre("8:k2=v8", "9:k0=v9", "end 10"));
  Write(tp, "k1", "v10");
  Reopen();
  Maintain();
  EXPECT_THAT(Contents(tp), ElementsAre("8:k2=v8", "9:k0=v9", "10:k1=v10", "end 11"));
}

TEST_F(Compaction, DropsAbortedRecordsAndMarkersAndKeepsTheEnd) {
  const TopicPartition tp = MakeTopic("t", {{"cleanup.policy", "compact"}});
  auto writer = Writer("w");
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Append({To(tp, "a", "1"), To(tp, "b", "1")}).ok());
  ASSERT_TRUE(writer->Commit().ok());  // marker 2
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Append({To(tp, "a", "aborted"), To(tp, "c", "aborted")}).ok());
  ASSERT_TRUE(writer->Abort().ok());  // marker 5
  Maintain();
  // An aborted value neither survives nor shadows the committed one before it.
  EXPECT_THAT(Contents(tp), ElementsAre("0:a=1", "1:b=1", "end 6"));
  EXPECT_THAT(Contents(tp, Isolation::kReadUncommitted), ElementsAre("0:a=1", "1:b=1", "end 6"));
  Reopen();
  EXPECT_THAT(Contents(tp), ElementsAre("0:a=1", "1:b=1", "end 6"));
  EXPECT_THAT(Contents(tp, Isolation::kReadCommitted, 5), ElementsAre("end 6"));
}

TEST_F(Compaction, KeepsTheEndWhenNothingElseIsLeft) {
  const TopicPartition tp = MakeTopic("t", {{"cleanup.policy", "compact"}});
  auto writer = Writer("w");
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Append({To(tp, "a", "1"), To(tp, "b", "1")}).ok());
  ASSERT_TRUE(writer->Abort().ok());  // marker 2
  Maintain();
  EXPECT_THAT(Contents(tp), ElementsAre("end 3"));
  Reopen();
  EXPECT_THAT(Contents(tp), ElementsAre("end 3"));
  Write(tp, "c", "1");
  EXPECT_THAT(Contents(tp), ElementsAre("3:c=1", "end 4"));
}

TEST_F(Compaction, NeverTouchesWhatLiesBehindAnOpenTransaction) {
  const TopicPartition tp = MakeTopic("t", {{"cleanup.policy", "compact"}});
  Write(tp, "a", "1");
  auto writer = Writer("w");
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Append({To(tp, "a", "2")}).ok());
  Write(tp, "a", "3");
  Write(tp, "a", "4");
  Maintain();
  EXPECT_THAT(Contents(tp, Isolation::kReadUncommitted), ElementsAre("0:a=1", "1:a=2", "2:a=3", "3:a=4", "end 4"));
  ASSERT_TRUE(writer->Abort().ok());
  Maintain();
  EXPECT_THAT(Contents(tp), ElementsAre("3:a=4", "end 5"));
}

TEST_F(Compaction, TombstonesStayForTheirTimeAfterTheFirstPass) {
  const TopicPartition tp = MakeTopic("t", {{"cleanup.policy", "compact"}, {"delete.retention.ms", "60000"}});
  Write(tp, "a", "1");
  Write(tp, "a", std::nullopt);
  Write(tp, "b", "1");
  clock_.Advance(absl::Hours(1));  // long before the first pass: does not count
  Maintain();
  EXPECT_THAT(Contents(tp), ElementsAre("1:a=null", "2:b=1", "end 3"));
  clock_.Advance(absl::Seconds(59));
  Maintain();
  EXPECT_THAT(Contents(tp), ElementsAre("1:a=null", "2:b=1", "end 3"));
  Reopen();
  clock_.Advance(absl::Seconds(2));
  Maintain();
  EXPECT_THAT(Contents(tp), ElementsAre("2:b=1", "end 3"));
}

TEST_F(Compaction, MinCompactionLagProtectsTheYoung) {
  const TopicPartition tp = MakeTopic("t", {{"cleanup.policy", "compact"}, {"min.compaction.lag.ms", "60000"}});
  Write(tp, "a", "1");
  Write(tp, "a", "2");
  clock_.Advance(absl::Seconds(50));
  Write(tp, "a", "3");
  clock_.Advance(absl::Seconds(20));
  Maintain();
  EXPECT_THAT(Contents(tp), ElementsAre("1:a=2", "2:a=3", "end 3"));
}

TEST_F(Compaction, CompactAndDeleteDoBoth) {
  const TopicPartition tp = MakeTopic("t", {{"cleanup.policy", "compact,delete"}, {"retention.ms", "60000"}});
  Write(tp, "a", "1");
  Write(tp, "b", "1");
  Write(tp, "a", "2");
  Maintain();
  EXPECT_THAT(Contents(tp), ElementsAre("1:b=1", "2:a=2", "end 3"));
  clock_.Advance(absl::Seconds(50));
  Write(tp, "c", "1");
  clock_.Advance(absl::Seconds(20));
  Maintain();
  EXPECT_THAT(Contents(tp), ElementsAre("3:c=1", "end 4"));
}

TEST_F(Compaction, AReaderInTheMiddleGoesOn) {
  const TopicPartition tp = MakeTopic("t", {{"cleanup.policy", "compact"}});
  for (int i = 0; i < 100; ++i) Write(tp, StrCat("k", i % 10), StrCat(i));
  ReaderOptions options;
  options.max_read_bytes = 1;
  options.max_buffered_bytes = 1;
  auto reader = log_->NewReader(options);
  ASSERT_TRUE(reader->Add(tp, Offset(0)).ok());
  for (int i = 0; i < 50; ++i) ASSERT_EQ(reader->Poll(absl::Seconds(1))->size(), 1u);
  Maintain();
  std::vector<int64_t> offsets;
  for (bool end = false; !end;) {
    const auto events = reader->Poll(absl::Seconds(5));
    ASSERT_TRUE(events.ok());
    for (const ReaderEvent& event : *events) {
      if (const auto* read = std::get_if<RecordsRead>(&event)) offsets.push_back(read->records[0].offset.value());
      end = end || std::holds_alternative<EndOfPartition>(event);
    }
  }
  EXPECT_THAT(offsets, ElementsAre(90, 91, 92, 93, 94, 95, 96, 97, 98, 99));
}

// Against a model, over many segments, with aborted transactions, tombstones, reopening.
TEST_F(Compaction, AgreesWithAModel) {
  segment_bytes_ = 3'000;
  Reopen();
  const TopicPartition tp = MakeTopic("t", {{"cleanup.policy", "compact"}, {"delete.retention.ms", "1000000"}});
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937 random(seed);
  std::map<std::string, std::pair<int64_t, std::string>> last;  // key -> offset, value
  auto writer = Writer("w");
  int64_t end = 0;
  for (int round = 0; round < 60; ++round) {
    ASSERT_TRUE(writer->Begin().ok());
    const bool commits = random() % 3 != 0;
    std::vector<OutgoingRecord> records;
    for (unsigned i = random() % 20 + 1; i > 0; --i) {
      const std::string key = StrCat("key", random() % 30);
      const bool tombstone = random() % 5 == 0;
      records.push_back(
          To(tp, key, tombstone ? MaybeBytes() : MaybeBytes(StrCat(std::string(random() % 100, 'v'), round))));
      if (commits) last[key] = {end, records.back().value.value_or("null")};
      ++end;
    }
    ASSERT_TRUE(writer->Append(records).ok());
    ASSERT_TRUE((commits ? writer->Commit() : writer->Abort()).ok());
    ++end;
    if (random() % 10 == 0) Maintain();
    if (random() % 15 == 0) {
      writer.reset();
      Reopen();
      writer = Writer("w");
    }
  }
  Maintain();
  std::map<int64_t, std::string> by_offset;
  for (const auto& [key, entry] : last) by_offset[entry.first] = StrCat(entry.first, ":", key, "=", entry.second);
  std::vector<std::string> expected;
  for (const auto& [offset, text] : by_offset) expected.push_back(text);
  expected.push_back(StrCat("end ", end));
  EXPECT_EQ(Contents(tp), expected);
  Reopen();
  EXPECT_EQ(Contents(tp), expected);
}

TEST_F(Expiry, ATransactionOpenTooLongIsAbortedAndItsWriterFenced) {
  const TopicPartition tp = MakeTopic("t", {});
  auto writer = Writer("w", absl::Seconds(10));
  ASSERT_TRUE(writer->Begin().ok());
  clock_.Advance(absl::Minutes(1));  // begun, but nothing appended: the log knows nothing of it
  ASSERT_TRUE(writer->Append({To(tp, "a", "1")}).ok());
  clock_.Advance(absl::Seconds(10));
  Maintain();
  EXPECT_EQ(*log_->admin().EndOffset(tp, Isolation::kReadCommitted), Offset(0));
  clock_.Advance(absl::Seconds(1));
  Maintain();
  EXPECT_THAT(Contents(tp), ElementsAre("end 2"));
  const absl::Status status = writer->Append({To(tp, "a", "2")});
  EXPECT_EQ(RecoveryOf(status), Recovery::kRecreate);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("open for more than 10s"));
}

}  // namespace
}  // namespace millstream::log::embedded
