#include "common/log/embedded/storage.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::log::embedded {
namespace {

using BatchKey = std::array<char, 16>;

template <typename Int>
void PutBigEndian(Int value, char* to) {
  for (int i = sizeof(Int) - 1; i >= 0; --i, value >>= 8) to[i] = static_cast<char>(value);
}

BatchKey MakeBatchKey(uint32_t segment, uint32_t partition, int64_t base) {
  BatchKey key;
  PutBigEndian(segment, key.data());
  PutBigEndian(partition, key.data() + 4);
  PutBigEndian(static_cast<uint64_t>(base), key.data() + 8);
  return key;
}

rocksdb::Slice ToSlice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
rocksdb::Slice ToSlice(const BatchKey& key) { return {key.data(), key.size()}; }
std::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

// RocksDB's own log: warnings go to our debug lines. Remembers the last write-ahead log it found damaged ("FILE:
// dropping N bytes; why"), since the status does not name it.
class Notices : public rocksdb::Logger {
 public:
  Notices() : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char line[1024];
    std::vsnprintf(line, sizeof line, format, arguments);
    const std::string_view text(line);
    if (text.find(": dropping ") != text.npos) {
      absl::MutexLock lock(&mutex_);
      last_complaint_ = text;
    }
    millstream::Log(LogLevel::kDebug, "rocksdb", {{"says", text}});
  }
  std::string last_complaint() const {
    absl::MutexLock lock(&mutex_);
    return last_complaint_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::string last_complaint_ ABSL_GUARDED_BY(mutex_);
};

absl::Status FromRocks(const rocksdb::Status& status, std::string_view doing, std::string_view directory) {
  if (status.ok()) return absl::OkStatus();
  // Before it gives up on a missing table RocksDB looks for it under LevelDB's ending, and reports that name.
  const std::string what =
      StrCat(doing, " in ", directory, ": ", absl::StrReplaceAll(status.ToString(), {{".ldb:", ".sst:"}}));
  if (status.IsCorruption()) return absl::DataLossError(what);
  if (status.IsNoSpace()) return absl::ResourceExhaustedError(StrCat("disk full, free some space and repeat: ", what));
  if (status.IsPathNotFound() || (status.IsIOError() && status.ToString().find("No such file") != std::string::npos)) {
    return absl::DataLossError(StrCat("a file is missing: ", what));
  }
  return absl::UnavailableError(what);
}

rocksdb::DBOptions DatabaseOptions(const StorageOptions& options, std::shared_ptr<rocksdb::Logger> notices) {
  rocksdb::DBOptions db;
  db.create_if_missing = true;
  db.create_missing_column_families = true;
  db.info_log = std::move(notices);
  db.max_open_files = 256;
  db.max_background_jobs = 2;
  db.max_total_wal_size = 4 * options.memtable_bytes;
  // A torn tail is what a crash leaves behind and is dropped; a damaged record before it is refused, not skipped.
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // Data trickles to the disk while it is written, so that the sync of a commit has little left to do.
  db.wal_bytes_per_sync = 1 << 20;
  db.bytes_per_sync = 1 << 20;
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  db.max_manifest_file_size = 4 << 20;
  return db;
}

rocksdb::ColumnFamilyOptions FamilyOptions(const StorageOptions& options,
                                           const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.block_size = 16 << 10;
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.format_version = 5;
  rocksdb::ColumnFamilyOptions family;
  family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  family.write_buffer_size = options.memtable_bytes / 2;
  family.arena_block_size = std::min<size_t>(256 << 10, family.write_buffer_size / 8);
  family.max_write_buffer_number = 3;
  family.target_file_size_base = 32 << 20;
  family.max_bytes_for_level_base = 256 << 20;
  // What is written last is read next: no time spent on it. Deeper levels keep what was compressed on the way.
  family.compression_per_level = {rocksdb::kNoCompression, rocksdb::kLZ4Compression};
  return family;
}

}  // namespace

struct WriteSet::Rep {
  rocksdb::ColumnFamilyHandle* records;
  rocksdb::ColumnFamilyHandle* meta;
  rocksdb::WriteBatch batch;
};

WriteSet::WriteSet(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
WriteSet::WriteSet(WriteSet&&) noexcept = default;
WriteSet::~WriteSet() = default;

void WriteSet::PutBatch(uint32_t segment, uint32_t partition, int64_t base, std::string_view header,
                        std::string_view payload) {
  const BatchKey key = MakeBatchKey(segment, partition, base);
  const rocksdb::Slice key_slice = ToSlice(key);
  const rocksdb::Slice value[] = {ToSlice(header), ToSlice(payload)};
  rep_->batch.Put(rep_->records, rocksdb::SliceParts(&key_slice, 1), rocksdb::SliceParts(value, 2));
}

void WriteSet::DeleteBatch(uint32_t segment, uint32_t partition, int64_t base) {
  rep_->batch.Delete(rep_->records, ToSlice(MakeBatchKey(segment, partition, base)));
}

void WriteSet::DeleteBatches(uint32_t segment, uint32_t partition, int64_t offset) {
  const BatchKey first = MakeBatchKey(segment, partition, 0);
  const BatchKey end = MakeBatchKey(segment, partition, offset);
  rep_->batch.DeleteRange(rep_->records, ToSlice(first), ToSlice(end));
}

void WriteSet::PutMeta(std::string_view key, std::string_view value) {
  rep_->batch.Put(rep_->meta, ToSlice(key), ToSlice(value));
}
void WriteSet::DeleteMeta(std::string_view key) { rep_->batch.Delete(rep_->meta, ToSlice(key)); }
size_t WriteSet::bytes() const { return rep_->batch.GetDataSize(); }
bool WriteSet::empty() const { return rep_->batch.Count() == 0; }
void WriteSet::Clear() { rep_->batch.Clear(); }

struct BatchCursor::Rep {
  std::string directory;
  uint32_t segment, partition;
  BatchKey lower, upper;  // the iterator points at the slices, the slices at the keys
  rocksdb::Slice lower_slice, upper_slice;
  std::unique_ptr<rocksdb::Iterator> iterator;
};

BatchCursor::BatchCursor(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
BatchCursor::BatchCursor(BatchCursor&&) noexcept = default;
BatchCursor::~BatchCursor() = default;

void BatchCursor::SeekAtOrBefore(int64_t offset) {
  const BatchKey key = MakeBatchKey(rep_->segment, rep_->partition, offset);
  rocksdb::Iterator& iterator = *rep_->iterator;
  iterator.Seek(ToSlice(key));
  if (iterator.Valid() && iterator.key() == ToSlice(key)) return;
  if (!iterator.status().ok()) return;
  iterator.SeekForPrev(ToSlice(key));
  if (!iterator.Valid() && iterator.status().ok()) iterator.SeekToFirst();
}

void BatchCursor::SeekToLast() { rep_->iterator->SeekToLast(); }
void BatchCursor::Next() { rep_->iterator->Next(); }
bool BatchCursor::Valid() const { return rep_->iterator->Valid(); }
int64_t BatchCursor::base() const {
  return static_cast<int64_t>(ReadBigEndian64(ToView(rep_->iterator->key()).substr(8)));
}
std::string_view BatchCursor::value() const { return ToView(rep_->iterator->value()); }
absl::Status BatchCursor::status() const {
  return FromRocks(rep_->iterator->status(), "read records", rep_->directory);
}

class RocksStorage : public Storage {
 public:
  explicit RocksStorage(const StorageOptions& options) : directory_(options.directory) {
    if (options.file_system != nullptr) env_ = rocksdb::NewCompositeEnv(options.file_system);
  }

  ~RocksStorage() override {
    if (db_ == nullptr) return;
    if (!failed_) db_->SyncWAL().PermitUncheckedError();  // a write-ahead log that failed must not be used again
    for (rocksdb::ColumnFamilyHandle* handle : handles_) db_->DestroyColumnFamilyHandle(handle);
    db_->Close().PermitUncheckedError();
  }

  absl::Status Start(const StorageOptions& options) {
    auto notices = std::make_shared<Notices>();
    rocksdb::DBOptions db_options = DatabaseOptions(options, notices);
    if (env_ != nullptr) db_options.env = env_.get();
    const auto cache = rocksdb::NewLRUCache(options.block_cache_bytes, /*num_shard_bits=*/2);
    rocksdb::ColumnFamilyOptions records = FamilyOptions(options, cache);
    rocksdb::ColumnFamilyOptions meta = FamilyOptions(options, cache);
    meta.write_buffer_size = std::min<size_t>(meta.write_buffer_size, 2 << 20);
    const std::vector<rocksdb::ColumnFamilyDescriptor> families = {{rocksdb::kDefaultColumnFamilyName, meta},
                                                                   {"records", records}};
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(db_options, directory_, families, &handles_, &db);
    db_.reset(db);
    absl::Status result = FromRocks(status, "open the log", directory_);
    if (absl::IsDataLoss(result) && !notices->last_complaint().empty()) {
      result = Annotate(result, notices->last_complaint());
    }
    return result;
  }

  WriteSet NewWriteSet() override {
    return WriteSet(std::make_unique<WriteSet::Rep>(WriteSet::Rep{handles_[1], handles_[0], rocksdb::WriteBatch()}));
  }

  absl::Status Write(WriteSet& set) override {
    MS_RETURN_IF_ERROR(RecoverIfFailed());
    return Note(db_->Write(rocksdb::WriteOptions(), &set.rep_->batch), "write");
  }

  absl::Status Sync() override {
    MS_RETURN_IF_ERROR(RecoverIfFailed());
    return Note(db_->SyncWAL(), "sync");
  }

  absl::Status Recover() override {
    absl::MutexLock lock(&recovery_mutex_);
    return RecoverLocked();
  }

  BatchCursor NewCursor(uint32_t segment, uint32_t partition) override {
    auto rep = std::make_unique<BatchCursor::Rep>();
    rep->directory = directory_;
    rep->segment = segment;
    rep->partition = partition;
    rep->lower = MakeBatchKey(segment, partition, 0);
    rep->upper = MakeBatchKey(segment, partition + 1, 0);
    rep->lower_slice = ToSlice(rep->lower);
    rep->upper_slice = ToSlice(rep->upper);
    rocksdb::ReadOptions read;
    read.iterate_lower_bound = &rep->lower_slice;
    read.iterate_upper_bound = &rep->upper_slice;
    read.fill_cache = false;  // records are read once, in order: they would only push the index blocks out
    rep->iterator.reset(db_->NewIterator(read, handles_[1]));
    return BatchCursor(std::move(rep));
  }

  absl::Status ScanMeta(std::string_view prefix,
                        const std::function<absl::Status(std::string_view, std::string_view)>& visit) override {
    rocksdb::ReadOptions read;
    const std::optional<std::string> end = PrefixEnd(prefix);
    rocksdb::Slice end_slice;
    if (end) {
      end_slice = *end;
      read.iterate_upper_bound = &end_slice;
    }
    std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read, handles_[0]));
    for (it->Seek(ToSlice(prefix)); it->Valid(); it->Next()) {
      MS_RETURN_IF_ERROR(visit(ToView(it->key()), ToView(it->value())));
    }
    return FromRocks(it->status(), "read meta data", directory_);
  }

  absl::Status ReclaimSegment(uint32_t segment) override {
    const BatchKey first = MakeBatchKey(segment, 0, 0);
    const BatchKey last = MakeBatchKey(segment, UINT32_MAX, INT64_MAX);
    const rocksdb::Slice begin = ToSlice(first), end = ToSlice(last);
    rocksdb::CompactRangeOptions options;
    options.exclusive_manual_compaction = false;
    return FromRocks(db_->CompactRange(options, handles_[1], &begin, &end), "reclaim space", directory_);
  }

 private:
  absl::Status Note(const rocksdb::Status& status, std::string_view doing) {
    if (status.ok()) return absl::OkStatus();
    absl::MutexLock lock(&recovery_mutex_);
    failed_ = true;
    last_failure_ = FromRocks(status, doing, directory_);
    return last_failure_;
  }

  absl::Status RecoverIfFailed() {
    if (!failed_) return absl::OkStatus();
    absl::MutexLock lock(&recovery_mutex_);
    if (!failed_) return absl::OkStatus();
    if (hopeless_ || SystemClock().Monotonic() < last_attempt_ + absl::Milliseconds(100)) return last_failure_;
    return RecoverLocked();
  }

  absl::Status RecoverLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(recovery_mutex_) {
    rocksdb::Status status = db_->Resume();
    if (status.ok()) {
      rocksdb::FlushOptions flush;
      flush.allow_write_stall = true;
      status = db_->Flush(flush, handles_);
    }
    failed_ = !status.ok();
    last_attempt_ = SystemClock().Monotonic();
    hopeless_ = status.severity() >= rocksdb::Status::Severity::kFatalError;
    if (hopeless_) {
      last_failure_ = absl::InternalError(
          StrCat("the log in ", directory_,
                 " takes no writes until it is opened again (start the program again): ", status.ToString()));
    } else {
      last_failure_ = FromRocks(status, "resume after a failed write", directory_);
    }
    return last_failure_;
  }

  const std::string directory_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;  // meta, records

  absl::Mutex recovery_mutex_;
  std::atomic<bool> failed_ = false;
  bool hopeless_ ABSL_GUARDED_BY(recovery_mutex_) = false;
  absl::Duration last_attempt_ ABSL_GUARDED_BY(recovery_mutex_) = -absl::InfiniteDuration();
  absl::Status last_failure_ ABSL_GUARDED_BY(recovery_mutex_);
};

absl::StatusOr<std::unique_ptr<Storage>> Storage::Open(const StorageOptions& options) {
  auto storage = std::make_unique<RocksStorage>(options);
  MS_RETURN_IF_ERROR(storage->Start(options));
  return storage;
}

}  // namespace millstream::log::embedded
