#ifndef MILLSTREAM_SIDECAR_STORE_MEMORY_STORE_H_
#define MILLSTREAM_SIDECAR_STORE_MEMORY_STORE_H_

#include <functional>
#include <string_view>

#include "absl/container/btree_map.h"
#include "common/base/bytes.h"
#include "sidecar/store/task_store.h"

// Internal to sidecar/store.
namespace millstream::store {

// One memory store: an ordered map. Thread-compatible; its task store locks around it.
class MemoryStore {
 public:
  MaybeBytes Get(std::string_view key) const;
  ScanPage Scan(const ScanRequest& request) const;
  void Put(const Bytes& key, const Bytes& value);
  void Delete(const Bytes& key);
  void Clear();
  // Keys, values and what the map costs around them.
  int64_t bytes() const { return bytes_; }

 private:
  absl::btree_map<Bytes, Bytes, std::less<>> rows_;
  int64_t bytes_ = 0;
};

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_MEMORY_STORE_H_
