// Disk full and I/O errors: clear errors, nothing half visible, and the log goes on when the cause is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/embedded/failing_file_system.h"
#include "common/log/embedded/open.h"
#include "common/log/embedded/test_folder.h"

namespace millstream::log::embedded {
namespace {

using Mode = FailingFileSystem::Mode;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kPartitions = 2;

class IoErrors : public testing::Test {
 protected:
  IoErrors() {
    log_ = Open(folder_.path());
    MS_CHECK_OK(log_->admin().CreateTopic({"t", kPartitions, -1, {}}));
  }

  std::unique_ptr<EmbeddedLog> Open(const std::string& directory) {
    EmbeddedLogOptions options;
    options.directory = directory;
    options.maintenance_interval = absl::ZeroDuration();
    options.memtable_bytes = 128 << 10;
    InternalOptions internal;
    internal.file_system = files_;
    internal.segment_bytes = 20'000;
    auto log = OpenLog(options, internal);
    MS_CHECK_OK(log);
    return *std::move(log);
  }

  static std::vector<OutgoingRecord> Records(int number) {
    std::vector<OutgoingRecord> records(2 * kPartitions);
    for (size_t i = 0; i < records.size(); ++i) {
      records[i].to = {"t", Partition(static_cast<int32_t>(i) % kPartitions)};
      records[i].value = StrCat(number, " ", std::string(500, 'x'));
    }
    return records;
  }

  // A writer after Init, which is tried as long as the log says it may succeed.
  std::unique_ptr<TransactionalWriter> Writer(absl::Duration patience = absl::Seconds(20)) {
    auto writer = log_->NewTransactionalWriter({"w"});
    const absl::Duration until = SystemClock().Monotonic() + patience;
    absl::Status status = writer->Init();
    while (RecoveryOf(status) == Recovery::kRetry && SystemClock().Monotonic() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      status = writer->Init();
    }
    EXPECT_TRUE(status.ok()) << status;
    return writer;
  }

  static absl::Status Commit(TransactionalWriter& writer, int number) {
    MS_RETURN_IF_ERROR(writer.Begin());
    MS_RETURN_IF_ERROR(writer.Append(Records(number)));
    return writer.Commit();
  }

  // Numbers of the transactions seen by a read_committed reader; fails if one is seen in part.
  static std::multiset<int> Seen(EmbeddedLog& log) {
    std::multiset<int> first;
    for (int p = 0; p < kPartitions; ++p) {
      std::multiset<int> seen;
      auto reader = log.NewReader({});
      MS_CHECK_OK(reader->Add({"t", Partition(p)}, Offset(0)));
      for (bool end = false; !end;) {
        const auto events = reader->Poll(absl::Seconds(5));
        MS_CHECK_OK(events);
        if (events->empty()) return ADD_FAILURE() << "no end", first;
        for (const ReaderEvent& event : *events) {
          end = end || std::holds_alternative<EndOfPartition>(event);
          const auto* read = std::get_if<RecordsRead>(&event);
          if (read == nullptr) continue;
          for (const Record& record : read->records) seen.insert(std::stoi(*record.value));
        }
      }
      for (int number : seen) EXPECT_EQ(seen.count(number), 2u) << "transaction " << number << " on partition " << p;
      if (p == 0) first = seen;
      EXPECT_EQ(seen, first);
    }
    std::multiset<int> once;
    for (int number : std::set<int>(first.begin(), first.end())) once.insert(number);
    return once;
  }

  // The folder as a crash at this moment would leave it, opened.
  std::multiset<int> SeenAfterCrashNow() {
    TestFolder copy;
    std::filesystem::copy(folder_.path(), copy.path() + "/c", std::filesystem::copy_options::recursive);
    const auto log = Open(copy.path() + "/c");
    return Seen(*log);
  }

  // The disk has room again. Mostly RocksDB goes on by itself; where it does not, the log says that it has to be opened
  // again, or keeps naming the full disk, and that is done here. Returns a writer that can begin.
  std::unique_ptr<TransactionalWriter> AfterRoomWasMade(std::unique_ptr<TransactionalWriter> writer) {
    files_->Set(Mode::kHealthy);
    const absl::Duration until = SystemClock().Monotonic() + absl::Seconds(12);  // RocksDB looks for room every 5 s
    absl::Status status;
    do {
      writer = log_->NewTransactionalWriter({"w"});
      status = writer->Init();
      if (status.ok()) return writer;
      EXPECT_TRUE(absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
                  std::string(status.message()).find("until it is opened again") != std::string::npos)
          << status;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } while (RecoveryOf(status) == Recovery::kRetry && SystemClock().Monotonic() < until);
    writer.reset();
    log_.reset();
    log_ = Open(folder_.path());
    return Writer();
  }

  TestFolder folder_;
  std::shared_ptr<FailingFileSystem> files_ = std::make_shared<FailingFileSystem>();
  std::unique_ptr<EmbeddedLog> log_;
};

TEST_F(IoErrors, ADiskThatIsFullDuringAppends) {
  auto writer = Writer();
  ASSERT_TRUE(Commit(*writer, 1).ok());
  ASSERT_TRUE(writer->Begin().ok());
  files_->Set(Mode::kDiskFull);
  const absl::Status status = writer->Append(Records(2));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(RecoveryOf(status), Recovery::kAbort);
  EXPECT_THAT(std::string(status.message()), HasSubstr("disk full"));
  EXPECT_THAT(Seen(*log_), ElementsAre(1));  // reading goes on
  writer = AfterRoomWasMade(std::move(writer));
  EXPECT_THAT(Seen(*log_), ElementsAre(1));
  ASSERT_TRUE(Commit(*writer, 3).ok());
  EXPECT_THAT(Seen(*log_), ElementsAre(1, 3));
  EXPECT_THAT(SeenAfterCrashNow(), ElementsAre(1, 3));
}

TEST_F(IoErrors, ADiskThatIsFullAtTheCommit) {
  auto writer = Writer();
  ASSERT_TRUE(Commit(*writer, 1).ok());
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Append(Records(2)).ok());
  files_->Set(Mode::kDiskFull);
  const absl::Status status = writer->Commit();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(IsOutcomeUnknown(status));
  EXPECT_EQ(RecoveryOf(status), Recovery::kRecreate);
  // It stays undecided, so invisible, until Init can settle it.
  EXPECT_THAT(Seen(*log_), ElementsAre(1));
  EXPECT_FALSE(log_->NewTransactionalWriter({"w"})->Init().ok());
  writer = AfterRoomWasMade(std::move(writer));
  EXPECT_THAT(Seen(*log_), ElementsAre(1));
  ASSERT_TRUE(Commit(*writer, 3).ok());
  EXPECT_THAT(Seen(*log_), ElementsAre(1, 3));
  EXPECT_THAT(SeenAfterCrashNow(), ElementsAre(1, 3));
  writer.reset();
  log_.reset();
  log_ = Open(folder_.path());
  EXPECT_THAT(Seen(*log_), ElementsAre(1, 3));
}

TEST_F(IoErrors, ASyncThatFailsAtTheCommitEndsTheLogUntilItIsOpenedAgain) {
  auto writer = Writer();
  ASSERT_TRUE(Commit(*writer, 0).ok());
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Append(Records(1)).ok());
  files_->Set(Mode::kSyncsFail);
  const absl::Status status = writer->Commit();
  EXPECT_TRUE(IsOutcomeUnknown(status)) << status;
  EXPECT_THAT(Seen(*log_), ElementsAre(0));
  files_->Set(Mode::kHealthy);
  const absl::Status init = log_->NewTransactionalWriter({"w"})->Init();
  EXPECT_TRUE(absl::IsInternal(init)) << init;
  EXPECT_EQ(RecoveryOf(init), Recovery::kNone);
  EXPECT_THAT(std::string(init.message()), HasSubstr("opened again"));
  EXPECT_TRUE(absl::IsInternal(log_->admin().CreateTopic({"u", 1, -1, {}})));
  EXPECT_THAT(Seen(*log_), ElementsAre(0));  // reading goes on, and it stays undecided
  writer.reset();
  log_.reset();
  log_ = Open(folder_.path());
  // The marker was written; only its sync failed.
  EXPECT_THAT(Seen(*log_), ElementsAre(0, 1));
  writer = Writer();
  ASSERT_TRUE(Commit(*writer, 2).ok());
  EXPECT_THAT(Seen(*log_), ElementsAre(0, 1, 2));
}

TEST_F(IoErrors, AdminCallsFailWithoutTraces) {
  files_->Set(Mode::kDiskFull);
  EXPECT_FALSE(log_->admin().CreateTopic({"u", 1, -1, {}}).ok());
  EXPECT_TRUE(absl::IsNotFound(log_->admin().DescribeTopic("u").status()));
  EXPECT_FALSE(log_->admin().DeleteTopic("t").ok());
  EXPECT_TRUE(log_->admin().DescribeTopic("t").ok());
  EXPECT_FALSE(log_->JoinGroup("g", "m").ok());
  EXPECT_FALSE(log_->admin().SetGroupOffsets("g", {{{"t", Partition(0)}, {Offset(1), ""}}}).ok());
  EXPECT_TRUE(log_->admin().ListGroups()->empty());
  files_->Set(Mode::kHealthy);
  absl::Status made;
  const absl::Duration until = SystemClock().Monotonic() + absl::Seconds(20);
  do {
    made = log_->admin().CreateTopic({"u", 1, -1, {}});
  } while (!made.ok() && SystemClock().Monotonic() < until);
  EXPECT_TRUE(made.ok()) << made;
}

// Faults come and go at random; what was reported as committed stays, what was reported as aborted never shows up.
TEST_F(IoErrors, ComingAndGoingAtRandom) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937 random(seed);
  std::multiset<int> committed;
  auto writer = Writer();
  for (int number = 0; number < 60; ++number) {
    SCOPED_TRACE(StrCat("transaction ", number));
    std::thread trouble([&, when = random() % 3000, mode = static_cast<Mode>(random() % 4)] {
      std::this_thread::sleep_for(std::chrono::microseconds(when));
      files_->Set(mode);
    });
    const absl::Status status = Commit(*writer, number);
    trouble.join();
    if (random() % 3 == 0) Seen(*log_);
    files_->Set(Mode::kHealthy);
    if (status.ok()) {
      committed.insert(number);
      continue;
    }
    const Recovery recovery = RecoveryOf(status);
    ASSERT_TRUE(recovery == Recovery::kAbort || recovery == Recovery::kRecreate) << status;
    if (recovery == Recovery::kAbort && writer->Abort().ok()) continue;
    writer.reset();
    if (absl::IsInternal(log_->NewTransactionalWriter({"w"})->Init())) {
      log_.reset();
      log_ = Open(folder_.path());
    }
    writer = Writer();
    const std::multiset<int> seen = Seen(*log_);
    if (IsOutcomeUnknown(status) && seen.contains(number)) committed.insert(number);
    ASSERT_EQ(seen, committed);
  }
  EXPECT_EQ(Seen(*log_), committed);
  EXPECT_EQ(SeenAfterCrashNow(), committed);
}

}  // namespace
}  // namespace millstream::log::embedded
