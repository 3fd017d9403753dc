// A real file system with less room than the write buffers of the log may take. Needs root.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/embedded/embedded_log.h"
#include "common/log/embedded/test_folder.h"

namespace millstream::log::embedded {
namespace {

// A tmpfs of 24 MB under the log.
class SmallVolume : public testing::Test {
 protected:
  void SetUp() override {
    if (mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=24m") == 0) {
      mounted_ = true;
      return;
    }
    const char* ci = getenv("CI");
    if (ci != nullptr && std::string_view(ci) == "true")
      FAIL() << "cannot mount a tmpfs, and with CI=true nothing is skipped";
    GTEST_SKIP() << "needs root: cannot mount a tmpfs";
  }
  void TearDown() override {
    if (mounted_) umount2(folder_.path().c_str(), MNT_DETACH);
  }
  // Fills the volume but for so many bytes.
  void FillBut(uintmax_t free) {
    std::filesystem::remove(folder_.path() + "/ballast");
    std::ofstream ballast(folder_.path() + "/ballast", std::ios::binary);
    const std::string page(4096, 'x');
    while (std::filesystem::space(folder_.path()).available > free && ballast.write(page.data(), 4096).flush()) {
    }
  }

  TestFolder folder_;
  bool mounted_ = false;
};

TEST_F(SmallVolume, GoesOnWithLessRoomThanItsWriteBuffersMayTake) {
  EmbeddedLogOptions options;
  options.directory = folder_.path() + "/log";
  auto log = *EmbeddedLog::Open(options);  // write buffers of 16 MB
  ASSERT_TRUE(log->admin().CreateTopic({"t", 1, -1, {}}).ok());
  std::map<int, int> expected;
  int number = 0;
  const auto commit = [&](TransactionalWriter& writer) {
    std::vector<OutgoingRecord> records(4);
    for (OutgoingRecord& record : records) {
      record.to = {"t", Partition(0)};
      record.value = StrCat(++number, " ", std::string(50'000, 'x'));
    }
    MS_RETURN_IF_ERROR(writer.Begin());
    MS_RETURN_IF_ERROR(writer.Append(records));
    MS_RETURN_IF_ERROR(writer.Commit());
    for (int i = number - 3; i <= number; ++i) ++expected[i];
    return absl::OkStatus();
  };
  auto writer = log->NewTransactionalWriter({"w"});
  ASSERT_TRUE(writer->Init().ok());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(commit(*writer).ok());  // 2 MB that are nowhere but in memory and the log
  for (int round = 0; round < 5; ++round) {
    SCOPED_TRACE(StrCat("round ", round));
    FillBut(100'000);
    absl::Status status;
    for (int i = 0; status.ok() && i < 100; ++i) status = commit(*writer);
    ASSERT_TRUE(absl::IsResourceExhausted(status)) << status;
    FillBut(6 << 20);
    const absl::Duration until = SystemClock().Monotonic() + absl::Seconds(20);
    do {
      writer = log->NewTransactionalWriter({"w"});
      status = writer->Init();
    } while (!status.ok() && SystemClock().Monotonic() < until);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(commit(*writer).ok());
  }
  const auto check = [&] {
    std::map<int, int> seen;
    auto reader = log->NewReader({});
    ASSERT_TRUE(reader->Add({"t", Partition(0)}, Offset(0)).ok());
    for (bool end = false; !end;) {
      const auto events = reader->Poll(absl::Seconds(10));
      ASSERT_TRUE(events.ok() && !events->empty());
      for (const ReaderEvent& event : *events) {
        end = end || std::holds_alternative<EndOfPartition>(event);
        const auto* read = std::get_if<RecordsRead>(&event);
        if (read == nullptr) continue;
        for (const Record& record : read->records) ++seen[std::stoi(*record.value)];
      }
    }
    EXPECT_EQ(seen, expected);
  };
  check();
  writer.reset();
  log.reset();
  log = *EmbeddedLog::Open(options);
  check();
}

}  // namespace
}  // namespace millstream::log::embedded
