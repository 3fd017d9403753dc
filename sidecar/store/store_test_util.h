#ifndef MILLSTREAM_SIDECAR_STORE_STORE_TEST_UTIL_H_
#define MILLSTREAM_SIDECAR_STORE_STORE_TEST_UTIL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/store/state_environment.h"
#include "sidecar/store/task_store.h"

// For the tests of this folder.
namespace millstream::store {

// A folder of its own under the system's temporary folder, removed at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Fixed by MILLSTREAM_TEST_SEED, else random; printed so that a failure can be repeated.
uint64_t TestSeed();

StoreDefinition DiskStore(const std::string& name);
StoreDefinition MemoryStoreDefinition(const std::string& name);
TaskIdentity Identity(std::vector<StoreDefinition> stores, int task = 3);

StoreWrite Put(StoreIndex store, std::string_view key, std::string_view value);
StoreWrite Delete(StoreIndex store, std::string_view key);
Positions At(StoreIndex store, int64_t changelog, int64_t input = 0, int64_t wall_ms = 1);

// Fails the test if the database cannot be opened.
std::unique_ptr<TaskStore> OpenOrDie(StateEnvironment* environment, const std::string& folder,
                                     const TaskIdentity& identity);
// All rows of a store, read in small pages. Fails the test on an error.
std::map<Bytes, Bytes> Rows(const TaskStore& store, StoreIndex index);

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_STORE_TEST_UTIL_H_
