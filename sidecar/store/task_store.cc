#include "sidecar/store/task_store.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <numeric>
#include <system_error>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/store/cached_values.h"
#include "sidecar/store/database.h"
#include "sidecar/store/folder_lock.h"
#include "sidecar/store/memory_store.h"
#include "sidecar/store/rocks_scan.h"
#include "sidecar/store/rocks_status.h"
#include "sidecar/store/stamp.h"
#include "sidecar/store/write_order.h"

namespace millstream::store {
namespace {

rocksdb::Slice ToSlice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

// A new manifest and what RocksDB writes on opening, before the first flush.
constexpr uint64_t kRoomToRevive = 1 << 20;
constexpr absl::Duration kRevivalInterval = absl::Seconds(1);

// A prefix keeps stores apart from RocksDB's own family "default".
std::string FamilyOf(const StoreDefinition& store) { return StrCat("store:", store.name); }

class RocksTaskStore : public TaskStore {
 public:
  RocksTaskStore(StateEnvironment* environment, const std::string& directory, const TaskIdentity& identity,
                 std::unique_ptr<FolderLock> lock);
  ~RocksTaskStore() override;

  // Opens what is there, wiping it first if it is not ours.
  absl::Status Start();

  const std::string& wiped_reason() const override { return wiped_reason_; }
  Positions positions() const override;
  absl::StatusOr<MaybeBytes> Get(StoreIndex store, std::string_view key) const override;
  absl::StatusOr<std::vector<MaybeBytes>> MultiGet(StoreIndex store,
                                                   absl::Span<const std::string_view> keys) const override;
  absl::StatusOr<ScanPage> Scan(const ScanRequest& request) const override;
  absl::Status Apply(absl::Span<const StoreWrite> writes, const Positions& positions) override;
  absl::Status Touch(int64_t wall_ms) override;
  absl::Status Flush() override;
  int64_t UnflushedBytes() const override;
  absl::Status Wipe() override;
  int64_t ApproximateBytes() const override;

 private:
  // Where the rows of a store are: a family of the database, or one of memory_.
  struct Place {
    bool in_memory = false;
    size_t index = 0;
  };

  absl::Status CheckStore(StoreIndex store) const;
  // Opens what is there and reads it in. `foreign` says why it is not ours or not usable; empty if it is.
  absl::Status OpenDatabase(std::string* foreign) ABSL_EXCLUSIVE_LOCKS_REQUIRED(database_mutex_);
  absl::StatusOr<std::string> FindForeign() ABSL_EXCLUSIVE_LOCKS_REQUIRED(database_mutex_);
  absl::Status ReadPositions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(database_mutex_);
  // Removes the files and starts afresh, stamped.
  absl::Status CreateAnew() ABSL_EXCLUSIVE_LOCKS_REQUIRED(database_mutex_);
  absl::Status WriteStamp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(database_mutex_);
  // If the database has failed or is not open: opens it again with everything that was applied to it. OK if all is
  // well.
  absl::Status Revive();
  absl::Status Reopen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(database_mutex_);
  absl::Status NotOpen() const ABSL_SHARED_LOCKS_REQUIRED(database_mutex_);
  // Before reads, if there is no database at all: no write may come to bring it back.
  void ReviveToRead() const;
  absl::Status EmptyCaches() ABSL_EXCLUSIVE_LOCKS_REQUIRED(database_mutex_);
  absl::StatusOr<MaybeBytes> GetMeta(std::string_view key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(database_mutex_);
  absl::Status WriteBatch(absl::Span<const StoreWrite> writes, const Positions& merged)
      ABSL_SHARED_LOCKS_REQUIRED(database_mutex_);
  absl::StatusOr<std::vector<MaybeBytes>> MultiGetOnDisk(size_t family, absl::Span<const std::string_view> keys) const
      ABSL_SHARED_LOCKS_REQUIRED(database_mutex_);
  absl::StatusOr<std::vector<MaybeBytes>> MultiGetFromDatabase(size_t family,
                                                               absl::Span<const std::string_view> keys) const
      ABSL_SHARED_LOCKS_REQUIRED(database_mutex_);
  void ApplyToMemory(absl::Span<const StoreWrite> writes);

  StateEnvironment::Impl* const environment_;
  const TaskIdentity identity_;
  const std::string path_;  // of the database: a folder below the locked one
  const std::unique_ptr<FolderLock> lock_;
  std::vector<Place> places_;          // by StoreIndex; fixed after construction
  std::vector<std::string> families_;  // by Place::index
  std::string wiped_reason_;           // fixed after Start
  CachedValues cached_;                // of the families

  absl::Mutex apply_mutex_;  // one Apply at a time; taken before the others
  // Shared by all work on the database, exclusive while it is replaced.
  mutable absl::Mutex database_mutex_;
  std::shared_ptr<Database> database_ ABSL_GUARDED_BY(database_mutex_);
  std::atomic<bool> has_database_ = false;
  // Applied, not on disk, and the database that held it is closed.
  UnflushedLedger orphans_ ABSL_GUARDED_BY(database_mutex_);
  bool wiping_ ABSL_GUARDED_BY(database_mutex_) = false;  // begun and not done: it failed
  absl::Duration next_revival_ ABSL_GUARDED_BY(database_mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(database_mutex_);  // why there is no database to write to
  mutable absl::Mutex positions_mutex_;
  Positions positions_ ABSL_GUARDED_BY(positions_mutex_);
  mutable absl::Mutex memory_mutex_;
  std::vector<MemoryStore> memory_ ABSL_GUARDED_BY(memory_mutex_);
};

RocksTaskStore::RocksTaskStore(StateEnvironment* environment, const std::string& directory,
                               const TaskIdentity& identity, std::unique_ptr<FolderLock> lock)
    : environment_(&environment->impl()),
      identity_(identity),
      path_(directory + "/db"),
      lock_(std::move(lock)),
      cached_(environment_, identity.stores.size()),
      orphans_(&environment_->unflushed_bytes) {
  size_t memory_stores = 0;
  for (const StoreDefinition& store : identity_.stores) {
    if (store.backend == StoreDefinition::Backend::kMemory) {
      places_.push_back({true, memory_stores++});
    } else {
      places_.push_back({false, families_.size()});
      families_.push_back(FamilyOf(store));
    }
  }
  absl::MutexLock lock_memory(&memory_mutex_);
  memory_.resize(memory_stores);
}

RocksTaskStore::~RocksTaskStore() {
  if (const absl::Status flushed = Flush(); !flushed.ok()) {
    LogWarning("state not flushed while closing; it is replayed from the changelog", {{"cause", flushed.ToString()}});
  }
  absl::WriterMutexLock lock(&database_mutex_);
  if (database_ != nullptr) database_->Close();
}

// ---------------------------------------------------------------- opening

absl::Status RocksTaskStore::Start() {
  absl::WriterMutexLock lock(&database_mutex_);
  MS_RETURN_IF_ERROR(OpenDatabase(&wiped_reason_));
  has_database_ = true;
  if (wiped_reason_.empty()) return absl::OkStatus();
  LogWarning("state on disk is not usable: wiped, rebuilt from the changelog",
             {{"folder", path_}, {"reason", wiped_reason_}});
  return CreateAnew();
}

absl::Status RocksTaskStore::OpenDatabase(std::string* foreign) {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) return absl::UnavailableError(StrCat("create folder ", path_, ": ", error.message()));
  bool damaged = false;
  auto database = Database::Open(environment_, path_, families_, &damaged);
  if (!database.ok()) {
    if (!damaged) return database.status();
    *foreign = std::string(database.status().message());
    return absl::OkStatus();
  }
  database_ = *std::move(database);
  auto difference = FindForeign();
  if (absl::IsDataLoss(difference.status())) {
    *foreign = std::string(difference.status().message());
    return absl::OkStatus();
  }
  MS_RETURN_IF_ERROR(difference.status());
  *foreign = *std::move(difference);
  if (!foreign->empty()) return absl::OkStatus();
  if (const absl::Status read = ReadPositions(); absl::IsDataLoss(read)) {
    *foreign = std::string(read.message());
    return absl::OkStatus();
  } else {
    MS_RETURN_IF_ERROR(read);
  }
  return EmptyCaches();
}

absl::StatusOr<std::string> RocksTaskStore::FindForeign() {
  MS_ASSIGN_OR_RETURN(const MaybeBytes stamp, GetMeta(kStampKey));
  if (stamp) return DifferenceFromStamp(*stamp, identity_);
  // New, or killed before its first flush. State never reaches the disk before the stamp.
  uint64_t bytes = 0;
  for (size_t i = 0; i < families_.size(); ++i) {
    uint64_t sst = 0;
    database_->db()->GetIntProperty(database_->family(i), rocksdb::DB::Properties::kTotalSstFilesSize, &sst);
    bytes += sst;
  }
  if (bytes > 0 || !database_->extra_families().empty()) return "its stamp is missing";
  MS_RETURN_IF_ERROR(WriteStamp());
  return "";
}

absl::Status RocksTaskStore::ReadPositions() {
  MS_ASSIGN_OR_RETURN(const MaybeBytes text, GetMeta(kPositionsKey));
  absl::MutexLock lock(&positions_mutex_);
  positions_ = Positions();
  if (!text) return absl::OkStatus();
  MS_ASSIGN_OR_RETURN(positions_, DecodePositions(*text, identity_));
  return absl::OkStatus();
}

absl::Status RocksTaskStore::EmptyCaches() {
  for (StoreIndex i = 0; i < places_.size(); ++i) {
    if (places_[i].in_memory || !identity_.stores[i].changelog_topic.empty()) continue;
    MS_RETURN_IF_ERROR(database_->Empty(places_[i].index));
  }
  return absl::OkStatus();
}

absl::Status RocksTaskStore::CreateAnew() {
  cached_.Begin();
  cached_.Forget();
  cached_.End();
  wiping_ = true;
  if (database_ != nullptr) database_->Close();
  database_ = nullptr;
  orphans_.Clear();
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (error) return absl::UnavailableError(StrCat("remove ", path_, ": ", error.message()));
  {
    absl::MutexLock lock(&positions_mutex_);
    positions_ = Positions();
  }
  std::string foreign;
  MS_RETURN_IF_ERROR(OpenDatabase(&foreign));
  wiping_ = !foreign.empty();
  if (!wiping_) return absl::OkStatus();
  return absl::DataLossError(StrCat("the database just created in ", path_, " cannot be read: ", foreign,
                                    ". The disk does not keep what is written to it"));
}

absl::Status RocksTaskStore::WriteStamp() {
  rocksdb::WriteBatch batch;
  const std::string stamp = EncodeStamp(identity_);
  (void)batch.Put(ToSlice(kStampKey), stamp);
  MS_RETURN_IF_ERROR(database_->Write(std::move(batch), static_cast<int64_t>(stamp.size())));
  return database_->Flush();
}

absl::StatusOr<MaybeBytes> RocksTaskStore::GetMeta(std::string_view key) {
  std::string value;
  const rocksdb::Status found = database_->db()->Get(rocksdb::ReadOptions(), ToSlice(key), &value);
  if (found.IsNotFound()) return MaybeBytes();
  if (!found.ok()) return FromRocks(found, StrCat("read ", key, " of"), path_);
  return MaybeBytes(std::move(value));
}

// ---------------------------------------------------------------- after a full disk

absl::Status RocksTaskStore::Revive() {
  {
    absl::ReaderMutexLock lock(&database_mutex_);
    if (database_ != nullptr && database_->failure().ok()) return absl::OkStatus();
  }
  absl::WriterMutexLock lock(&database_mutex_);
  if (database_ != nullptr && database_->failure().ok()) return absl::OkStatus();
  if (database_ != nullptr) failure_ = database_->failure();
  if (absl::IsDataLoss(failure_)) return failure_;  // Wipe is the way out
  const absl::Duration now = SystemClock().Monotonic();
  if (now < next_revival_) return failure_;
  next_revival_ = now + kRevivalInterval;
  // Without room the old one goes on serving reads.
  std::error_code error;
  const auto space = std::filesystem::space(path_, error);
  if (database_ != nullptr && !error && space.available < kRoomToRevive + 2 * database_->unflushed()->bytes())
    return failure_;
  failure_ = wiping_ ? CreateAnew() : Reopen();
  has_database_ = database_ != nullptr;
  return failure_;
}

void RocksTaskStore::ReviveToRead() const {
  if (!has_database_) const_cast<RocksTaskStore*>(this)->Revive().IgnoreError();
}

absl::Status RocksTaskStore::Reopen() {
  if (database_ != nullptr) {
    database_->Close();
    orphans_.TakeFrom(database_->unflushed());
    database_ = nullptr;
  }
  bool damaged = false;
  MS_ASSIGN_OR_RETURN(std::shared_ptr<Database> database, Database::Open(environment_, path_, families_, &damaged));
  while (UnflushedLedger::Entry* oldest = orphans_.Oldest()) {
    if (absl::Status written = database->Write(std::move(oldest->batch), oldest->bytes); !written.ok()) {
      // What it has got and not flushed is an orphan again. Each sets keys to values: once more harms nothing.
      database->Close();
      orphans_.TakeFrom(database->unflushed());
      return written;
    }
    orphans_.DropOldest();
  }
  database_ = std::move(database);
  LogInfo("state store takes writes again", {{"folder", path_}});
  return absl::OkStatus();
}

absl::Status RocksTaskStore::NotOpen() const {
  return absl::UnavailableError(
      StrCat("database ", path_, " could not be opened again after a full disk: ", ToStd(failure_.message())));
}

// ---------------------------------------------------------------- reads

absl::Status RocksTaskStore::CheckStore(StoreIndex store) const {
  if (store < places_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat("store index ", store, ": this task has ", places_.size(), " stores"));
}

Positions RocksTaskStore::positions() const {
  absl::MutexLock lock(&positions_mutex_);
  return positions_;
}

absl::StatusOr<MaybeBytes> RocksTaskStore::Get(StoreIndex store, std::string_view key) const {
  MS_RETURN_IF_ERROR(CheckStore(store));
  const Place place = places_[store];
  if (place.in_memory) {
    absl::ReaderMutexLock lock(&memory_mutex_);
    return memory_[place.index].Get(key);
  }
  ReviveToRead();
  absl::ReaderMutexLock lock(&database_mutex_);
  if (database_ == nullptr) return NotOpen();
  MS_ASSIGN_OR_RETURN(std::vector<MaybeBytes> values, MultiGetOnDisk(place.index, {&key, 1}));
  return std::move(values.front());
}

absl::StatusOr<std::vector<MaybeBytes>> RocksTaskStore::MultiGet(StoreIndex store,
                                                                 absl::Span<const std::string_view> keys) const {
  MS_RETURN_IF_ERROR(CheckStore(store));
  const Place place = places_[store];
  if (place.in_memory) {
    std::vector<MaybeBytes> values;
    values.reserve(keys.size());
    absl::ReaderMutexLock lock(&memory_mutex_);
    for (const std::string_view key : keys) values.push_back(memory_[place.index].Get(key));
    return values;
  }
  ReviveToRead();
  absl::ReaderMutexLock lock(&database_mutex_);
  if (database_ == nullptr) return NotOpen();
  return MultiGetOnDisk(place.index, keys);
}

absl::StatusOr<std::vector<MaybeBytes>> RocksTaskStore::MultiGetOnDisk(size_t family,
                                                                       absl::Span<const std::string_view> keys) const {
  const std::optional<CachedValues::Moment> moment = cached_.Now();
  if (!moment.has_value()) return MultiGetFromDatabase(family, keys);
  std::vector<MaybeBytes> values(keys.size());
  const std::vector<uint32_t> missing = cached_.Find(family, keys, &values);
  std::vector<std::string_view> wanted;
  for (const uint32_t index : missing) wanted.push_back(keys[index]);
  if (!wanted.empty()) {
    MS_ASSIGN_OR_RETURN(std::vector<MaybeBytes> found, MultiGetFromDatabase(family, wanted));
    cached_.Fill(*moment, family, wanted, found);
    for (size_t i = 0; i < missing.size(); ++i) values[missing[i]] = std::move(found[i]);
  }
  // Some of it may be of before a change and some of after it.
  if (!cached_.Still(*moment)) return MultiGetFromDatabase(family, keys);
  return values;
}

absl::StatusOr<std::vector<MaybeBytes>> RocksTaskStore::MultiGetFromDatabase(
    size_t family, absl::Span<const std::string_view> keys) const {
  const size_t count = keys.size();
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  // Comparing here costs a fraction of RocksDB's own sort through its comparator.
  const auto by_key = [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; };
  if (!std::is_sorted(order.begin(), order.end(), by_key)) std::sort(order.begin(), order.end(), by_key);

  std::vector<rocksdb::Slice> slices(count);
  for (size_t i = 0; i < count; ++i) slices[i] = ToSlice(keys[order[i]]);
  std::vector<rocksdb::PinnableSlice> found(count);
  std::vector<rocksdb::Status> statuses(count);
  database_->db()->MultiGet(rocksdb::ReadOptions(), database_->family(family), count, slices.data(), found.data(),
                            statuses.data(), /*sorted_input=*/true);
  std::vector<MaybeBytes> values(count);
  for (size_t i = 0; i < count; ++i) {
    if (statuses[i].ok()) {
      values[order[i]].emplace(found[i].data(), found[i].size());
    } else if (!statuses[i].IsNotFound()) {
      return FromRocks(statuses[i], "read", path_);
    }
  }
  return values;
}

absl::StatusOr<ScanPage> RocksTaskStore::Scan(const ScanRequest& request) const {
  MS_RETURN_IF_ERROR(CheckStore(request.store));
  const Place place = places_[request.store];
  if (place.in_memory) {
    absl::ReaderMutexLock lock(&memory_mutex_);
    return memory_[place.index].Scan(request);
  }
  ReviveToRead();
  absl::ReaderMutexLock lock(&database_mutex_);
  if (database_ == nullptr) return NotOpen();
  return ScanFamily(database_->db(), database_->family(place.index), request, path_);
}

// ---------------------------------------------------------------- writes

absl::Status RocksTaskStore::Apply(absl::Span<const StoreWrite> writes, const Positions& positions) {
  for (const StoreWrite& write : writes) MS_RETURN_IF_ERROR(CheckStore(write.store));
  for (const auto& [store, unused] : positions.changelog) MS_RETURN_IF_ERROR(CheckStore(store));
  absl::MutexLock one_at_a_time(&apply_mutex_);
  Positions merged = this->positions();
  for (const auto& [store, offset] : positions.changelog) merged.changelog[store] = offset;
  for (const auto& [topic, offset] : positions.inputs) merged.inputs[topic] = offset;
  merged.wall_ms = positions.wall_ms;

  // Before the lock: they may replace or flush this very database.
  MS_RETURN_IF_ERROR(Revive());
  environment_->MakeRoom();
  absl::ReaderMutexLock lock(&database_mutex_);
  if (database_ == nullptr) return NotOpen();
  cached_.Begin();
  const absl::Status written = WriteBatch(writes, merged);
  if (!written.ok()) cached_.Forget();
  cached_.End();
  MS_RETURN_IF_ERROR(written);
  ApplyToMemory(writes);
  absl::MutexLock lock_positions(&positions_mutex_);
  positions_ = std::move(merged);
  return absl::OkStatus();
}

absl::Status RocksTaskStore::WriteBatch(absl::Span<const StoreWrite> writes, const Positions& merged) {
  // In the order of the memtables, which makes inserting cheaper; of writes to one key the later one stays the later
  // one.
  const std::vector<uint32_t> order = OrderOf(writes);
  int64_t bytes = 0;
  rocksdb::WriteBatch batch;
  std::vector<CachedValues::Row> rows;
  rows.reserve(writes.size());
  for (const uint32_t index : order) {
    const StoreWrite& write = writes[index];
    const Place place = places_[write.store];
    if (place.in_memory) continue;
    rocksdb::ColumnFamilyHandle* family = database_->family(place.index);
    const rocksdb::Status added =
        write.value ? batch.Put(family, write.key, *write.value) : batch.Delete(family, write.key);
    if (!added.ok()) return FromRocks(added, "write", path_);
    bytes += static_cast<int64_t>(write.key.size() + (write.value ? write.value->size() : 0));
    rows.push_back({place.index, write.key, write.value});
  }
  // Last, so that its sequence number is the batch's (see Database::Listener).
  const std::string encoded = EncodePositions(merged, identity_);
  (void)batch.Put(ToSlice(kPositionsKey), encoded);
  MS_RETURN_IF_ERROR(database_->Write(std::move(batch), bytes + static_cast<int64_t>(encoded.size())));
  cached_.Put(rows);
  return absl::OkStatus();
}

void RocksTaskStore::ApplyToMemory(absl::Span<const StoreWrite> writes) {
  absl::MutexLock lock(&memory_mutex_);
  if (memory_.empty()) return;
  for (const StoreWrite& write : writes) {
    const Place place = places_[write.store];
    if (!place.in_memory) continue;
    if (write.value) {
      memory_[place.index].Put(write.key, *write.value);
    } else {
      memory_[place.index].Delete(write.key);
    }
  }
}

absl::Status RocksTaskStore::Touch(int64_t wall_ms) {
  Positions only_time;
  only_time.wall_ms = wall_ms;
  return Apply({}, only_time);
}

absl::Status RocksTaskStore::Flush() {
  MS_RETURN_IF_ERROR(Revive());
  absl::ReaderMutexLock lock(&database_mutex_);
  return database_ == nullptr ? absl::OkStatus() : database_->Flush();
}

int64_t RocksTaskStore::UnflushedBytes() const {
  absl::ReaderMutexLock lock(&database_mutex_);
  return orphans_.bytes() + (database_ == nullptr ? 0 : database_->unflushed_bytes());
}

absl::Status RocksTaskStore::Wipe() {
  absl::MutexLock one_at_a_time(&apply_mutex_);
  absl::WriterMutexLock lock(&database_mutex_);
  {
    absl::MutexLock lock_memory(&memory_mutex_);
    for (MemoryStore& store : memory_) store.Clear();
  }
  failure_ = CreateAnew();
  has_database_ = database_ != nullptr;
  return failure_;
}

int64_t RocksTaskStore::ApproximateBytes() const {
  int64_t bytes = 0;
  {
    absl::ReaderMutexLock lock(&memory_mutex_);
    for (const MemoryStore& store : memory_) bytes += store.bytes();
  }
  absl::ReaderMutexLock lock(&database_mutex_);
  return database_ == nullptr ? bytes : bytes + database_->ApproximateBytes();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TaskStore>> TaskStore::Open(StateEnvironment* environment, const std::string& directory,
                                                           const TaskIdentity& identity) {
  MS_ASSIGN_OR_RETURN(std::unique_ptr<FolderLock> lock, FolderLock::Take(directory));
  auto store = std::make_unique<RocksTaskStore>(environment, directory, identity, std::move(lock));
  MS_RETURN_IF_ERROR(store->Start());
  return store;
}

}  // namespace millstream::store
