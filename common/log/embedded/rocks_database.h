#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_ROCKS_DATABASE_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_ROCKS_DATABASE_H_

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/log/embedded/storage.h"

// Internal to storage.cc.
namespace millstream::log::embedded {

// What the databases that a log opens one after the other in its folder have in common; outlives them.
struct RocksSetting {
  explicit RocksSetting(const StorageOptions& options);

  const StorageOptions options;
  std::unique_ptr<rocksdb::Env> env;  // null: the default
  const std::shared_ptr<rocksdb::Cache> block_cache;
  // Told of a flush or another write in the background that failed. May be called with locks of RocksDB held.
  std::function<void(const rocksdb::Status&)> on_failure;
};

// One open RocksDB with the options that make it a log's. After a failed write it takes no more of them and is not
// made to: RocksDB's own recovery waits for as much room as its write buffers may take, stays "busy" now and then, and
// gives up for good after some errors. It goes on being read until it is closed and opened again. Thread-safe.
class RocksDatabase {
 public:
  enum class Mode { kReadWrite, kReadOnly };

  // Opens it, for reading and writing with everything that was written flushed to tables and synced. Writes of the
  // write-ahead log behind sequence number `last` were reported as failed and are left out; in kReadWrite for good.
  // Read-only needs no room on the disk.
  static absl::StatusOr<std::unique_ptr<RocksDatabase>> Open(const RocksSetting& setting, Mode mode, uint64_t last);
  // Closes it. Unless something failed, everything written is synced first.
  ~RocksDatabase();
  RocksDatabase(const RocksDatabase&) = delete;
  RocksDatabase& operator=(const RocksDatabase&) = delete;

  rocksdb::DB& db() const { return *db_; }
  rocksdb::ColumnFamilyHandle* meta() const { return handles_[0]; }
  rocksdb::ColumnFamilyHandle* records() const { return handles_[1]; }
  const std::vector<rocksdb::ColumnFamilyHandle*>& families() const { return handles_; }
  bool writable() const { return mode_ == Mode::kReadWrite; }
  // Of the last write it knows of.
  uint64_t last_sequence() const { return db_->GetLatestSequenceNumber(); }
  // Written and not in tables: about what opening it again writes to the disk.
  int64_t MemtableBytes() const;
  // Its files are in doubt: nothing is written to them any more, also not when it is closed.
  void GiveUp() { given_up_ = true; }

 private:
  class LeaveOut;
  class Listener;
  RocksDatabase(Mode mode, uint64_t last);

  const Mode mode_;
  std::unique_ptr<LeaveOut> leave_out_;  // the database points at it
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;  // meta, records
  bool given_up_ = false;
};

// Stands for the family of records in a write, which so may outlive the database it was begun on.
rocksdb::ColumnFamilyHandle* RecordsFamily();

// The error in our words: what was done, where, and the way out.
absl::Status FromRocks(const rocksdb::Status& status, std::string_view doing, std::string_view directory);

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_ROCKS_DATABASE_H_
