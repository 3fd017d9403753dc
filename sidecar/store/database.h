#ifndef MILLSTREAM_SIDECAR_STORE_DATABASE_H_
#define MILLSTREAM_SIDECAR_STORE_DATABASE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "rocksdb/db.h"
#include "rocksdb/write_batch.h"
#include "sidecar/store/state_environment_impl.h"
#include "sidecar/store/unflushed_ledger.h"

// Internal to sidecar/store.
namespace millstream::store {

// One open RocksDB database with the options that make it a task's: WAL off, atomic flush, shared cache and memtable
// budget. Thread-safe, except that one Write runs at a time.
class Database {
 public:
  // Opens or creates it with the default family and `families`. `damaged` is set if the files there are not a database
  // this build can read (the status says why); other errors are the machine's. Families beyond `families` are opened
  // and listed in extra_families().
  static absl::StatusOr<std::shared_ptr<Database>> Open(StateEnvironment::Impl* environment, const std::string& path,
                                                        const std::vector<std::string>& families, bool* damaged);
  // Closes without flushing.
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  rocksdb::DB* db() const { return db_.get(); }
  rocksdb::ColumnFamilyHandle* default_family() const { return handles_.front(); }
  // Aligned with the `families` of Open.
  rocksdb::ColumnFamilyHandle* family(size_t index) const { return handles_[index + 1]; }
  const std::vector<std::string>& extra_families() const { return extra_families_; }
  const std::string& path() const { return path_; }

  // Writes the batch as a whole. `bytes` is what it counts for unflushed_bytes. After an error nothing of it is
  // visible, and the batch is as it was.
  absl::Status Write(rocksdb::WriteBatch&& batch, int64_t bytes);
  // Everything written so far is on disk when it returns OK.
  absl::Status Flush();
  // Starts a flush unless one is under way. Like Flush, does nothing once closed.
  void FlushInBackground();
  // Why this database takes no more writes: a flush or manifest write failed (full disk). Reads still see everything.
  // OK while all is well. RocksDB could be told to resume, but its recovery (7.8) together with atomic flush now and
  // then waits for ever, or forgets what it reports as flushed. So the way out is Close, Open again, and Write of what
  // is in unflushed().
  absl::Status failure() const;
  UnflushedLedger* unflushed() { return ledger_.get(); }
  // Waits for flushes under way and lets go of the files. Nothing but the two above may be called after it.
  void Close();
  // Empties a family that has rows. After an error the database can only be closed.
  absl::Status Empty(size_t index);
  int64_t unflushed_bytes() const { return ledger_->bytes(); }
  int64_t ApproximateBytes() const;

 private:
  class Listener;
  Database(std::string path, StateEnvironment::Impl* environment, std::shared_ptr<UnflushedLedger> ledger)
      : path_(std::move(path)), environment_(environment), ledger_(std::move(ledger)) {}
  rocksdb::Status OpenFiles(const std::vector<std::string>& families);

  const std::string path_;
  StateEnvironment::Impl* const environment_;
  const std::shared_ptr<UnflushedLedger> ledger_;
  int families_ = 0;
  std::shared_ptr<Listener> listener_;
  absl::Mutex closing_;  // shared by flushes, which others' writes may ask for at any time; exclusive for Close
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::vector<std::string> extra_families_;
};

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_DATABASE_H_
