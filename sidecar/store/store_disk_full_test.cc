// A full disk is an error that goes away by itself, never damage. Needs root for a small file system of its own.
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "common/base/strings.h"
#include "gtest/gtest.h"
#include "sidecar/store/state_environment_impl.h"
#include "sidecar/store/store_test_util.h"

namespace millstream::store {
namespace {

namespace fs = std::filesystem;

class DiskFull : public ::testing::Test {
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
    store_ = nullptr;
    if (mounted_) umount2(folder_.path().c_str(), MNT_DETACH);
  }

  void Open() { store_ = OpenOrDie(&environment_, data(), identity_); }
  std::string data() const { return folder_.path() + "/data"; }
  std::string ballast() const { return folder_.path() + "/ballast"; }

  void FillDisk() {
    std::ofstream out(ballast(), std::ios::binary);
    const std::string block(4096, 'x');
    while (out.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }

  // Applies the next batch of incompressible bytes; the model follows if it succeeded.
  absl::Status ApplyNext() {
    std::string value(100'000, '\0');
    for (char& c : value) c = static_cast<char>(random_());
    const std::string key = StrCat("key-", next_ % 50);
    const absl::Status applied = store_->Apply(
        std::vector{Put(0, key, value), Put(1, key, "x"), Put(1, "number", StrCat(next_))}, At(0, next_));
    if (applied.ok()) {
      model_[key] = value;
      applied_seen_ = applied_ = next_;
    }
    ++next_;
    return applied;
  }

  // As the engine does, until there is room.
  absl::Status ApplyPatiently() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    absl::Status again = ApplyNext();
    while (!again.ok() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      again = ApplyNext();
    }
    return again;
  }

  absl::Status ApplyUntilItFails() {
    for (int i = 0; i < 1000; ++i) {
      if (absl::Status applied = ApplyNext(); !applied.ok()) return applied;
    }
    return absl::OkStatus();
  }

  void ExpectModel() {
    EXPECT_EQ(Rows(*store_, 0), model_);
    EXPECT_EQ(store_->positions().changelog.at(0), Offset(applied_));
  }

  TempFolder folder_;
  bool mounted_ = false;
  static constexpr int64_t kMemtableBytes = 2 << 20;
  StateEnvironment environment_{StateMemory{8 << 20, kMemtableBytes}};
  const TaskIdentity identity_ = Identity({DiskStore("a"), DiskStore("b")});
  std::unique_ptr<TaskStore> store_;
  std::mt19937_64 random_{7};
  std::map<Bytes, Bytes> model_;
  int64_t next_ = 1, applied_ = 0;
  std::atomic<int64_t> applied_seen_ = 0;  // by other threads
};

TEST_F(DiskFull, GoesOnWithoutReopeningOnceThereIsSpace) {
  Open();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ApplyNext().ok());
  for (int round = 0; round < 2; ++round) {
    FillDisk();
    const absl::Status full = ApplyUntilItFails();
    ASSERT_TRUE(absl::IsResourceExhausted(full)) << full;
    EXPECT_NE(full.message().find("disk is full"), absl::string_view::npos) << full;
    EXPECT_NE(full.message().find(folder_.path()), absl::string_view::npos) << full;
    ExpectModel();  // reads go on, the refused batch is not in it
    EXPECT_TRUE(absl::IsResourceExhausted(ApplyNext()));
    EXPECT_TRUE(absl::IsResourceExhausted(store_->Flush()));
    ExpectModel();

    fs::remove(ballast());
    const absl::Status again = ApplyPatiently();
    ASSERT_TRUE(again.ok()) << again << "\nfree: " << fs::space(folder_.path()).available;
    ASSERT_TRUE(store_->Flush().ok());
    ExpectModel();
  }
  store_ = nullptr;
  Open();
  EXPECT_EQ(store_->wiped_reason(), "");
  ExpectModel();
}

TEST_F(DiskFull, WhoeverReadsMeanwhileSeesWhatWasApplied) {
  Open();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ApplyNext().ok());
  // The row that tells how far it is never goes back, and is there throughout, except for the moment of opening.
  std::atomic<bool> done = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&, scans = i == 1] {
      for (int64_t last = 0; !done;) {
        const int64_t at_least = applied_seen_;
        const absl::StatusOr<MaybeBytes> read = store_->Get(1, "number");
        if (scans) {
          const auto page = store_->Scan({.store = 1, .from = {}, .to = {}, .after = {}});
          EXPECT_TRUE(page.ok() || absl::IsUnavailable(page.status())) << page.status();
        }
        if (!read.ok()) {
          EXPECT_TRUE(absl::IsUnavailable(read.status())) << read.status();
          continue;
        }
        if (at_least == 0) continue;
        ASSERT_TRUE(read->has_value());
        const int64_t number = std::stoll(**read);
        ASSERT_GE(number, std::max(last, at_least));
        last = number;
      }
    });
  }
  for (int round = 0; round < 4 && !HasFailure(); ++round) {
    FillDisk();
    EXPECT_TRUE(absl::IsResourceExhausted(ApplyUntilItFails()));
    EXPECT_LE(environment_.impl().unflushed_bytes, 2 * kMemtableBytes) << "what is kept has a bound";
    fs::remove(ballast());
    const absl::Status again = ApplyPatiently();
    EXPECT_TRUE(again.ok()) << again;
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  ExpectModel();
  EXPECT_TRUE(store_->Flush().ok());
  EXPECT_EQ(environment_.impl().unflushed_bytes, 0) << "nothing is kept, or counted, that is on the disk";
}

TEST_F(DiskFull, AStoreThatCannotFlushDoesNotHinderTheOthers) {
  Open();
  TempFolder elsewhere;  // a disk with room
  const auto other = OpenOrDie(&environment_, elsewhere.path(), Identity({DiskStore("a"), DiskStore("b")}, 4));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ApplyNext().ok());
  FillDisk();
  ASSERT_TRUE(absl::IsResourceExhausted(ApplyUntilItFails()));
  // It holds what the budget allows, and nobody writes to it any more.
  std::map<Bytes, Bytes> rows;
  for (int i = 0; i < 40; ++i) {
    const std::string key = StrCat("other-", i % 10);
    rows[key] = std::string(100'000, static_cast<char>('a' + i % 26));
    const absl::Status applied = other->Apply(std::vector{Put(0, key, rows[key])}, At(0, i + 1));
    ASSERT_TRUE(applied.ok()) << applied;
    EXPECT_LE(environment_.impl().unflushed_bytes, 2 * kMemtableBytes);
  }
  EXPECT_EQ(Rows(*other, 0), rows);
  fs::remove(ballast());
  const absl::Status again = ApplyPatiently();
  EXPECT_TRUE(again.ok()) << again;
  ExpectModel();
}

TEST_F(DiskFull, OpeningOnAFullDiskIsAnErrorAndWipesNothing) {
  Open();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ApplyNext().ok());
  store_ = nullptr;
  FillDisk();
  const auto opened = TaskStore::Open(&environment_, data(), identity_);
  ASSERT_TRUE(absl::IsResourceExhausted(opened.status())) << opened.status();
  const auto fresh = TaskStore::Open(&environment_, folder_.path() + "/fresh", identity_);
  ASSERT_TRUE(absl::IsResourceExhausted(fresh.status())) << fresh.status();
  fs::remove(ballast());
  Open();
  EXPECT_EQ(store_->wiped_reason(), "");
  ExpectModel();
}

TEST_F(DiskFull, WipingOnAFullDiskWorks) {
  Open();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ApplyNext().ok());
  FillDisk();
  ASSERT_TRUE(absl::IsResourceExhausted(ApplyUntilItFails()));
  ASSERT_TRUE(store_->Wipe().ok());
  EXPECT_TRUE(Rows(*store_, 0).empty());
  model_.clear();
  ASSERT_TRUE(ApplyNext().ok());
  ExpectModel();
}

}  // namespace
}  // namespace millstream::store
