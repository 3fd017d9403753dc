#include "sidecar/store/database.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/listener.h"
#include "rocksdb/options.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/table.h"
#include "sidecar/store/rocks_status.h"

namespace millstream::store {

// Learns when a flush is done, or has failed.
class Database::Listener : public rocksdb::EventListener {
 public:
  explicit Listener(std::shared_ptr<UnflushedLedger> ledger) : ledger_(std::move(ledger)) {}

  // The default family is in every batch, behind the state, so its flushed number covers all.
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo& info) override {
    if (info.cf_name != rocksdb::kDefaultColumnFamilyName) return;
    ledger_->Flushed(info.largest_seqno);
    flushing = false;
  }
  // Files of a flush are there, the manifest does not name them yet.
  void OnTableFileCreated(const rocksdb::TableFileCreationInfo&) override { CrashPoint("store-flush-half-done"); }

  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override {
    flushing = false;
    // A compaction that finds no room is tried again and hinders nothing else.
    if (reason == rocksdb::BackgroundErrorReason::kCompaction && error->severity() < rocksdb::Status::kHardError)
      return;
    absl::MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = *error;
    failed_ = true;
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* auto_recovery) override {
    *auto_recovery = false;  // see failure()
  }

  rocksdb::Status failure() const {
    if (!failed_.load(std::memory_order_acquire)) return rocksdb::Status::OK();
    absl::MutexLock lock(&mutex_);
    return failure_;
  }

  std::atomic<bool> flushing{false};

 private:
  const std::shared_ptr<UnflushedLedger> ledger_;
  std::atomic<bool> failed_{false};
  mutable absl::Mutex mutex_;
  rocksdb::Status failure_ ABSL_GUARDED_BY(mutex_);
};

namespace {

// So many families get a filter in front of their memtable, which spares most reads its skip list. It costs 160 KiB as
// soon as the family is open, so a process with hundreds of them goes without.
constexpr int kFamiliesWithMemtableFilter = 24;
constexpr double kMemtableFilterRatio = 0.02;  // of the memtable: some 10 bits per row of 60 bytes

rocksdb::ColumnFamilyOptions FamilyOptions(const StateEnvironment::Impl& environment) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = environment.block_cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  // Index and filters live in the bounded cache, ahead of data.
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.data_block_index_type =
      rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;  // point reads are the hot path
  table.format_version = 5;

  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = rocksdb::kLZ4Compression;
  options.level_compaction_dynamic_level_bytes = true;
  // Small memtables stay in the processor's caches; several hot families may fill up before the shared budget asks for
  // a flush.
  options.write_buffer_size = std::clamp<int64_t>(environment.memtable_bytes / 8, 1 << 20, 64 << 20);
  options.max_write_buffer_number = 4;
  // Batches come sorted: with one hint for all keys ("" is everybody's prefix) an insert starts where the last one
  // ended instead of at the top of the skip list.
  options.memtable_insert_with_hint_prefix_extractor.reset(rocksdb::NewCappedPrefixTransform(0));
  // Memtables grow in small steps: 100 tasks with several stores each, written to a little, must not fill the budget.
  options.arena_block_size = 16 << 10;
  return options;
}

rocksdb::DBOptions DatabaseOptions(const StateEnvironment::Impl& environment) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.atomic_flush = true;  // without a WAL this alone keeps families together over kill -9
  options.write_buffer_manager = environment.write_buffers;
  options.info_log = environment.logger;
  options.paranoid_checks = true;
  options.max_background_jobs = 2;
  options.max_file_opening_threads = 1;
  options.avoid_flush_during_shutdown =
      true;  // who closes an intact store has flushed it, and learned whether that worked
  options.skip_stats_update_on_db_open = true;      // opening costs the same however large the state is
  options.allow_concurrent_memtable_write = false;  // one writer
  options.enable_write_thread_adaptive_yield = false;
  options.bytes_per_sync = 1 << 20;
  options.max_bgerror_resume_count = 0;            // see failure()
  options.manifest_preallocation_size = 64 << 10;  // with 4 MiB per task, tasks alone would fill a small disk
  // Background statistics would cost a thread and a wake-up per database.
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

rocksdb::WriteOptions WithoutWal() {
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  return options;
}

// A folder with database files and without CURRENT has lost it: RocksDB would create an empty database over them.
bool LostCurrent(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path + "/CURRENT", ignored)) return false;
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored)) {
    if (entry.path().extension() == ".sst") return true;
  }
  return false;
}

}  // namespace

rocksdb::Status Database::OpenFiles(const std::vector<std::string>& families) {
  StateEnvironment::Impl* const environment = environment_;
  rocksdb::DBOptions options = DatabaseOptions(*environment);
  options.listeners.push_back(listener_);
  rocksdb::ColumnFamilyOptions family_options = FamilyOptions(*environment);
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors{{rocksdb::kDefaultColumnFamilyName, family_options}};
  families_ = static_cast<int>(families.size());
  if (environment->open_families.fetch_add(families_) + families_ <= kFamiliesWithMemtableFilter) {
    family_options.memtable_whole_key_filtering = true;
    family_options.memtable_prefix_bloom_size_ratio = kMemtableFilterRatio;
  }
  for (const std::string& name : families) descriptors.emplace_back(name, family_options);
  std::error_code ignored;
  if (std::filesystem::exists(path_ + "/CURRENT", ignored)) {
    std::vector<std::string> present;
    const rocksdb::Status listed = rocksdb::DB::ListColumnFamilies(options, path_, &present);
    if (!listed.ok()) return listed;
    for (const std::string& name : present) {
      if (name == rocksdb::kDefaultColumnFamilyName) continue;
      if (std::find(families.begin(), families.end(), name) != families.end()) continue;
      descriptors.emplace_back(name, family_options);
      extra_families_.push_back(name);
    }
  }
  rocksdb::DB* db = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(options, path_, descriptors, &handles_, &db);
  if (opened.ok()) db_.reset(db);
  return opened;
}

absl::StatusOr<std::shared_ptr<Database>> Database::Open(StateEnvironment::Impl* environment, const std::string& path,
                                                         const std::vector<std::string>& families, bool* damaged) {
  *damaged = LostCurrent(path);
  if (*damaged) return absl::DataLossError(StrCat("open ", path, ": the file CURRENT is missing"));
  auto ledger = std::make_shared<UnflushedLedger>(&environment->unflushed_bytes);
  std::shared_ptr<Database> database(new Database(path, environment, ledger));
  database->listener_ = std::make_shared<Listener>(ledger);
  const rocksdb::Status opened = database->OpenFiles(families);
  if (!opened.ok()) {
    *damaged = IsDamage(opened);
    return FromRocks(opened, "open", path);
  }
  environment->Register(database);
  return database;
}

Database::~Database() {
  Close();
  environment_->open_families.fetch_sub(families_);
}

void Database::Close() {
  absl::WriterMutexLock lock(&closing_);
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* handle : handles_) {
    if (handle != nullptr) (void)db_->DestroyColumnFamilyHandle(handle);
  }
  (void)db_->Close();
  db_.reset();
}

absl::Status Database::failure() const { return FromRocks(listener_->failure(), "write", path_); }

absl::Status Database::Write(rocksdb::WriteBatch&& batch, int64_t bytes) {
  MS_RETURN_IF_ERROR(failure());
  const rocksdb::Status written = db_->Write(WithoutWal(), &batch);
  if (!written.ok()) return FromRocks(written, "write", path_);
  ledger_->Written(db_->GetLatestSequenceNumber(), bytes, std::move(batch));
  return absl::OkStatus();
}

absl::Status Database::Flush() {
  absl::ReaderMutexLock lock(&closing_);
  if (db_ == nullptr) return absl::OkStatus();
  MS_RETURN_IF_ERROR(failure());
  const rocksdb::SequenceNumber sequence = db_->GetLatestSequenceNumber();
  rocksdb::FlushOptions options;
  options.wait = true;
  options.allow_write_stall = true;  // the flush is what ends a stall
  const rocksdb::Status flushed = db_->Flush(options, handles_);
  if (!flushed.ok()) return FromRocks(flushed, "flush", path_);
  ledger_->Flushed(sequence);
  return absl::OkStatus();
}

void Database::FlushInBackground() {
  absl::ReaderMutexLock lock(&closing_);
  if (db_ == nullptr || !listener_->failure().ok() || listener_->flushing.exchange(true)) return;
  rocksdb::FlushOptions options;
  options.wait = false;
  options.allow_write_stall = true;
  if (!db_->Flush(options, handles_).ok()) listener_->flushing = false;  // the next write meets and reports the error
}

absl::Status Database::Empty(size_t index) {
  rocksdb::ColumnFamilyHandle*& handle = handles_[index + 1];
  {
    std::unique_ptr<rocksdb::Iterator> rows(db_->NewIterator(rocksdb::ReadOptions(), handle));
    rows->SeekToFirst();
    if (!rows->Valid() && rows->status().ok()) return absl::OkStatus();
  }
  rocksdb::ColumnFamilyDescriptor descriptor;
  rocksdb::Status done = handle->GetDescriptor(&descriptor);
  if (done.ok()) done = db_->DropColumnFamily(handle);
  if (!done.ok()) return FromRocks(done, "empty", path_);
  (void)db_->DestroyColumnFamilyHandle(std::exchange(handle, nullptr));
  done = db_->CreateColumnFamily(descriptor.options, descriptor.name, &handle);
  return FromRocks(done, "empty", path_);
}

int64_t Database::ApproximateBytes() const {
  uint64_t sum = 0;
  for (rocksdb::ColumnFamilyHandle* handle : handles_) {
    uint64_t bytes = 0;
    if (db_->GetIntProperty(handle, rocksdb::DB::Properties::kTotalSstFilesSize, &bytes)) sum += bytes;
    if (db_->GetIntProperty(handle, rocksdb::DB::Properties::kCurSizeAllMemTables, &bytes)) sum += bytes;
  }
  return static_cast<int64_t>(sum);
}

}  // namespace millstream::store
