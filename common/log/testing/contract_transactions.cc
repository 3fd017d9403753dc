// What every log promises about transactions.
#include <gmock/gmock.h>

#include <thread>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/testing/contract_suite.h"

namespace millstream::log {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Isolation kCommitted = Isolation::kReadCommitted;
constexpr Isolation kUncommitted = Isolation::kReadUncommitted;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

TEST_P(LogContract, CommittedRecordsAppearAllAtOnceAcrossPartitions) {
  const std::string topic = MakeTopic(2);
  const TopicPartition a{topic, Partition(0)}, b{topic, Partition(1)};
  const auto writer = MakeWriter(Unique("writer"));
  ASSERT_TRUE(writer->Begin().ok());
  Append(*writer, Numbered(a, 0, 3));
  Append(*writer, Numbered(b, 0, 2));
  EXPECT_THAT(ReadAll(a), IsEmpty());
  EXPECT_THAT(ReadAll(b), IsEmpty());
  ASSERT_TRUE(writer->Commit().ok());
  ExpectEnd(a, kCommitted, 4);
  ExpectEnd(b, kCommitted, 3);
  EXPECT_THAT(Values(ReadAll(a)), ElementsAre("v0", "v1", "v2"));
  EXPECT_THAT(Values(ReadAll(b)), ElementsAre("v0", "v1"));
}

// The table of kafka-measured.md, section 10.
TEST_P(LogContract, EndOffsetsCountMarkersAndStopAtOpenTransactions) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  const auto a = MakeWriter(Unique("a")), b = MakeWriter(Unique("b"));
  CommitRecords(*a, Numbered(tp, 0, 10));
  ExpectEnd(tp, kCommitted, 11);
  ExpectEnd(tp, kUncommitted, 11);
  const auto reader = log().NewReader({});
  ASSERT_TRUE(reader->Add(tp, Offset(0)).ok());
  EXPECT_EQ(ReadTo(*reader, tp, Offset(11)).size(), 10u);

  ASSERT_TRUE(a->Begin().ok());
  EXPECT_EQ(Append(*a, Numbered(tp, 11, 5)), Offset(15));
  ExpectEnd(tp, kUncommitted, 16);
  ExpectEnd(tp, kCommitted, 11);
  ExpectQuiet(*reader);

  CommitRecords(*b, Numbered(tp, 16, 3));
  ExpectEnd(tp, kUncommitted, 20);
  ExpectEnd(tp, kCommitted, 11);
  ExpectQuiet(*reader);

  ASSERT_TRUE(a->Abort().ok());
  ExpectEnd(tp, kUncommitted, 21);
  ExpectEnd(tp, kCommitted, 21);
  EXPECT_THAT(Values(ReadTo(*reader, tp, Offset(21))), ElementsAre("v16", "v17", "v18"));

  ASSERT_TRUE(b->Begin().ok());
  Append(*b, Numbered(tp, 21, 4));
  ASSERT_TRUE(b->Abort().ok());
  EXPECT_THAT(ReadTo(*reader, tp, Offset(26)), IsEmpty());
  ExpectEnd(tp, kCommitted, 26);
}

TEST_P(LogContract, FlushTellsTheLastOffsetOfEachPartition) {
  const std::string topic = MakeTopic(2);
  const TopicPartition a{topic, Partition(0)}, b{topic, Partition(1)};
  const auto writer = MakeWriter(Unique("writer"));
  CommitRecords(*writer, Numbered(a, 0, 2));  // marker at 2
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Append(Numbered(a, 0, 3)).ok());
  ASSERT_TRUE(writer->Append(Numbered(b, 0, 1)).ok());
  ASSERT_TRUE(writer->Append(Numbered(a, 3, 1)).ok());
  const auto flushed = writer->Flush();
  ASSERT_TRUE(flushed.ok()) << flushed.status();
  EXPECT_EQ(flushed->size(), 2u);
  EXPECT_EQ(flushed->at(a), Offset(6));
  EXPECT_EQ(flushed->at(b), Offset(0));
  ASSERT_TRUE(writer->Commit().ok());
  // A new transaction starts from nothing.
  ASSERT_TRUE(writer->Begin().ok());
  EXPECT_THAT(*writer->Flush(), IsEmpty());
  ASSERT_TRUE(writer->Commit().ok());
}

TEST_P(LogContract, AnEmptyTransactionLeavesNoTrace) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  const auto writer = MakeWriter(Unique("writer"));
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Commit().ok());
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Abort().ok());
  ExpectEnd(tp, kUncommitted, 0);
}

TEST_P(LogContract, ManyTransactionsInterleave) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  const auto a = MakeWriter(Unique("a")), b = MakeWriter(Unique("b"));
  std::vector<std::string> expected;
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(a->Begin().ok());
    ASSERT_TRUE(b->Begin().ok());
    Append(*a, {To(tp, "a", StrCat("a", round, ".0"))});
    Append(*b, {To(tp, "b", StrCat("b", round, ".0"))});
    Append(*a, {To(tp, "a", StrCat("a", round, ".1"))});
    const bool a_commits = round % 3 != 0, b_commits = round % 2 != 0;
    ASSERT_TRUE((b_commits ? b->Commit() : b->Abort()).ok());
    ASSERT_TRUE((a_commits ? a->Commit() : a->Abort()).ok());
    if (a_commits) expected.push_back(StrCat("a", round, ".0"));
    if (b_commits) expected.push_back(StrCat("b", round, ".0"));
    if (a_commits) expected.push_back(StrCat("a", round, ".1"));
  }
  ExpectEnd(tp, kCommitted, 100);
  EXPECT_EQ(Values(ReadAll(tp)), expected);
}

TEST_P(LogContract, PlainRecordsBehindAnOpenTransactionWaitForIt) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  const auto writer = MakeWriter(Unique("writer"));
  ASSERT_TRUE(writer->Begin().ok());
  Append(*writer, {To(tp, "k", "transactional")});
  WritePlain({To(tp, "k", "plain")});
  ExpectEnd(tp, kCommitted, 0);
  ASSERT_TRUE(writer->Commit().ok());
  ExpectEnd(tp, kCommitted, 3);
  EXPECT_THAT(Values(ReadAll(tp)), ElementsAre("transactional", "plain"));
}

TEST_P(LogContract, InitAbortsWhatTheEarlierWriterLeftOpen) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  const std::string id = Unique("writer");
  const auto first = MakeWriter(id);
  CommitRecords(*first, Numbered(tp, 0, 1));
  ASSERT_TRUE(first->Begin().ok());
  Append(*first, Numbered(tp, 1, 3));
  ExpectEnd(tp, kCommitted, 2);
  const auto second = MakeWriter(id);
  ExpectEnd(tp, kCommitted, 6);
  EXPECT_THAT(Values(ReadAll(tp)), ElementsAre("v0"));
  CommitRecords(*second, Numbered(tp, 4, 1));
  EXPECT_THAT(Values(ReadAll(tp)), ElementsAre("v0", "v4"));
}

TEST_P(LogContract, AFencedWriterMustBeRecreated) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  const std::string id = Unique("writer");
  const auto first = MakeWriter(id);
  ASSERT_TRUE(first->Begin().ok());
  Append(*first, Numbered(tp, 0, 1));
  const auto second = MakeWriter(id);
  const absl::Status fenced = first->Commit();
  EXPECT_FALSE(fenced.ok());
  EXPECT_EQ(RecoveryOf(fenced), Recovery::kRecreate) << fenced;
  EXPECT_EQ(RecoveryOf(first->Abort()), Recovery::kRecreate);
  EXPECT_EQ(RecoveryOf(first->Begin()), Recovery::kRecreate);
  CommitRecords(*second, Numbered(tp, 1, 1));
  EXPECT_THAT(Values(ReadAll(tp)), ElementsAre("v1"));
}

TEST_P(LogContract, AFencedWriterCannotAppend) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  const std::string id = Unique("writer");
  const auto first = MakeWriter(id);
  const auto second = MakeWriter(id);
  absl::Status status = first->Begin();
  if (status.ok()) status = first->Append(Numbered(tp, 0, 1));
  if (status.ok()) status = first->Flush().status();
  EXPECT_EQ(RecoveryOf(status), Recovery::kRecreate) << status;
  ExpectEnd(tp, kUncommitted, 0);
}

TEST_P(LogContract, AnExpiredTransactionIsAbortedAndItsWriterFenced) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  const auto writer = MakeWriter(Unique("writer"), absl::Seconds(1));
  ASSERT_TRUE(writer->Begin().ok());
  Append(*writer, Numbered(tp, 0, 2));
  EXPECT_TRUE(Eventually(
      [&] {
        const auto end = admin().EndOffset(tp, kCommitted);
        return end.ok() && *end == Offset(3);
      },
      absl::Seconds(1) + backend_->expiry_scan()));
  EXPECT_THAT(ReadAll(tp), IsEmpty());
  const absl::Status status = writer->Commit();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(RecoveryOf(status), Recovery::kRecreate) << status;
}

TEST_P(LogContract, TooLargeARecordIsRefusedAndNothingOfItsTransactionStays) {
  const TopicPartition tp{MakeTopic(1, {{"max.message.bytes", "1000"}}), Partition(0)};
  const auto writer = MakeWriter(Unique("writer"));
  ASSERT_TRUE(writer->Begin().ok());
  Append(*writer, Numbered(tp, 0, 1));
  absl::Status status = writer->Append({To(tp, "the-key", std::string(2000, 'x'))});
  if (status.ok()) status = writer->Flush().status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(RecoveryOf(status), Recovery::kAbort);
  EXPECT_THAT(MessageOf(status), HasSubstr(tp.topic));
  EXPECT_FALSE(writer->Commit().ok());
  ASSERT_TRUE(writer->Abort().ok());
  CommitRecords(*writer, Numbered(tp, 1, 1));
  EXPECT_THAT(Values(ReadAll(tp)), ElementsAre("v1"));
}

TEST_P(LogContract, ACompactedTopicWantsKeys) {
  const TopicPartition tp{MakeTopic(1, {{"cleanup.policy", "compact"}}), Partition(0)};
  const auto writer = MakeWriter(Unique("writer"));
  ASSERT_TRUE(writer->Begin().ok());
  absl::Status status = writer->Append({To(tp, std::nullopt, "x")});
  if (status.ok()) status = writer->Flush().status();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(RecoveryOf(status), Recovery::kAbort) << status;
  ASSERT_TRUE(writer->Abort().ok());
}

TEST_P(LogContract, WritersOfManyThreadsDoNotDisturbEachOther) {
  const std::string topic = MakeTopic(2);
  std::vector<std::unique_ptr<TransactionalWriter>> writers;
  for (int w = 0; w < 4; ++w) writers.push_back(MakeWriter(Unique("writer")));
  std::vector<std::thread> threads;
  for (int w = 0; w < 4; ++w) {
    threads.emplace_back([&, w] {
      for (int i = 0; i < 25; ++i) {
        EXPECT_TRUE(writers[w]->Begin().ok());
        for (int p = 0; p < 2; ++p) {
          EXPECT_TRUE(writers[w]->Append({To({topic, Partition(p)}, StrCat(w), StrCat(i))}).ok());
        }
        EXPECT_TRUE(writers[w]->Flush().ok());  // an abort may throw away what was not sent yet
        EXPECT_TRUE((i % 5 == 4 ? writers[w]->Abort() : writers[w]->Commit()).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int p = 0; p < 2; ++p) {
    const TopicPartition tp{topic, Partition(p)};
    ExpectEnd(tp, kCommitted, 200);
    std::map<std::string, int> next;
    int count = 0;
    for (const Record& record : ReadAll(tp)) {
      int& expected = next[*record.key];
      if (expected % 5 == 4) ++expected;
      EXPECT_EQ(record.value, StrCat(expected++));
      ++count;
    }
    EXPECT_EQ(count, 80);
  }
}

// A reader that follows must see each transaction whole: all of its records on both partitions or none, in order.
TEST_P(LogContract, AFollowingReaderSeesEveryCommittedRecordOnce) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  const auto reader = log().NewReader({});
  ASSERT_TRUE(reader->Add(tp, Offset(0)).ok());
  const auto writer = MakeWriter(Unique("writer"));
  std::thread producing([&] {
    for (int i = 0; i < 60; ++i) {
      EXPECT_TRUE(writer->Begin().ok());
      EXPECT_TRUE(writer->Append(Numbered(tp, i * 10, 10)).ok());
      EXPECT_TRUE(writer->Flush().ok());  // an abort may throw away what was not sent yet
      EXPECT_TRUE((i % 4 == 3 ? writer->Abort() : writer->Commit()).ok());
    }
  });
  const std::vector<Record> records = ReadTo(*reader, tp, Offset(660));
  producing.join();
  std::vector<std::string> expected;
  for (int i = 0; i < 600; ++i) {
    if (i / 10 % 4 != 3) expected.push_back(StrCat("v", i));
  }
  EXPECT_EQ(Values(records), expected);
}

}  // namespace
}  // namespace millstream::log
