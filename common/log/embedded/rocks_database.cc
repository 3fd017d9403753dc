#include "common/log/embedded/rocks_database.h"

#include <rocksdb/comparator.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>
#include <rocksdb/wal_filter.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::log::embedded {
namespace {

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

class RecordsFamilyById : public rocksdb::ColumnFamilyHandle {
 public:
  const std::string& GetName() const override { return name_; }
  uint32_t GetID() const override { return 1; }  // the first family made in the database; checked when it is opened
  rocksdb::Status GetDescriptor(rocksdb::ColumnFamilyDescriptor*) override { return rocksdb::Status::NotSupported(); }
  const rocksdb::Comparator* GetComparator() const override { return rocksdb::BytewiseComparator(); }

 private:
  const std::string name_ = "records";
};

rocksdb::DBOptions DatabaseOptions(const StorageOptions& options) {
  rocksdb::DBOptions db;
  db.create_if_missing = true;
  db.create_missing_column_families = true;
  db.max_open_files = 256;
  db.max_background_jobs = 2;
  db.max_bgerror_resume_count = 0;  // no recovery of its own: see RocksDatabase
  db.max_total_wal_size = 4 * options.memtable_bytes;
  // A torn tail is what a crash or a full disk leaves behind and is dropped; a damaged record before it is refused, not
  // skipped.
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // Data trickles to the disk while it is written, so that the sync of a commit has little left to do.
  db.wal_bytes_per_sync = 1 << 20;
  db.bytes_per_sync = 1 << 20;
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  db.max_manifest_file_size = 4 << 20;
  db.manifest_preallocation_size = 64 << 10;  // in place of 4 MiB, which a small disk lacks
  return db;
}

// Taking room for the write-ahead log in advance makes syncs faster by a third, and is taken from others.
bool HasRoomInAdvance(const RocksSetting& setting) {
  rocksdb::Env* const env = setting.env != nullptr ? setting.env.get() : rocksdb::Env::Default();
  const std::string& directory = setting.options.directory;
  uint64_t free = 0;
  if (!env->GetFreeSpace(directory, &free).ok() &&  // not made yet
      !env->GetFreeSpace(std::filesystem::path(directory).parent_path(), &free).ok()) {
    return false;
  }
  return free > 16 * static_cast<uint64_t>(setting.options.memtable_bytes);
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

// Drops what lies behind a sequence number while the write-ahead log is read.
class RocksDatabase::LeaveOut : public rocksdb::WalFilter {
 public:
  explicit LeaveOut(uint64_t last) : last_(last) {}
  const char* Name() const override { return "millstream.LeaveOut"; }
  WalProcessingOption LogRecordFound(unsigned long long, const std::string&, const rocksdb::WriteBatch& batch,
                                     rocksdb::WriteBatch*, bool*) override {
    // Format of a batch (RocksDB, db/write_batch.cc): sequence number, 8 bytes little-endian, comes first.
    uint64_t sequence = 0;
    for (int i = 7; i >= 0; --i) sequence = sequence << 8 | static_cast<unsigned char>(batch.Data()[i]);
    return sequence > last_ ? WalProcessingOption::kIgnoreCurrentRecord : WalProcessingOption::kContinueProcessing;
  }

 private:
  const uint64_t last_;
};

class RocksDatabase::Listener : public rocksdb::EventListener {
 public:
  explicit Listener(std::function<void(const rocksdb::Status&)> on_failure) : on_failure_(std::move(on_failure)) {}
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override {
    // A compaction that finds no room is tried again and hinders nothing else.
    const bool harmless = reason == rocksdb::BackgroundErrorReason::kCompaction &&
                          error->severity() < rocksdb::Status::Severity::kHardError;
    if (!harmless && on_failure_ != nullptr) on_failure_(*error);
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* auto_recovery) override {
    *auto_recovery = false;
  }

 private:
  const std::function<void(const rocksdb::Status&)> on_failure_;
};

RocksSetting::RocksSetting(const StorageOptions& options_in)
    : options(options_in), block_cache(rocksdb::NewLRUCache(options_in.block_cache_bytes, /*num_shard_bits=*/2)) {
  if (options.file_system != nullptr) env = rocksdb::NewCompositeEnv(options.file_system);
}

absl::StatusOr<std::unique_ptr<RocksDatabase>> RocksDatabase::Open(const RocksSetting& setting, Mode mode,
                                                                   uint64_t last) {
  const std::string& directory = setting.options.directory;
  auto notices = std::make_shared<Notices>();
  std::unique_ptr<RocksDatabase> database(new RocksDatabase(mode, last));
  rocksdb::DBOptions options = DatabaseOptions(setting.options);
  options.allow_fallocate = HasRoomInAdvance(setting);
  options.info_log = notices;
  options.listeners.push_back(std::make_shared<Listener>(setting.on_failure));
  options.wal_filter = database->leave_out_.get();
  if (setting.env != nullptr) options.env = setting.env.get();
  rocksdb::ColumnFamilyOptions records = FamilyOptions(setting.options, setting.block_cache);
  rocksdb::ColumnFamilyOptions meta = records;
  meta.write_buffer_size = std::min<size_t>(meta.write_buffer_size, 2 << 20);
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {{rocksdb::kDefaultColumnFamilyName, meta},
                                                                 {RecordsFamily()->GetName(), records}};
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status =
      mode == Mode::kReadWrite ? rocksdb::DB::Open(options, directory, families, &database->handles_, &db)
                               : rocksdb::DB::OpenForReadOnly(options, directory, families, &database->handles_, &db);
  database->db_.reset(db);
  absl::Status result = FromRocks(status, "open the log", directory);
  if (absl::IsDataLoss(result) && !notices->last_complaint().empty()) {
    result = Annotate(result, notices->last_complaint());
  }
  MS_RETURN_IF_ERROR(result);
  MS_CHECK(database->records()->GetID() == RecordsFamily()->GetID());
  return database;
}

RocksDatabase::RocksDatabase(Mode mode, uint64_t last) : mode_(mode), leave_out_(std::make_unique<LeaveOut>(last)) {}

RocksDatabase::~RocksDatabase() {
  if (db_ == nullptr) return;
  if (writable() && !given_up_) db_->SyncWAL().PermitUncheckedError();
  for (rocksdb::ColumnFamilyHandle* handle : handles_) db_->DestroyColumnFamilyHandle(handle);
  db_->Close().PermitUncheckedError();
}

int64_t RocksDatabase::MemtableBytes() const {
  uint64_t sum = 0;
  for (rocksdb::ColumnFamilyHandle* family : handles_) {
    uint64_t bytes = 0;
    if (db_->GetIntProperty(family, rocksdb::DB::Properties::kCurSizeAllMemTables, &bytes)) sum += bytes;
  }
  return static_cast<int64_t>(sum);
}

rocksdb::ColumnFamilyHandle* RecordsFamily() {
  static auto* const family = new RecordsFamilyById;
  return family;
}

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

}  // namespace millstream::log::embedded
