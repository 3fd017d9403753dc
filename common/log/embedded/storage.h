#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_STORAGE_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_STORAGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rocksdb {
class FileSystem;
}

namespace millstream::log::embedded {

struct StorageOptions {
  std::string directory;
  int64_t block_cache_bytes = 8 << 20;
  int64_t memtable_bytes = 16 << 20;
  std::shared_ptr<rocksdb::FileSystem> file_system;  // null: the operating system's. Tests inject faults here
};

class RocksStorage;

// Changes that become visible, and survive a crash, all or none.
class WriteSet {
 public:
  ~WriteSet();
  WriteSet(WriteSet&&) noexcept;
  void PutBatch(uint32_t segment, uint32_t partition, int64_t base, std::string_view header, std::string_view payload);
  void DeleteBatch(uint32_t segment, uint32_t partition, int64_t base);
  // The batches of the partition in the segment that start before `offset`: all by default.
  void DeleteBatches(uint32_t segment, uint32_t partition, int64_t offset = INT64_MAX);
  void PutMeta(std::string_view key, std::string_view value);
  void DeleteMeta(std::string_view key);
  size_t bytes() const;
  bool empty() const;
  void Clear();

 private:
  friend class RocksStorage;
  struct Rep;
  explicit WriteSet(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

// Walks the batches of one partition in one segment, as they were when the cursor was made.
class BatchCursor {
 public:
  ~BatchCursor();
  BatchCursor(BatchCursor&&) noexcept;
  // To the batch that starts at or last before `offset`; to the first one if all start later.
  void SeekAtOrBefore(int64_t offset);
  void SeekToLast();
  void Next();
  bool Valid() const;
  int64_t base() const;
  std::string_view value() const;  // until the cursor moves
  // Why Valid() is false: OK at the end; DATA_LOSS names the damaged file.
  absl::Status status() const;

 private:
  friend class RocksStorage;
  struct Rep;
  explicit BatchCursor(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

// The database under the embedded log. Records lie under (segment, partition, base offset), everything else ("meta")
// under keys of its own. The segment, a number that grows with the whole log, comes first: what is appended sorts
// behind what is there, so RocksDB moves old files down its levels without rewriting them. Thread-safe; one Write at a
// time (Core::write_mutex).
//
// After a failed write or sync, here or in the background, it can only be read, until one of the following calls finds
// that it can be healed: then it is closed, opened again from its files, and goes on. That is tried at most every 100
// ms, and for a fifth of the time. Healed, it has exactly the writes that returned OK, all of them on the disk: a
// write that failed has not happened, a write whose Sync failed has. Cursors must not be held while something is
// written. Errors: RESOURCE_EXHAUSTED disk full; UNAVAILABLE other I/O errors, all of these until healed; DATA_LOSS
// damage, naming the file; INTERNAL it cannot be healed, since files are damaged or the disk has lost what was written:
// it can be read but takes no writes until the process starts again.
class Storage {
 public:
  static absl::StatusOr<std::unique_ptr<Storage>> Open(const StorageOptions& options);
  virtual ~Storage() = default;

  virtual WriteSet NewWriteSet() = 0;
  // Atomic; survives a kill of the process at once, and of the machine after the next Sync. Leaves the set as it is.
  virtual absl::Status Write(WriteSet& set) = 0;
  // Everything written before is on the disk when it returns OK. May run beside Write.
  virtual absl::Status Sync() = 0;
  // OK if nothing has failed since it was opened or healed, else tries to heal: what a failed Write or Sync has come to
  // is certain after OK.
  virtual absl::Status Heal() = 0;

  virtual BatchCursor NewCursor(uint32_t segment, uint32_t partition) = 0;
  // All meta entries whose key starts with `prefix`, in order; stops at the first error of `visit` and returns it.
  virtual absl::Status ScanMeta(
      std::string_view prefix,
      const std::function<absl::Status(std::string_view key, std::string_view value)>& visit) = 0;
  // Gives the disk space of deleted batches of the segment back.
  virtual absl::Status ReclaimSegment(uint32_t segment) = 0;
};

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_STORAGE_H_
