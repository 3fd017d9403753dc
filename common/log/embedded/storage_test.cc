// The database is opened again under those who use it.
#include "common/log/embedded/storage.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/log/embedded/failing_file_system.h"
#include "common/log/embedded/test_folder.h"

namespace millstream::log::embedded {
namespace {

using Mode = FailingFileSystem::Mode;

class StorageTest : public testing::Test {
 protected:
  StorageTest() {
    StorageOptions options;
    options.directory = folder_.path() + "/db";
    options.file_system = files_;
    auto storage = Storage::Open(options);
    MS_CHECK_OK(storage);
    storage_ = *std::move(storage);
  }
  absl::Status Put(int64_t base) {
    WriteSet set = storage_->NewWriteSet();
    set.PutBatch(1, 7, base, "header ", "payload");
    return storage_->Write(set);
  }
  absl::Status HealPatiently() {
    const absl::Duration until = SystemClock().Monotonic() + absl::Seconds(20);
    absl::Status status;
    while (!(status = storage_->Heal()).ok() && SystemClock().Monotonic() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return status;
  }

  TestFolder folder_;
  std::shared_ptr<FailingFileSystem> files_ = std::make_shared<FailingFileSystem>();
  std::unique_ptr<Storage> storage_;
};

TEST_F(StorageTest, HealingWaitsForCursors) {
  ASSERT_TRUE(Put(10).ok());
  std::optional<BatchCursor> cursor(storage_->NewCursor(1, 7));
  files_->Set(Mode::kWritesFail);
  ASSERT_FALSE(Put(11).ok());
  files_->Set(Mode::kHealthy);
  std::atomic<bool> healed = false;
  std::thread healing([&] {
    const absl::Status status = HealPatiently();
    EXPECT_TRUE(status.ok()) << status;
    healed = true;
  });
  const absl::Duration until = SystemClock().Monotonic() + absl::Milliseconds(300);
  while (!healed && SystemClock().Monotonic() < until) {
    cursor->SeekAtOrBefore(10);
    ASSERT_TRUE(cursor->Valid());
    EXPECT_EQ(cursor->value(), "header payload");
  }
  EXPECT_FALSE(healed);
  cursor.reset();
  healing.join();
  EXPECT_TRUE(Put(12).ok());
  cursor.emplace(storage_->NewCursor(1, 7));
  cursor->SeekToLast();
  ASSERT_TRUE(cursor->Valid());
  EXPECT_EQ(cursor->base(), 12);
  cursor->SeekAtOrBefore(11);
  EXPECT_EQ(cursor->base(), 10) << "what failed has not happened";
}

// A set that was begun before goes into the database that is there now.
TEST_F(StorageTest, WritesOutliveTheDatabaseTheyWereBegunOn) {
  WriteSet set = storage_->NewWriteSet();
  set.PutBatch(1, 7, 1, "h", "p");
  set.PutMeta("k", "v");
  files_->Set(Mode::kWritesFail);
  ASSERT_FALSE(Put(11).ok());
  files_->Set(Mode::kHealthy);
  ASSERT_TRUE(HealPatiently().ok());
  set.PutBatch(1, 7, 2, "h", "p");
  set.DeleteBatches(1, 7, 2);
  ASSERT_TRUE(storage_->Write(set).ok());
  BatchCursor cursor = storage_->NewCursor(1, 7);
  cursor.SeekAtOrBefore(0);
  ASSERT_TRUE(cursor.Valid());
  EXPECT_EQ(cursor.base(), 2);
  int meta = 0;
  ASSERT_TRUE(storage_
                  ->ScanMeta("k",
                             [&](std::string_view, std::string_view value) {
                               meta += value == "v";
                               return absl::OkStatus();
                             })
                  .ok());
  EXPECT_EQ(meta, 1);
}

class StorageReads : public StorageTest, public testing::WithParamInterface<Mode> {};

TEST_P(StorageReads, GoOnWhileItCannotBeOpenedToBeWritten) {
  ASSERT_TRUE(Put(10).ok());
  files_->Set(GetParam());
  absl::Status status = Put(11);
  if (status.ok()) status = storage_->Sync();
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(storage_->Heal().ok());
  {
    BatchCursor cursor = storage_->NewCursor(1, 7);
    cursor.SeekAtOrBefore(10);
    EXPECT_TRUE(cursor.Valid()) << cursor.status();
  }
  files_->Set(Mode::kHealthy);
  EXPECT_TRUE(HealPatiently().ok());
}

INSTANTIATE_TEST_SUITE_P(Modes, StorageReads,
                         testing::Values(Mode::kDiskFull, Mode::kWritesFail, Mode::kWritesFailLate, Mode::kSyncsFail));

}  // namespace
}  // namespace millstream::log::embedded
