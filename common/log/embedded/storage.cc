#include "common/log/embedded/storage.h"

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/embedded/rocks_database.h"

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

// Healing waits so long for cursors and other calls under way; they take milliseconds.
constexpr absl::Duration kLongestUse = absl::Seconds(5);
constexpr absl::Duration kLeastHealInterval = absl::Milliseconds(100);
// Beside what is flushed, opening writes a manifest and the beginning of a write-ahead log.
constexpr int64_t kRoomToOpen = 256 << 10;

}  // namespace

struct WriteSet::Rep {
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
  rep_->batch.Put(RecordsFamily(), rocksdb::SliceParts(&key_slice, 1), rocksdb::SliceParts(value, 2));
}

void WriteSet::DeleteBatch(uint32_t segment, uint32_t partition, int64_t base) {
  rep_->batch.Delete(RecordsFamily(), ToSlice(MakeBatchKey(segment, partition, base)));
}

void WriteSet::DeleteBatches(uint32_t segment, uint32_t partition, int64_t offset) {
  const BatchKey first = MakeBatchKey(segment, partition, 0);
  const BatchKey end = MakeBatchKey(segment, partition, offset);
  rep_->batch.DeleteRange(RecordsFamily(), ToSlice(first), ToSlice(end));
}

void WriteSet::PutMeta(std::string_view key, std::string_view value) { rep_->batch.Put(ToSlice(key), ToSlice(value)); }
void WriteSet::DeleteMeta(std::string_view key) { rep_->batch.Delete(ToSlice(key)); }
size_t WriteSet::bytes() const { return rep_->batch.GetDataSize(); }
bool WriteSet::empty() const { return rep_->batch.Count() == 0; }
void WriteSet::Clear() { rep_->batch.Clear(); }

class RocksStorage : public Storage {
 public:
  class Use;

  explicit RocksStorage(const StorageOptions& options) : setting_(options) {
    setting_.on_failure = [this](const rocksdb::Status& status) {
      Note(status, "write in the background").IgnoreError();
    };
  }
  ~RocksStorage() override {
    // What failed must not be written to again: the kernel may take a second try for a success.
    if (failed_ && database_ != nullptr) database_->GiveUp();
    database_.reset();
  }

  absl::Status Start() {
    MS_ASSIGN_OR_RETURN(auto database, RocksDatabase::Open(setting_, RocksDatabase::Mode::kReadWrite, UINT64_MAX));
    acknowledged_ = database->last_sequence();
    absl::MutexLock lock(&mutex_);
    database_ = std::move(database);
    return absl::OkStatus();
  }

  WriteSet NewWriteSet() override { return WriteSet(std::make_unique<WriteSet::Rep>()); }
  absl::Status Write(WriteSet& set) override;
  absl::Status Sync() override;
  absl::Status Heal() override;
  BatchCursor NewCursor(uint32_t segment, uint32_t partition) override;
  absl::Status ScanMeta(std::string_view prefix,
                        const std::function<absl::Status(std::string_view, std::string_view)>& visit) override;
  absl::Status ReclaimSegment(uint32_t segment) override;

  const std::string& directory() const { return setting_.options.directory; }
  // The failure last met.
  absl::Status failure() const {
    absl::MutexLock lock(&mutex_);
    return failure_;
  }

 private:
  RocksDatabase* Enter();
  void Leave();
  // From here on it has to be healed.
  absl::Status Note(const rocksdb::Status& status, std::string_view doing);
  absl::Status Fail(absl::Status status);
  absl::Status TryToHeal() ABSL_EXCLUSIVE_LOCKS_REQUIRED(healing_);
  absl::Status CheckRoom();
  absl::Status Replace() ABSL_EXCLUSIVE_LOCKS_REQUIRED(healing_);
  absl::StatusOr<std::unique_ptr<RocksDatabase>> TakeOut();
  void PutIn(std::unique_ptr<RocksDatabase> database);

  RocksSetting setting_;
  std::atomic<bool> failed_ = false;
  // Of the last write that returned OK. RocksDB's own number counts failed ones too.
  std::atomic<uint64_t> acknowledged_ = 0;

  absl::Mutex healing_ ABSL_ACQUIRED_BEFORE(mutex_);
  bool hopeless_ ABSL_GUARDED_BY(healing_) = false;
  absl::Duration next_try_ ABSL_GUARDED_BY(healing_) = -absl::InfiniteDuration();

  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  std::unique_ptr<RocksDatabase> database_ ABSL_GUARDED_BY(mutex_);  // its users are counted
  int users_ ABSL_GUARDED_BY(mutex_) = 0;
  bool replacing_ ABSL_GUARDED_BY(mutex_) = false;  // new users wait
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

// Counts those who use the database, so that it is not replaced meanwhile. Thread-safe.
class RocksStorage::Use {
 public:
  explicit Use(RocksStorage* storage) : storage_(storage), database_(storage->Enter()) {}
  ~Use() { storage_->Leave(); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  explicit operator bool() const { return database_ != nullptr; }
  RocksDatabase* operator->() const { return database_; }

 private:
  RocksStorage* const storage_;
  RocksDatabase* const database_;  // null: it could not be opened again, not even to be read
};

struct BatchCursor::Rep {
  Rep(RocksStorage* storage_in, uint32_t segment_in, uint32_t partition_in);

  RocksStorage* const storage;
  const uint32_t segment, partition;
  const BatchKey lower, upper;  // the iterator points at the slices, the slices at the keys
  const rocksdb::Slice lower_slice, upper_slice;
  const RocksStorage::Use use;
  std::unique_ptr<rocksdb::Iterator> iterator;  // null: there is no database now
};

BatchCursor::BatchCursor(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
BatchCursor::BatchCursor(BatchCursor&&) noexcept = default;
BatchCursor::~BatchCursor() = default;

BatchCursor::Rep::Rep(RocksStorage* storage_in, uint32_t segment_in, uint32_t partition_in)
    : storage(storage_in),
      segment(segment_in),
      partition(partition_in),
      lower(MakeBatchKey(segment, partition, 0)),
      upper(MakeBatchKey(segment, partition + 1, 0)),
      lower_slice(ToSlice(lower)),
      upper_slice(ToSlice(upper)),
      use(storage) {
  if (!use) return;
  rocksdb::ReadOptions read;
  read.iterate_lower_bound = &lower_slice;
  read.iterate_upper_bound = &upper_slice;
  read.fill_cache = false;  // records are read once, in order: they would only push the index blocks out
  iterator.reset(use->db().NewIterator(read, use->records()));
}

void BatchCursor::SeekAtOrBefore(int64_t offset) {
  if (rep_->iterator == nullptr) return;
  const BatchKey key = MakeBatchKey(rep_->segment, rep_->partition, offset);
  rocksdb::Iterator& iterator = *rep_->iterator;
  iterator.Seek(ToSlice(key));
  if (iterator.Valid() && iterator.key() == ToSlice(key)) return;
  if (!iterator.status().ok()) return;
  iterator.SeekForPrev(ToSlice(key));
  if (!iterator.Valid() && iterator.status().ok()) iterator.SeekToFirst();
}

void BatchCursor::SeekToLast() {
  if (rep_->iterator != nullptr) rep_->iterator->SeekToLast();
}
void BatchCursor::Next() { rep_->iterator->Next(); }
bool BatchCursor::Valid() const { return rep_->iterator != nullptr && rep_->iterator->Valid(); }
int64_t BatchCursor::base() const {
  return static_cast<int64_t>(ReadBigEndian64(ToView(rep_->iterator->key()).substr(8)));
}
std::string_view BatchCursor::value() const { return ToView(rep_->iterator->value()); }
absl::Status BatchCursor::status() const {
  if (rep_->iterator == nullptr) return rep_->storage->failure();
  return FromRocks(rep_->iterator->status(), "read records", rep_->storage->directory());
}

// ---------------------------------------------------------------- reads and writes

absl::Status RocksStorage::Write(WriteSet& set) {
  MS_RETURN_IF_ERROR(Heal());
  const Use use(this);
  if (!use || !use->writable()) return failure();
  MS_RETURN_IF_ERROR(Note(use->db().Write(rocksdb::WriteOptions(), &set.rep_->batch), "write"));
  acknowledged_ = use->last_sequence();
  return absl::OkStatus();
}

absl::Status RocksStorage::Sync() {
  MS_RETURN_IF_ERROR(Heal());
  const Use use(this);
  if (!use || !use->writable()) return failure();
  return Note(use->db().SyncWAL(), "sync");
}

BatchCursor RocksStorage::NewCursor(uint32_t segment, uint32_t partition) {
  auto rep = std::make_unique<BatchCursor::Rep>(this, segment, partition);
  if (rep->iterator == nullptr) {
    rep.reset();
    Heal().IgnoreError();  // no write may come to do it
    rep = std::make_unique<BatchCursor::Rep>(this, segment, partition);
  }
  return BatchCursor(std::move(rep));
}

absl::Status RocksStorage::ScanMeta(std::string_view prefix,
                                    const std::function<absl::Status(std::string_view, std::string_view)>& visit) {
  const Use use(this);
  if (!use) return failure();
  rocksdb::ReadOptions read;
  const std::optional<std::string> end = PrefixEnd(prefix);
  rocksdb::Slice end_slice;
  if (end) {
    end_slice = *end;
    read.iterate_upper_bound = &end_slice;
  }
  std::unique_ptr<rocksdb::Iterator> it(use->db().NewIterator(read, use->meta()));
  for (it->Seek(ToSlice(prefix)); it->Valid(); it->Next()) {
    MS_RETURN_IF_ERROR(visit(ToView(it->key()), ToView(it->value())));
  }
  return FromRocks(it->status(), "read meta data", directory());
}

absl::Status RocksStorage::ReclaimSegment(uint32_t segment) {
  const BatchKey first = MakeBatchKey(segment, 0, 0);
  const BatchKey last = MakeBatchKey(segment, UINT32_MAX, INT64_MAX);
  const rocksdb::Slice begin = ToSlice(first), end = ToSlice(last);
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  const Use use(this);
  if (!use || !use->writable()) return failure();
  return FromRocks(use->db().CompactRange(options, use->records(), &begin, &end), "reclaim space", directory());
}

// ---------------------------------------------------------------- after a failure

RocksDatabase* RocksStorage::Enter() {
  absl::MutexLock lock(&mutex_);
  while (replacing_) changed_.Wait(&mutex_);
  ++users_;
  return database_.get();
}

void RocksStorage::Leave() {
  absl::MutexLock lock(&mutex_);
  if (--users_ == 0 && replacing_) changed_.SignalAll();
}

absl::Status RocksStorage::Note(const rocksdb::Status& status, std::string_view doing) {
  return status.ok() ? absl::OkStatus() : Fail(FromRocks(status, doing, directory()));
}

absl::Status RocksStorage::Fail(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  failure_ = status;
  failed_ = true;
  return status;
}

absl::Status RocksStorage::Heal() {
  if (!failed_) return absl::OkStatus();
  absl::MutexLock lock(&healing_);
  if (!failed_) return absl::OkStatus();
  const absl::Duration began = SystemClock().Monotonic();
  if (hopeless_ || began < next_try_) return failure();
  const absl::Status status = TryToHeal();
  const absl::Duration now = SystemClock().Monotonic();
  next_try_ = now + std::max(kLeastHealInterval, 4 * (now - began));
  return status;
}

absl::Status RocksStorage::TryToHeal() {
  if (absl::Status room = CheckRoom(); !room.ok()) return Fail(std::move(room));
  absl::Status status = Replace();
  if (status.ok()) {
    LogInfo("the embedded log takes writes again", {{"folder", directory()}});
    return status;
  }
  hopeless_ = absl::IsDataLoss(status);
  if (!hopeless_) return Fail(std::move(status));
  LogError("the embedded log cannot be healed", {{"folder", directory()}, {"error", status.message()}});
  return Fail(absl::InternalError(
      StrCat("the log in ", directory(),
             " takes no writes until it is opened again (start the program again): ", ToStd(status.message()))));
}

// Without room the database that there is goes on being read.
absl::Status RocksStorage::CheckRoom() {
  const Use use(this);
  if (!use) return absl::OkStatus();
  rocksdb::Env* const env = setting_.env != nullptr ? setting_.env.get() : rocksdb::Env::Default();
  uint64_t free = 0;
  if (!env->GetFreeSpace(directory(), &free).ok()) return absl::OkStatus();  // it is tried, then
  const int64_t needed = use->MemtableBytes() + kRoomToOpen;
  if (free >= static_cast<uint64_t>(needed)) return absl::OkStatus();
  return absl::ResourceExhaustedError(StrCat("disk full, free some space and repeat: going on in ", directory(),
                                             " after a failed write takes ", needed, " bytes, ", free, " are free"));
}

absl::Status RocksStorage::Replace() {
  MS_ASSIGN_OR_RETURN(std::unique_ptr<RocksDatabase> old, TakeOut());
  if (old != nullptr) old->GiveUp();
  old.reset();
  failed_ = false;  // before it is opened: it may fail again at once
  auto opened = RocksDatabase::Open(setting_, RocksDatabase::Mode::kReadWrite, acknowledged_);
  absl::Status status = opened.status();
  if (status.ok() && (*opened)->last_sequence() < acknowledged_) {
    status = absl::DataLossError(StrCat("the disk has lost what was written to the write-ahead log in ", directory(),
                                        " before it could be synced"));
  }
  if (status.ok()) {
    PutIn(*std::move(opened));
    return status;
  }
  Fail(status).IgnoreError();
  if (opened.ok()) opened->reset();
  auto read_only = RocksDatabase::Open(setting_, RocksDatabase::Mode::kReadOnly, acknowledged_);
  PutIn(read_only.ok() ? *std::move(read_only) : nullptr);
  return status;
}

// Returns the database once nobody uses it; until PutIn nobody can.
absl::StatusOr<std::unique_ptr<RocksDatabase>> RocksStorage::TakeOut() {
  if (const Use use(this); use && use->writable()) use->db().DisableManualCompaction();  // the one use that takes long
  absl::MutexLock lock(&mutex_);
  replacing_ = true;
  const absl::Duration until = SystemClock().Monotonic() + kLongestUse;
  while (users_ > 0) {
    const absl::Duration left = until - SystemClock().Monotonic();
    if (left > absl::ZeroDuration()) {
      changed_.WaitWithTimeout(&mutex_, left);
      continue;
    }
    replacing_ = false;
    changed_.SignalAll();
    return absl::UnavailableError(StrCat("the log in ", directory(),
                                         " is to be opened again after a failed write, and was read without a pause"));
  }
  return std::move(database_);
}

void RocksStorage::PutIn(std::unique_ptr<RocksDatabase> database) {
  absl::MutexLock lock(&mutex_);
  database_ = std::move(database);
  replacing_ = false;
  changed_.SignalAll();
}

absl::StatusOr<std::unique_ptr<Storage>> Storage::Open(const StorageOptions& options) {
  auto storage = std::make_unique<RocksStorage>(options);
  MS_RETURN_IF_ERROR(storage->Start());
  return storage;
}

}  // namespace millstream::log::embedded
