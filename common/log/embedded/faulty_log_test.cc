#include "common/log/testing/faulty_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "common/base/status.h"
#include "common/log/embedded/embedded_log.h"
#include "common/log/embedded/test_folder.h"

namespace millstream::log {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class FaultyLogTest : public testing::Test {
 protected:
  FaultyLogTest() {
    EmbeddedLogOptions options;
    options.directory = folder_.path();
    auto log = EmbeddedLog::Open(options);
    MS_CHECK_OK(log);
    under_ = *std::move(log);
    faulty_ = std::make_unique<FaultyLog>(under_.get());
    MS_CHECK_OK(faulty_->admin().CreateTopic({"t", 1, -1, {}}));
  }

  std::unique_ptr<TransactionalWriter> Writer() {
    auto writer = faulty_->NewTransactionalWriter({"w"});
    EXPECT_TRUE(writer->Init().ok());
    return writer;
  }
  static std::vector<OutgoingRecord> One(const std::string& value) {
    OutgoingRecord record;
    record.to = tp();
    record.value = value;
    return {record};
  }
  static TopicPartition tp() { return {"t", Partition(0)}; }

  static absl::Status CommitOne(TransactionalWriter& writer, const std::string& value) {
    MS_RETURN_IF_ERROR(writer.Begin());
    MS_RETURN_IF_ERROR(writer.Append(One(value)));
    MS_RETURN_IF_ERROR(writer.Flush().status());
    return writer.Commit();
  }

  std::vector<std::string> Committed() {
    std::vector<std::string> values;
    auto reader = under_->NewReader({});
    MS_CHECK_OK(reader->Add(tp(), Offset(0)));
    for (;;) {
      const auto events = reader->Poll(absl::Seconds(5));
      for (const ReaderEvent& event : *events) {
        if (std::holds_alternative<EndOfPartition>(event)) return values;
        for (const Record& record : std::get<RecordsRead>(event).records) values.push_back(*record.value);
      }
    }
  }

  embedded::TestFolder folder_;
  std::unique_ptr<EmbeddedLog> under_;
  std::unique_ptr<FaultyLog> faulty_;
};

TEST_F(FaultyLogTest, DoesWhatTheLogUnderItDoes) {
  auto writer = Writer();
  EXPECT_TRUE(CommitOne(*writer, "a").ok());
  EXPECT_THAT(Committed(), ElementsAre("a"));
}

TEST_F(FaultyLogTest, BeforeMeansThatNothingHappened) {
  auto writer = Writer();
  const int fault = faulty_->Inject({.call = Call::kCommit, .of = "w", .skip = 1, .status = OutcomeUnknown()});
  EXPECT_TRUE(CommitOne(*writer, "a").ok());
  const absl::Status status = CommitOne(*writer, "b");
  EXPECT_TRUE(IsOutcomeUnknown(status));
  EXPECT_EQ(faulty_->Strikes(fault), 1);
  EXPECT_EQ(RecoveryOf(writer->Begin()), Recovery::kRecreate);  // useless from now on
  writer = Writer();
  EXPECT_THAT(Committed(), ElementsAre("a"));
  EXPECT_TRUE(CommitOne(*writer, "c").ok());
}

TEST_F(FaultyLogTest, AfterMeansThatItHappened) {
  auto writer = Writer();
  faulty_->Inject({.call = Call::kCommit, .when = Fault::When::kAfter, .status = OutcomeUnknown()});
  EXPECT_TRUE(IsOutcomeUnknown(CommitOne(*writer, "a")));
  EXPECT_THAT(Committed(), ElementsAre("a"));
}

TEST_F(FaultyLogTest, LaterMeansAtTheLatestBeforeTheNextInit) {
  auto writer = Writer();
  faulty_->Inject({.call = Call::kCommit, .times = 2, .when = Fault::When::kLater, .status = OutcomeUnknown()});
  EXPECT_TRUE(IsOutcomeUnknown(CommitOne(*writer, "a")));
  writer.reset();
  EXPECT_THAT(Committed(), IsEmpty());
  writer = Writer();
  EXPECT_THAT(Committed(), ElementsAre("a"));
  EXPECT_TRUE(IsOutcomeUnknown(CommitOne(*writer, "b")));
  faulty_->NeverHappen("w");
  writer = Writer();
  EXPECT_THAT(Committed(), ElementsAre("a"));
}

TEST_F(FaultyLogTest, AfterAnErrorThatWantsAnAbortOnlyAbortWorks) {
  auto writer = Writer();
  faulty_->Inject({.call = Call::kSendOffsets, .status = IllegalGeneration()});
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Append(One("a")).ok());
  EXPECT_EQ(RecoveryOf(writer->SendOffsets({}, {})), Recovery::kAbort);
  EXPECT_EQ(RecoveryOf(writer->Commit()), Recovery::kAbort);
  EXPECT_TRUE(writer->Abort().ok());
  EXPECT_TRUE(CommitOne(*writer, "b").ok());
  EXPECT_THAT(Committed(), ElementsAre("b"));
}

TEST_F(FaultyLogTest, HeldCallsWaitForTheirRelease) {
  auto writer = Writer();
  const int fault = faulty_->Inject({.call = Call::kCommit, .hold = true});
  absl::Status status = absl::UnknownError("not done");
  std::thread committing([&] { status = CommitOne(*writer, "a"); });
  ASSERT_TRUE(faulty_->WaitUntilHeld(fault, absl::Seconds(10)));
  EXPECT_THAT(Committed(), IsEmpty());
  faulty_->Release(fault);
  committing.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(Committed(), ElementsAre("a"));
}

TEST_F(FaultyLogTest, FailedPartitionsAreSilentUntilSeek) {
  auto writer = Writer();
  ASSERT_TRUE(CommitOne(*writer, "a").ok());
  auto reader = faulty_->NewReader({});
  ASSERT_TRUE(reader->Add(tp(), Offset(0)).ok());
  ASSERT_EQ(reader->Poll(absl::Seconds(5))->size(), 2u);
  faulty_->FailPartition(tp(), absl::OutOfRangeError("injected"));
  auto events = reader->Poll(absl::Seconds(5));
  while (events->empty()) events = reader->Poll(absl::Seconds(5));
  EXPECT_TRUE(absl::IsOutOfRange(std::get<PartitionFailed>(events->at(0)).status));
  ASSERT_TRUE(CommitOne(*writer, "b").ok());
  EXPECT_TRUE(reader->Poll(absl::Milliseconds(20))->empty());
  ASSERT_TRUE(reader->Seek(tp(), Offset(2)).ok());
  events = reader->Poll(absl::Seconds(5));
  EXPECT_EQ(std::get<RecordsRead>(events->at(0)).records[0].value, "b");
}

TEST_F(FaultyLogTest, AdminCallsFailToo) {
  faulty_->Inject(
      {.call = Call::kStableGroupOffsets, .of = "g", .times = 2, .status = absl::UnavailableError("injected")});
  EXPECT_TRUE(faulty_->admin().StableGroupOffsets("other", {}).ok());
  EXPECT_FALSE(faulty_->admin().StableGroupOffsets("g", {}).ok());
  EXPECT_FALSE(faulty_->admin().StableGroupOffsets("g", {}).ok());
  EXPECT_TRUE(faulty_->admin().StableGroupOffsets("g", {}).ok());
}

}  // namespace
}  // namespace millstream::log
