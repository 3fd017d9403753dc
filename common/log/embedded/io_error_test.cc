// Disk full and I/O errors: clear errors, nothing half visible, and the log goes on when the cause is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
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

  // Commits, and again as long as the log says that an abort is all that is needed.
  static absl::Status CommitPatiently(TransactionalWriter& writer, int number) {
    const absl::Duration until = SystemClock().Monotonic() + absl::Seconds(20);
    for (;;) {
      const absl::Status status = Commit(writer, number);
      if (RecoveryOf(status) != Recovery::kAbort || SystemClock().Monotonic() > until) return status;
      MS_RETURN_IF_ERROR(writer.Abort());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
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

  using Files = std::map<std::string, std::pair<uintmax_t, std::filesystem::file_time_type>>;
  static Files FilesIn(const std::string& directory) {
    Files files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
      if (entry.is_regular_file()) files[entry.path()] = {entry.file_size(), entry.last_write_time()};
    }
    return files;
  }

  // The folder as a crash at this moment would leave it, opened in `copy`. Copied again if something changed meanwhile.
  std::unique_ptr<EmbeddedLog> OpenAfterCrashNow(const TestFolder& copy) {
    const std::string to = copy.path() + "/c";
    for (const absl::Duration until = SystemClock().Monotonic() + absl::Seconds(30);;) {
      std::filesystem::remove_all(to);
      bool moved = false;
      try {
        const Files before = FilesIn(folder_.path());
        std::filesystem::copy(folder_.path(), to, std::filesystem::copy_options::recursive);
        moved = FilesIn(folder_.path()) != before;
      } catch (const std::filesystem::filesystem_error&) {
        moved = true;  // a file went away while it was looked at
      }
      if (!moved) return Open(to);
      MS_CHECK(SystemClock().Monotonic() < until);  // the folder is never at rest
    }
  }
  std::multiset<int> SeenAfterCrashNow() {
    TestFolder copy;
    return Seen(*OpenAfterCrashNow(copy));
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
  files_->Set(Mode::kHealthy);
  ASSERT_TRUE(writer->Abort().ok());
  EXPECT_THAT(Seen(*log_), ElementsAre(1));
  ASSERT_TRUE(CommitPatiently(*writer, 3).ok());  // the same writer goes on
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
  files_->Set(Mode::kHealthy);
  writer = Writer();
  EXPECT_THAT(Seen(*log_), ElementsAre(1));
  ASSERT_TRUE(Commit(*writer, 3).ok());
  EXPECT_THAT(Seen(*log_), ElementsAre(1, 3));
  EXPECT_THAT(SeenAfterCrashNow(), ElementsAre(1, 3));
  writer.reset();
  log_.reset();
  log_ = Open(folder_.path());
  EXPECT_THAT(Seen(*log_), ElementsAre(1, 3));
}

TEST_F(IoErrors, WhatASyncThatFailedHasComeToIsFoundOut) {
  auto writer = Writer();
  ASSERT_TRUE(Commit(*writer, 0).ok());
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Append(Records(1)).ok());
  files_->Set(Mode::kSyncsFail);
  const absl::Status status = writer->Commit();
  EXPECT_TRUE(IsOutcomeUnknown(status)) << status;
  EXPECT_EQ(RecoveryOf(log_->NewTransactionalWriter({"w"})->Init()), Recovery::kRetry);
  EXPECT_THAT(Seen(*log_), ElementsAre(0));  // reading goes on, and it stays undecided
  files_->Set(Mode::kHealthy);
  writer = Writer();
  // The marker was written; only its sync failed.
  EXPECT_THAT(Seen(*log_), ElementsAre(0, 1));
  EXPECT_THAT(SeenAfterCrashNow(), ElementsAre(0, 1));
  ASSERT_TRUE(Commit(*writer, 2).ok());
  EXPECT_THAT(Seen(*log_), ElementsAre(0, 1, 2));
  EXPECT_THAT(SeenAfterCrashNow(), ElementsAre(0, 1, 2));
}

// The one case that ends in a restart: records that readers may have seen are not there any more.
TEST_F(IoErrors, ADiskThatLosesWhatItCouldNotSyncEndsTheLogUntilItIsOpenedAgain) {
  auto writer = Writer();
  ASSERT_TRUE(Commit(*writer, 0).ok());
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Append(Records(1)).ok());
  files_->Set(Mode::kSyncsLose);
  EXPECT_TRUE(IsOutcomeUnknown(writer->Commit()));
  files_->Set(Mode::kHealthy);
  absl::Status init = log_->NewTransactionalWriter({"w"})->Init();
  EXPECT_TRUE(absl::IsInternal(init)) << init;
  EXPECT_EQ(RecoveryOf(init), Recovery::kNone);
  EXPECT_THAT(std::string(init.message()), HasSubstr("opened again"));
  EXPECT_TRUE(absl::IsInternal(log_->admin().CreateTopic({"u", 1, -1, {}})));
  EXPECT_THAT(Seen(*log_), ElementsAre(0));  // reading goes on
  writer.reset();
  log_.reset();
  log_ = Open(folder_.path());
  EXPECT_THAT(Seen(*log_), ElementsAre(0));  // lost, as the unknown outcome said it may be
  writer = Writer();
  ASSERT_TRUE(Commit(*writer, 2).ok());
  EXPECT_THAT(Seen(*log_), ElementsAre(0, 2));
}

TEST_F(IoErrors, AnAppendThatFailedAndIsInTheFileAllTheSameHasNotHappened) {
  auto writer = Writer();
  ASSERT_TRUE(Commit(*writer, 1).ok());
  // Two batches on partition 0: the second one, of many records, begins where the next transaction has its middle.
  std::vector<OutgoingRecord> failing(22);
  for (size_t i = 0; i < failing.size(); ++i) {
    failing[i].to = {"t", Partition(0)};
    failing[i].value = StrCat("2 ", std::string(i < 2 ? 100'000 : 10, 'x'));
  }
  ASSERT_TRUE(writer->Begin().ok());
  files_->Set(Mode::kWritesFailLate);
  EXPECT_EQ(RecoveryOf(writer->Append(failing)), Recovery::kAbort);
  files_->Set(Mode::kHealthy);
  ASSERT_TRUE(writer->Abort().ok());
  for (int number = 3; number < 8; ++number) ASSERT_TRUE(CommitPatiently(*writer, number).ok());
  EXPECT_THAT(Seen(*log_), ElementsAre(1, 3, 4, 5, 6, 7));
  EXPECT_THAT(SeenAfterCrashNow(), ElementsAre(1, 3, 4, 5, 6, 7));
}

// However far the write of an end comes: records and offsets are committed together or not at all, and stay so.
TEST_F(IoErrors, RecordsAndOffsetsStandOrFallTogether) {
  const GroupToken token = *log_->JoinGroup("g", "m");
  std::multiset<int> committed;
  int64_t offset = 0;
  const auto offset_in = [](EmbeddedLog& log) {
    const auto offsets = log.admin().StableGroupOffsets("g", {{"t", Partition(0)}});
    MS_CHECK_OK(offsets);
    return offsets->empty() ? 0 : offsets->begin()->second.next.value();
  };
  int number = 0, failures = 0;
  for (const Mode mode : {Mode::kDiskFull, Mode::kWritesFail, Mode::kWritesFailLate}) {
    for (int writes = 0; writes < 3; ++writes) {
      SCOPED_TRACE(StrCat("mode ", static_cast<int>(mode), " after ", writes, " writes"));
      auto writer = Writer();
      ASSERT_TRUE(writer->Begin().ok());
      ASSERT_TRUE(writer->Append(Records(++number)).ok());
      ASSERT_TRUE(writer->SendOffsets(token, {{{"t", Partition(0)}, {Offset(number), ""}}}).ok());
      files_->SetAfterLogWrites(writes, mode);
      const absl::Status status = writer->Commit();
      files_->Set(Mode::kHealthy);
      if (status.ok()) {
        committed.insert(number);
        offset = number;
      } else {
        ++failures;
        EXPECT_TRUE(IsOutcomeUnknown(status)) << status;
        writer = Writer();
      }
      EXPECT_EQ(Seen(*log_), committed);
      EXPECT_EQ(offset_in(*log_), offset);
      TestFolder copy;
      const auto after_crash = OpenAfterCrashNow(copy);
      EXPECT_EQ(Seen(*after_crash), committed);
      EXPECT_EQ(offset_in(*after_crash), offset);
    }
  }
  EXPECT_EQ(failures, 3) << "an end is one write";
}

// Commits go on until a full write buffer finds no room for its table.
TEST_F(IoErrors, TablesThatFindNoRoom) {
  std::multiset<int> committed;
  auto writer = Writer();
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(StrCat("round ", round));
    files_->Set(Mode::kTablesFull);
    absl::Status status;
    int number = round * 1000;
    for (; status.ok() && number < round * 1000 + 1000; ++number) {
      status = Commit(*writer, number);
      if (status.ok()) committed.insert(number);
    }
    ASSERT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ(Seen(*log_), committed);
    EXPECT_FALSE(log_->NewTransactionalWriter({"w"})->Init().ok());
    EXPECT_EQ(Seen(*log_), committed);  // also while it could not be opened to be written
    files_->Set(Mode::kHealthy);
    writer = Writer();
    // The marker of the last one may have been written before the table failed.
    if (IsOutcomeUnknown(status) && Seen(*log_).contains(number - 1)) committed.insert(number - 1);
    EXPECT_EQ(Seen(*log_), committed);
  }
  EXPECT_EQ(SeenAfterCrashNow(), committed);
}

TEST_F(IoErrors, ReadersThatAreReadingStay) {
  std::atomic<bool> done = false;
  std::vector<int> seen;
  std::thread reading([&] {
    auto reader = log_->NewReader({});
    MS_CHECK_OK(reader->Add({"t", Partition(0)}, Offset(0)));
    while (!done) {
      const auto events = reader->Poll(absl::Milliseconds(50));
      MS_CHECK_OK(events);
      for (const ReaderEvent& event : *events) {
        if (const auto* failed = std::get_if<PartitionFailed>(&event)) ADD_FAILURE() << failed->status;
        const auto* read = std::get_if<RecordsRead>(&event);
        if (read == nullptr) continue;
        for (const Record& record : read->records) seen.push_back(std::stoi(*record.value));
        done = !seen.empty() && seen.back() == 1'000'000;
      }
    }
  });
  std::vector<int> expected;
  const auto note = [&](int number) { expected.insert(expected.end(), 2, number); };
  const std::vector<Mode> modes = {Mode::kDiskFull, Mode::kWritesFail, Mode::kSyncsFail, Mode::kTablesFull};
  auto writer = Writer();
  for (int number = 0; number < 40; ++number) {
    ASSERT_TRUE(Commit(*writer, number).ok());
    note(number);
    files_->Set(modes[number % modes.size()]);
    const absl::Status status = Commit(*writer, 1000 + number);
    log_->JoinGroup("g", "m").IgnoreError();  // tries to heal it in vain
    files_->Set(Mode::kHealthy);
    writer = Writer();
    if (status.ok() || (IsOutcomeUnknown(status) && Seen(*log_).contains(1000 + number))) note(1000 + number);
  }
  ASSERT_TRUE(Commit(*writer, 1'000'000).ok());
  note(1'000'000);
  const absl::Duration until = SystemClock().Monotonic() + absl::Seconds(30);
  while (!done && SystemClock().Monotonic() < until) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(done.exchange(true));
  reading.join();
  EXPECT_EQ(seen, expected);
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

// An error says nothing about whether it has happened; but memory and disk agree on it, now and after a crash.
TEST_F(IoErrors, AdminCallsWhoseSyncFailedHaveHappened) {
  MS_CHECK_OK(log_->admin().CreateTopic({"gone", 1, -1, {}}));
  MS_CHECK_OK(log_->admin().CreateTopic({"kept", 1, -1, {}}));
  MS_CHECK_OK(log_->admin().SetGroupOffsets("dead", {{{"kept", Partition(0)}, {Offset(1), ""}}}));
  const auto fail = [&](const std::function<absl::Status()>& call) {
    const GroupToken token = *log_->JoinGroup("any", "m");  // healed and well
    log_->LeaveGroup(token);
    files_->Set(Mode::kSyncsFail);
    const absl::Status status = call();
    files_->Set(Mode::kHealthy);
    const absl::Duration until = SystemClock().Monotonic() + absl::Seconds(20);
    while (!log_->JoinGroup("any", "m").ok() && SystemClock().Monotonic() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  };
  fail([&] { return log_->admin().CreateTopic({"new", 1, -1, {}}); });
  fail([&] { return log_->admin().DeleteTopic("gone"); });
  fail([&] { return log_->admin().SetGroupOffsets("set", {{{"kept", Partition(0)}, {Offset(7), ""}}}); });
  fail([&] { return log_->admin().DeleteGroup("dead"); });
  const auto check = [](EmbeddedLog& log) {
    std::vector<std::string> topics, groups;
    const auto listed = log.admin().ListTopics();
    for (const TopicInfo& topic : *listed) topics.push_back(topic.name);
    EXPECT_THAT(topics, ElementsAre("kept", "new", "t"));
    const auto known = log.admin().ListGroups();
    for (const GroupInfo& group : *known) groups.push_back(group.group);
    EXPECT_THAT(groups, ElementsAre("any", "set"));
    const auto offsets = log.admin().StableGroupOffsets("set", {{"kept", Partition(0)}});
    ASSERT_TRUE(offsets.ok() && offsets->size() == 1);
    EXPECT_EQ(offsets->begin()->second.next, Offset(7));
  };
  check(*log_);
  TestFolder copy;
  check(*OpenAfterCrashNow(copy));
}

TEST_F(IoErrors, APlainFlushThatReturnsOkIsOnTheDisk) {
  auto plain = log_->NewPlainWriter();
  ASSERT_TRUE(plain->Append(Records(1)).ok());
  files_->Set(Mode::kSyncsFail);
  EXPECT_TRUE(absl::IsUnavailable(plain->Flush().status()));
  files_->Set(Mode::kHealthy);
  const absl::Duration until = SystemClock().Monotonic() + absl::Seconds(20);
  absl::Status flushed;
  while (!(flushed = plain->Flush().status()).ok() && SystemClock().Monotonic() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(flushed.ok()) << flushed;
  EXPECT_THAT(Seen(*log_), ElementsAre(1));
  EXPECT_THAT(SeenAfterCrashNow(), ElementsAre(1));
}

// Faults come and go at random; what was reported as committed stays, what was reported as aborted never shows up.
TEST_F(IoErrors, ComingAndGoingAtRandom) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937 random(seed);
  const std::vector<Mode> modes = {Mode::kHealthy,    Mode::kDiskFull,       Mode::kTablesFull,
                                   Mode::kWritesFail, Mode::kWritesFailLate, Mode::kSyncsFail};
  std::multiset<int> committed;
  auto writer = Writer();
  int failures = 0;
  for (int number = 0; number < 2000 && failures < 15; ++number) {
    SCOPED_TRACE(StrCat("transaction ", number));
    const Mode mode = modes[random() % modes.size()];
    absl::Status status;
    if (random() % 2 == 0) {  // while it commits
      std::thread trouble([&, when = random() % 300] {
        std::this_thread::sleep_for(std::chrono::microseconds(when));
        files_->Set(mode);
      });
      status = Commit(*writer, number);
      trouble.join();
    } else {  // before its commit
      ASSERT_TRUE(writer->Begin().ok());
      status = writer->Append(Records(number));
      if (random() % 2 == 0) files_->Set(mode);
      if (status.ok()) status = writer->Commit();
    }
    if (random() % 3 == 0) Seen(*log_);
    if (random() % 3 == 0) log_->JoinGroup("g", "m").IgnoreError();  // tries to heal it in vain
    files_->Set(Mode::kHealthy);
    if (status.ok()) {
      committed.insert(number);
      continue;
    }
    ++failures;
    const Recovery recovery = RecoveryOf(status);
    ASSERT_TRUE(recovery == Recovery::kAbort || recovery == Recovery::kRecreate) << status;
    if (recovery == Recovery::kAbort && writer->Abort().ok()) {  // and the same writer goes on
      const absl::Duration until = SystemClock().Monotonic() + absl::Seconds(20);
      while (!log_->JoinGroup("g", "m").ok() && SystemClock().Monotonic() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      continue;
    }
    writer = Writer();
    const std::multiset<int> seen = Seen(*log_);
    if (IsOutcomeUnknown(status) && seen.contains(number)) committed.insert(number);
    ASSERT_EQ(seen, committed);
  }
  EXPECT_EQ(failures, 15);
  EXPECT_EQ(Seen(*log_), committed);
  EXPECT_EQ(SeenAfterCrashNow(), committed);
}

}  // namespace
}  // namespace millstream::log::embedded
