// kill -9 at random times: what was committed is all there, what was not is not there at all, offsets fit.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <map>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/embedded/open.h"
#include "common/log/embedded/spawn_self.h"
#include "common/log/embedded/test_folder.h"

namespace millstream::log::embedded {
namespace {

constexpr int kWriters = 3, kPartitions = 4, kRounds = 15;
constexpr int64_t kRecordsPerPartition = 5;

std::unique_ptr<EmbeddedLog> OpenIn(const std::string& directory) {
  EmbeddedLogOptions options;
  options.directory = directory;
  options.memtable_bytes = 256 << 10;  // flushes happen between the kills
  options.maintenance_interval = absl::Milliseconds(20);
  InternalOptions internal;
  internal.segment_bytes = 100'000;
  auto log = OpenLog(options, internal);
  MS_CHECK_OK(log);
  return *std::move(log);
}

TopicPartition Plain(int partition) { return {"plain", Partition(partition)}; }
TopicPartition Compacted(int partition) { return {"compacted", Partition(partition)}; }

// Everything transaction `number` of the writer writes: the same number of records on every partition of both topics.
std::vector<OutgoingRecord> RecordsOf(int writer, int64_t number) {
  std::vector<OutgoingRecord> records;
  for (int p = 0; p < kPartitions; ++p) {
    for (int64_t i = 0; i < kRecordsPerPartition; ++i) {
      for (const TopicPartition& to : {Plain(p), Compacted(p)}) {
        OutgoingRecord& record = records.emplace_back();
        record.to = to;
        record.key = StrCat(writer);
        record.value = StrCat(number, " ", std::string(50, 'x'));
      }
    }
  }
  return records;
}

// The child: `writer` commits numbered transactions as fast as it can, now and then aborting one, and says before and
// after each what it does.
void Produce(EmbeddedLog& log, const GroupToken& token, int writer, int64_t number) {
  auto transactional = log.NewTransactionalWriter({StrCat("writer-", writer)});
  MS_CHECK_OK(transactional->Init());
  for (int turn = 0;; ++turn) {
    MS_CHECK_OK(transactional->Begin());
    const bool commits = turn % 7 != 3;
    MS_CHECK_OK(transactional->Append(RecordsOf(writer, commits ? number : -1)));
    MS_CHECK_OK(transactional->SendOffsets(token, {{Plain(writer), {Offset(commits ? number : 999'999'999), ""}}}));
    if (!commits) {
      MS_CHECK_OK(transactional->Abort());
      continue;
    }
    SpawnedSelf::Tell(StrCat("try ", writer, " ", number, "\n"));
    MS_CHECK_OK(transactional->Commit());
    SpawnedSelf::Tell(StrCat("done ", writer, " ", number, "\n"));
    ++number;
  }
}

TEST(ChildProcess, Produces) {
  std::istringstream argument(SpawnedSelf::Argument());
  std::string directory;
  if (!(argument >> directory)) return;  // there is only something to do as the child of the test below
  auto log = OpenIn(directory);
  if (!log->admin().DescribeTopic("plain").ok()) {
    MS_CHECK_OK(log->admin().CreateTopic({"plain", kPartitions, -1, {}}));
  }
  if (!log->admin().DescribeTopic("compacted").ok()) {
    MS_CHECK_OK(log->admin().CreateTopic({"compacted", kPartitions, -1, {{"cleanup.policy", "compact"}}}));
  }
  auto token = log->JoinGroup("g", "m");
  MS_CHECK_OK(token);
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) {
    int64_t number = 0;
    argument >> number;
    threads.emplace_back([&log, &token, writer, number] { Produce(*log, *token, writer, number); });
  }
  for (;;) {
    const absl::Status status = log->RunMaintenance();
    MS_CHECK_OK(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// What the child said until now.
std::string ReadFor(int file, absl::Duration time) {
  std::string said;
  char buffer[4096];
  for (const absl::Duration until = SystemClock().Monotonic() + time;;) {
    const int64_t left = absl::ToInt64Milliseconds(until - SystemClock().Monotonic());
    pollfd waiting{file, POLLIN, 0};
    if (left < 0 || poll(&waiting, 1, static_cast<int>(left)) <= 0) return said;
    const ssize_t size = read(file, buffer, sizeof buffer);
    if (size <= 0) return said;
    said.append(buffer, size);
  }
}

// The first thing the child says; nothing if it says nothing in this time.
std::string ReadSome(int file, absl::Duration time) {
  char buffer[4096];
  pollfd waiting{file, POLLIN, 0};
  if (poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(time))) <= 0) return "";
  const ssize_t size = read(file, buffer, sizeof buffer);
  return size <= 0 ? "" : std::string(buffer, size);
}

class CrashTest : public testing::Test {
 protected:
  // Per writer the highest transaction it began to commit, and the highest it was told is committed.
  std::map<int, int64_t> tried_, done_;
  std::map<int, int64_t> next_;

  void TakeNote(const std::string& said) {
    std::istringstream lines(said.substr(0, said.rfind('\n') + 1));
    std::string what;
    int writer;
    int64_t number;
    while (lines >> what >> writer >> number) (what == "try" ? tried_ : done_)[writer] = number;
  }

  // value -> how often, per writer, as a read_committed reader sees it.
  static std::map<int, std::map<int64_t, int64_t>> Count(EmbeddedLog& log, const TopicPartition& tp) {
    std::map<int, std::map<int64_t, int64_t>> counts;
    auto reader = log.NewReader({});
    MS_CHECK_OK(reader->Add(tp, *log.admin().StartOffset(tp)));
    for (;;) {
      auto events = reader->Poll(absl::Seconds(10));
      MS_CHECK_OK(events);
      MS_CHECK(!events->empty());
      for (const ReaderEvent& event : *events) {
        if (std::holds_alternative<EndOfPartition>(event)) return counts;
        const auto* read = std::get_if<RecordsRead>(&event);
        MS_CHECK(read != nullptr);
        for (const Record& record : read->records) ++counts[std::stoi(*record.key)][std::stoll(*record.value)];
      }
    }
  }

  void Verify(EmbeddedLog& log) {
    for (int p = 0; p < kPartitions; ++p) {
      for (const TopicPartition& tp : {Plain(p), Compacted(p)}) {
        SCOPED_TRACE(tp.ToString());
        ASSERT_EQ(*log.admin().EndOffset(tp, Isolation::kReadCommitted),
                  *log.admin().EndOffset(tp, Isolation::kReadUncommitted));
        auto counts = Count(log, tp);
        for (int writer = 0; writer < kWriters; ++writer) {
          SCOPED_TRACE(StrCat("writer ", writer));
          const auto& of_writer = counts[writer];
          const int64_t last = of_writer.empty() ? -1 : of_writer.rbegin()->first;
          // All or nothing for what was under way, and the same on every partition.
          if (p == 0 && tp == Plain(0)) {
            next_[writer] = last + 1;
            ASSERT_GE(last, done_.contains(writer) ? done_[writer] : -1);
            ASSERT_LE(last, std::max(tried_.contains(writer) ? tried_[writer] : -1, last_before_[writer]));
          }
          ASSERT_EQ(last + 1, next_[writer]);
          if (tp.topic == "compacted") continue;
          ASSERT_EQ(static_cast<int64_t>(of_writer.size()), last + 1);
          for (const auto& [number, count] : of_writer)
            ASSERT_EQ(count, kRecordsPerPartition) << "transaction " << number;
        }
      }
    }
    for (int writer = 0; writer < kWriters; ++writer) {
      const auto offsets = log.admin().StableGroupOffsets("g", {Plain(writer)});
      ASSERT_TRUE(offsets.ok()) << offsets.status();
      if (next_[writer] == 0) {
        ASSERT_TRUE(offsets->empty());
      } else {
        ASSERT_EQ(offsets->begin()->second.next, Offset(next_[writer] - 1));
      }
      last_before_[writer] = next_[writer] - 1;
    }
  }

  std::map<int, int64_t> last_before_;
};

TEST_F(CrashTest, KillAtRandomTimes) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937 random(seed);
  TestFolder folder;
  for (int writer = 0; writer < kWriters; ++writer) last_before_[writer] = -1;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(StrCat("round ", round));
    std::string argument = folder.path();
    for (int writer = 0; writer < kWriters; ++writer) StrAppend(&argument, " ", next_[writer]);
    {
      SpawnedSelf child("ChildProcess.Produces", argument);
      // Mostly some time after the first sign of work, sometimes while it still opens the log.
      std::string said;
      if (random() % 4 != 0) said = ReadSome(child.output(), absl::Seconds(30));
      said += ReadFor(child.output(), absl::Milliseconds(random() % 300));
      child.Kill();
      said += ReadFor(child.output(), absl::Milliseconds(20));
      TakeNote(said);
    }
    auto log = OpenIn(folder.path());
    if (!log->admin().DescribeTopic("compacted").ok()) continue;
    Verify(*log);
    if (HasFatalFailure()) return;
  }
  int64_t committed = 0;
  for (const auto& [writer, next] : next_) committed += next;
  EXPECT_GT(committed, 0) << "the children were never fast enough to commit anything";
}

}  // namespace
}  // namespace millstream::log::embedded
