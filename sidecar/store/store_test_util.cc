#include "sidecar/store/store_test_util.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "common/base/status.h"
#include "gtest/gtest.h"

namespace millstream::store {

TempFolder::TempFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "millstream-store-XXXXXX").string();
  MS_CHECK(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

uint64_t TestSeed() {
  const char* fixed = getenv("MILLSTREAM_TEST_SEED");
  const uint64_t seed = fixed != nullptr ? strtoull(fixed, nullptr, 10) : std::random_device()();
  printf("seed %llu (repeat with MILLSTREAM_TEST_SEED=%llu)\n", static_cast<unsigned long long>(seed),
         static_cast<unsigned long long>(seed));
  return seed;
}

StoreDefinition DiskStore(const std::string& name) {
  return {name, StoreDefinition::Backend::kDisk, "group-" + name + "-changelog", "id-of-" + name};
}

StoreDefinition MemoryStoreDefinition(const std::string& name) {
  return {name, StoreDefinition::Backend::kMemory, "group-" + name + "-changelog", "id-of-" + name};
}

TaskIdentity Identity(std::vector<StoreDefinition> stores, int task) {
  return {"group", TaskId(task), std::move(stores)};
}

StoreWrite Put(StoreIndex store, std::string_view key, std::string_view value) {
  return {store, Bytes(key), Bytes(value)};
}

StoreWrite Delete(StoreIndex store, std::string_view key) { return {store, Bytes(key), std::nullopt}; }

Positions At(StoreIndex store, int64_t changelog, int64_t input, int64_t wall_ms) {
  Positions positions;
  positions.changelog[store] = Offset(changelog);
  positions.inputs["orders"] = Offset(input);
  positions.wall_ms = wall_ms;
  return positions;
}

std::unique_ptr<TaskStore> OpenOrDie(StateEnvironment* environment, const std::string& folder,
                                     const TaskIdentity& identity) {
  auto store = TaskStore::Open(environment, folder, identity);
  MS_CHECK_OK(store);
  return *std::move(store);
}

std::map<Bytes, Bytes> Rows(const TaskStore& store, StoreIndex index) {
  std::map<Bytes, Bytes> rows;
  ScanRequest request;
  request.store = index;
  request.max_rows = 7;
  while (true) {
    auto page = store.Scan(request);
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) return rows;
    for (auto& [key, value] : page->rows) {
      EXPECT_TRUE(rows.empty() || rows.rbegin()->first < key) << "out of order";
      rows[key] = value;
    }
    if (!page->more) return rows;
    request.after = page->rows.back().first;
  }
}

}  // namespace millstream::store
