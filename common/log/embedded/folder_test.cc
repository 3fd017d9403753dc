// Opening: who holds the folder, which version wrote it, what is damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/embedded/embedded_log.h"
#include "common/log/embedded/spawn_self.h"
#include "common/log/embedded/test_folder.h"

namespace millstream::log::embedded {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

absl::StatusOr<std::unique_ptr<EmbeddedLog>> OpenIn(const std::string& directory) {
  EmbeddedLogOptions options;
  options.directory = directory;
  options.maintenance_interval = absl::ZeroDuration();
  return EmbeddedLog::Open(options);
}

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

void Fill(EmbeddedLog& log, int records) {
  MS_CHECK_OK(log.admin().CreateTopic({"t", 1, -1, {}}));
  auto writer = log.NewPlainWriter();
  for (int i = 0; i < records; ++i) {
    OutgoingRecord record;
    record.to = {"t", Partition(0)};
    record.value = StrCat(i, std::string(1000, 'x'));
    MS_CHECK_OK(writer->Append({record}));
  }
  MS_CHECK_OK(writer->Flush());
}

// What a reader of everything comes to: OK if all records come, else the error.
absl::Status ReadEverything(EmbeddedLog& log, int records) {
  auto reader = log.NewReader({});
  MS_RETURN_IF_ERROR(reader->Add({"t", Partition(0)}, Offset(0)));
  int seen = 0;
  for (;;) {
    MS_ASSIGN_OR_RETURN(const auto events, reader->Poll(absl::Seconds(5)));
    if (events.empty()) return absl::InternalError("nothing comes");
    for (const ReaderEvent& event : events) {
      if (const auto* failed = std::get_if<PartitionFailed>(&event)) return failed->status;
      if (const auto* read = std::get_if<RecordsRead>(&event)) seen += static_cast<int>(read->records.size());
      if (std::holds_alternative<EndOfPartition>(event)) {
        return seen == records ? absl::OkStatus() : absl::InternalError(StrCat("end after ", seen, " records"));
      }
    }
  }
}

void FlipByte(const fs::path& path, uintmax_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get() ^ 0x40);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

std::vector<fs::path> FilesLike(const TestFolder& folder, const std::string& part) {
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(folder.path() + "/db")) {
    if (file.path().filename().string().find(part) != std::string::npos) files.push_back(file.path());
  }
  return files;
}

TEST(Folder, IsMadeIfMissing) {
  TestFolder folder;
  const std::string deep = folder.path() + "/a/b";
  EXPECT_TRUE(OpenIn(deep).ok());
  EXPECT_TRUE(OpenIn(deep).ok());
}

TEST(Folder, ASecondHolderInTheProcessIsRefused) {
  TestFolder folder;
  auto first = OpenIn(folder.path());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = OpenIn(folder.path());
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status())) << second.status();
  EXPECT_THAT(MessageOf(second.status()), HasSubstr(StrCat("process ", getpid())));
}

TEST(Folder, AnotherProcessIsRefusedAndItsDeathFreesIt) {
  TestFolder folder;
  auto holder = std::make_unique<SpawnedSelf>("ChildProcess.HoldsAFolder", folder.path());
  char byte = 0;
  ASSERT_EQ(read(holder->output(), &byte, 1), 1);
  const auto refused = OpenIn(folder.path());
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_THAT(MessageOf(refused.status()), HasSubstr(StrCat("process ", holder->pid())));
  EXPECT_THAT(MessageOf(refused.status()), HasSubstr(folder.path()));
  holder.reset();  // by SIGKILL
  EXPECT_TRUE(OpenIn(folder.path()).ok());
}

TEST(ChildProcess, HoldsAFolder) {
  if (SpawnedSelf::Argument().empty()) return;  // there is only something to do as the child of the test above
  auto log = OpenIn(SpawnedSelf::Argument());
  ASSERT_TRUE(log.ok()) << log.status();
  SpawnedSelf::Tell("y");
  for (;;) pause();
}

TEST(Folder, ANewerFormatIsRefusedAndNotTouched) {
  TestFolder folder;
  ASSERT_TRUE(OpenIn(folder.path()).ok());
  std::ofstream(folder.path() + "/FORMAT") << "millstream embedded log, format 2\n";
  const auto refused = OpenIn(folder.path());
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_THAT(MessageOf(refused.status()), HasSubstr("format 2"));
}

TEST(Folder, ADamagedOrMissingStampIsDataLoss) {
  TestFolder folder;
  ASSERT_TRUE(OpenIn(folder.path()).ok());
  std::ofstream(folder.path() + "/FORMAT") << "\x7f\x45";
  const auto damaged = OpenIn(folder.path());
  EXPECT_TRUE(absl::IsDataLoss(damaged.status())) << damaged.status();
  EXPECT_THAT(MessageOf(damaged.status()), HasSubstr(folder.path() + "/FORMAT"));
  fs::remove(folder.path() + "/FORMAT");
  EXPECT_TRUE(absl::IsDataLoss(OpenIn(folder.path()).status()));
}

TEST(Folder, UnwritablePlacesAreNamed) {
  TestFolder folder;
  std::ofstream(folder.path() + "/file") << "x";
  const auto refused = OpenIn(folder.path() + "/file/log");
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(MessageOf(refused.status()), HasSubstr(folder.path() + "/file/log"));
}

TEST(Folder, OpenedAgainAGroupGoesOnBehindItsLastGeneration) {
  TestFolder folder;
  auto log = OpenIn(folder.path());
  ASSERT_TRUE(log.ok()) << log.status();
  MS_CHECK_OK((*log)->admin().CreateTopic({"t", 1, -1, {}}));
  MS_CHECK_OK((*log)->JoinGroup("g", "m"));
  const GroupToken old = *(*log)->JoinGroup("g", "m");
  log->reset();
  log = OpenIn(folder.path());
  ASSERT_TRUE(log.ok()) << log.status();
  const auto joined = (*log)->JoinGroup("g", "m");
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_GT(joined->generation, old.generation);
  auto writer = (*log)->NewTransactionalWriter({"w"});
  MS_CHECK_OK(writer->Init());
  MS_CHECK_OK(writer->Begin());
  const absl::Status stale = writer->SendOffsets(old, {{{"t", Partition(0)}, {Offset(1), ""}}});
  EXPECT_THAT(MessageOf(stale), HasSubstr("ILLEGAL_GENERATION")) << stale;
}

TEST(Folder, OpenedAgainADeletedTopicHasLeftNoOffsets) {
  TestFolder folder;
  auto log = OpenIn(folder.path());
  ASSERT_TRUE(log.ok()) << log.status();
  const TopicPartition tp{"t", Partition(0)};
  MS_CHECK_OK((*log)->admin().CreateTopic({"t", 1, -1, {}}));
  MS_CHECK_OK((*log)->admin().SetGroupOffsets("g", {{tp, {Offset(5), ""}}}));
  MS_CHECK_OK((*log)->admin().DeleteTopic("t"));
  MS_CHECK_OK((*log)->admin().CreateTopic({"t", 1, -1, {}}));
  log->reset();
  log = OpenIn(folder.path());
  ASSERT_TRUE(log.ok()) << log.status();
  const auto offsets = (*log)->admin().StableGroupOffsets("g", {tp});
  ASSERT_TRUE(offsets.ok()) << offsets.status();
  EXPECT_TRUE(offsets->empty());
}

TEST(Damage, InATableIsDataLossNamingTheFile) {
  TestFolder folder;
  Fill(**OpenIn(folder.path()), 2000);
  {
    auto log = OpenIn(folder.path());  // moves what the write-ahead log has into tables
    ASSERT_TRUE(log.ok());
    ASSERT_TRUE(ReadEverything(**log, 2000).ok());
  }
  fs::path largest;
  for (const fs::path& path : FilesLike(folder, ".sst")) {
    if (largest.empty() || fs::file_size(path) > fs::file_size(largest)) largest = path;
  }
  ASSERT_FALSE(largest.empty());
  FlipByte(largest, fs::file_size(largest) / 2);
  auto log = OpenIn(folder.path());
  const absl::Status status = log.ok() ? ReadEverything(**log, 2000) : log.status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(MessageOf(status), HasSubstr(largest.filename().string()));
}

TEST(Damage, InTheWriteAheadLogIsDataLossNamingTheFile) {
  TestFolder folder;
  Fill(**OpenIn(folder.path()), 200);
  fs::path wal;
  for (const fs::path& path : FilesLike(folder, ".log")) {
    if (fs::file_size(path) > 0) wal = path;
  }
  ASSERT_FALSE(wal.empty());
  FlipByte(wal, 100'000);
  const auto log = OpenIn(folder.path());
  EXPECT_TRUE(absl::IsDataLoss(log.status())) << log.status();
  EXPECT_THAT(MessageOf(log.status()), HasSubstr(wal.filename().string()));
}

TEST(Damage, ATornTailOfTheWriteAheadLogIsWhatACrashLeavesAndIsDropped) {
  TestFolder folder;
  Fill(**OpenIn(folder.path()), 200);
  for (const fs::path& path : FilesLike(folder, ".log")) {
    if (fs::file_size(path) > 0) fs::resize_file(path, fs::file_size(path) - 500);
  }
  auto log = OpenIn(folder.path());
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_TRUE(ReadEverything(**log, 199).ok());
}

TEST(Damage, ToTheManifestIsDataLossNamingIt) {
  for (const std::string file : {"MANIFEST", "CURRENT"}) {
    TestFolder folder;
    Fill(**OpenIn(folder.path()), 10);
    const fs::path path = FilesLike(folder, file).at(0);
    FlipByte(path, fs::file_size(path) / 2);
    const auto log = OpenIn(folder.path());
    EXPECT_TRUE(absl::IsDataLoss(log.status())) << file << ": " << log.status();
    EXPECT_THAT(MessageOf(log.status()), HasSubstr(folder.path()));
  }
}

TEST(Damage, AMissingTableIsDataLossNamingIt) {
  TestFolder folder;
  Fill(**OpenIn(folder.path()), 2000);
  ASSERT_TRUE(OpenIn(folder.path()).ok());
  const fs::path path = FilesLike(folder, ".sst").at(0);
  fs::remove(path);
  const auto log = OpenIn(folder.path());
  EXPECT_TRUE(absl::IsDataLoss(log.status())) << log.status();
  EXPECT_THAT(MessageOf(log.status()), HasSubstr(path.filename().string()));
}

}  // namespace
}  // namespace millstream::log::embedded
