// Bits flip, files shrink and vanish: damage is noticed or harmless, and wrong state is never served.
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/store/numbered_batches.h"
#include "sidecar/store/store_test_util.h"

namespace millstream::store {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kBatches = 300;

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteFile(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// "sst", "MANIFEST", "CURRENT" ...
std::string KindOf(const fs::path& file) {
  if (file.extension() == ".sst") return "sst";
  const std::string name = file.filename().string();
  return name.substr(0, name.find('-'));
}

class Damage : public ::testing::Test {
 protected:
  Damage() {
    plan_.seed = TestSeed();
    StateEnvironment environment{StateMemory()};
    const auto store = OpenOrDie(&environment, intact(), BatchIdentity());
    for (int64_t n = 1; n <= kBatches; ++n) {
      EXPECT_TRUE(store->Apply(BatchWrites(plan_, n), BatchPositions(n)).ok());
      if (n % 150 == 100) {
        EXPECT_TRUE(store->Flush().ok());
      }
    }
    model_ = BatchModel(plan_, kBatches);
  }

  std::string intact() const { return folder_.path() + "/intact"; }
  std::string damaged() const { return folder_.path() + "/damaged"; }

  std::vector<fs::path> FilesOf(const std::string& kind) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(intact() + "/db")) {
      if (KindOf(entry.path()) == kind) files.push_back(entry.path().filename());
    }
    EXPECT_FALSE(files.empty()) << kind;
    return files;
  }

  // Opens a copy with `file` changed (nullopt: removed). Returns "wiped", "refused" (DATA_LOSS on reading, then wiped
  // by hand) or "intact": nothing else may happen.
  std::string OpenDamaged(const fs::path& file, const std::optional<std::string>& content) {
    fs::remove_all(damaged());
    fs::copy(intact(), damaged(), fs::copy_options::recursive);
    const fs::path path = fs::path(damaged()) / "db" / file;
    content ? WriteFile(path, *content) : void(fs::remove(path));

    StateEnvironment environment{StateMemory()};
    auto opened = TaskStore::Open(&environment, damaged(), BatchIdentity());
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (!opened.ok()) return "error";
    TaskStore& store = **opened;
    if (!store.wiped_reason().empty()) {
      ExpectEmptyAndUsable(&store);
      return "wiped";
    }
    return ReadAll(&store);
  }

  std::string ReadAll(TaskStore* store) {
    const int64_t number = BatchNumber(store->positions());
    EXPECT_GE(number, 0);
    // A manifest that lost its tail stands for an earlier flush, in whole.
    const auto model = number == kBatches ? model_ : BatchModel(plan_, number);
    for (StoreIndex i = 0; i < 2; ++i) {
      ScanRequest all;
      all.store = i;
      all.max_rows = 1'000'000;
      all.max_bytes = 1 << 30;
      auto page = store->Scan(all);
      std::vector<std::string_view> keys;
      for (const auto& [key, value] : model[i]) keys.push_back(key);
      auto values = store->MultiGet(i, keys);
      if (!page.ok() || !values.ok()) {
        for (const absl::Status& status : {page.status(), values.status()}) {
          EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
        }
        EXPECT_TRUE(store->Wipe().ok());
        ExpectEmptyAndUsable(store);
        return "refused";
      }
      EXPECT_EQ((std::map<Bytes, Bytes>(page->rows.begin(), page->rows.end())), model[i]) << "wrong state was served";
      for (size_t k = 0; k < keys.size(); ++k)
        EXPECT_EQ((*values)[k], model[i].at(Bytes(keys[k]))) << "wrong state was served";
    }
    return "intact";
  }

  void ExpectEmptyAndUsable(TaskStore* store) {
    EXPECT_EQ(BatchNumber(store->positions()), 0);
    EXPECT_TRUE(Rows(*store, 0).empty());
    EXPECT_TRUE(store->Apply(BatchWrites(plan_, 1), BatchPositions(1)).ok());
    EXPECT_EQ(Rows(*store, 0), BatchModel(plan_, 1)[0]);
  }

  // Flips one bit at `places` offsets of each file of a kind; returns what came of it, counted.
  std::map<std::string, int> Flip(const std::string& kind, int places) {
    std::mt19937_64 random(plan_.seed);
    std::map<std::string, int> outcomes;
    for (const fs::path& file : FilesOf(kind)) {
      const std::string content = ReadFile(fs::path(intact()) / "db" / file);
      for (int i = 0; i < places && !content.empty() && !HasFailure(); ++i) {
        std::string changed = content;
        const size_t at = (content.size() * i) / places + random() % std::max<size_t>(1, content.size() / places);
        changed[std::min(at, content.size() - 1)] ^= static_cast<char>(1 << random() % 8);
        SCOPED_TRACE(StrCat("bit flipped in ", file.string(), " at ", at, " of ", content.size()));
        ++outcomes[OpenDamaged(file, changed)];
      }
    }
    for (const auto& [outcome, count] : outcomes) printf("%s: %d %s\n", kind.c_str(), count, outcome.c_str());
    return outcomes;
  }

  TempFolder folder_;
  BatchPlan plan_;
  std::vector<std::map<Bytes, Bytes>> model_;
};

TEST_F(Damage, NoneIsIntact) { EXPECT_EQ(OpenDamaged("nothing", ""), "intact"); }

TEST_F(Damage, BitsFlippedInTables) {
  auto outcomes = Flip("sst", 10);
  EXPECT_GT(outcomes["wiped"] + outcomes["refused"], outcomes["intact"]);
}

TEST_F(Damage, BitsFlippedInTheManifest) {
  auto outcomes = Flip("MANIFEST", 40);
  EXPECT_GT(outcomes["wiped"], 0);
}

TEST_F(Damage, BitsFlippedInCurrent) {
  auto outcomes = Flip("CURRENT", 16);
  EXPECT_EQ(outcomes["intact"], 0);
}

TEST_F(Damage, FilesCutShort) {
  for (const std::string kind : {"sst", "MANIFEST", "CURRENT"}) {
    for (const fs::path& file : FilesOf(kind)) {
      const std::string content = ReadFile(fs::path(intact()) / "db" / file);
      for (const size_t length : {size_t{0}, content.size() / 2, content.size() - 1}) {
        SCOPED_TRACE(StrCat(file.string(), " cut to ", length, " of ", content.size()));
        const std::string outcome = OpenDamaged(file, content.substr(0, length));
        if (kind != "MANIFEST") {
          EXPECT_NE(outcome, "intact");
        }
      }
    }
  }
}

TEST_F(Damage, FilesMissing) {
  for (const std::string kind : {"sst", "MANIFEST", "CURRENT"}) {
    for (const fs::path& file : FilesOf(kind)) {
      SCOPED_TRACE(file.string());
      EXPECT_EQ(OpenDamaged(file, std::nullopt), "wiped");
    }
  }
}

// A damaged block that nobody reads is met by compaction at the latest.
TEST_F(Damage, MetByCompaction) {
  for (const fs::path& file : FilesOf("sst")) {
    const fs::path path = fs::path(intact()) / "db" / file;
    std::string content = ReadFile(path);
    content[content.size() / 3] ^= 1;
    WriteFile(path, content);
  }
  StateEnvironment environment{StateMemory()};
  const auto store = OpenOrDie(&environment, intact(), BatchIdentity());
  if (!store->wiped_reason().empty()) return;  // met at once, in the stamp
  absl::Status status;
  for (int64_t n = kBatches + 1; n < kBatches + 50 && status.ok(); ++n) {
    status = store->Apply(BatchWrites(plan_, n), BatchPositions(n));
    if (status.ok()) status = store->Flush();
  }
  ASSERT_TRUE(absl::IsDataLoss(status)) << status;
  ASSERT_TRUE(store->Wipe().ok());
  ExpectEmptyAndUsable(store.get());
}

TEST_F(Damage, GarbageInPlaceOfTheDatabase) {
  fs::remove_all(intact() + "/db");
  fs::create_directories(intact() + "/db");
  WriteFile(intact() + "/db/CURRENT", "MANIFEST-000001\n");
  WriteFile(intact() + "/db/MANIFEST-000001", std::string(5000, '\x5a'));
  EXPECT_EQ(OpenDamaged("junk.bin", "junk"), "wiped");
}

}  // namespace
}  // namespace millstream::store
