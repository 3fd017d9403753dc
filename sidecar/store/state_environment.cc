#include "sidecar/store/state_environment.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <string>
#include <utility>

#if __has_include(<rocksdb/advanced_cache.h>)
#include <rocksdb/advanced_cache.h>  // from RocksDB 8 on the members of Cache are declared here
#endif

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "sidecar/store/database.h"
#include "sidecar/store/state_environment_impl.h"

namespace millstream::store {
namespace {

// engine.md, "Disk": what a kill -9 may cost to replay, over all tasks of a process.
constexpr int64_t kMaxUnflushedBytes = 64 << 20;
// A flush takes a while; started here it is usually done before the bound is reached.
constexpr double kSoftFraction = 0.625;

// A half of the memory for the block cache: a value that is wanted takes a tenth of what the block around it would.
constexpr int64_t kValuesShare = 2;

// RocksDB's warnings and errors as log lines of ours; no LOG file per database. While compaction lags behind it warns
// several times a second: one line per kind and interval is enough.
constexpr absl::Duration kRepeatInterval = absl::Seconds(30);
constexpr size_t kMaxKinds = 64;

class LineLogger : public rocksdb::Logger {
 public:
  LineLogger() : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void LogHeader(const char*, va_list) override {}
  void Logv(const char*, va_list) override {}
  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < rocksdb::InfoLogLevel::WARN_LEVEL || level == rocksdb::InfoLogLevel::HEADER_LEVEL || !IsNews(format))
      return;
    char text[1024];
    vsnprintf(text, sizeof(text), format, arguments);
    LogWarning("rocksdb", {{"says", std::string(text)}});
  }

 private:
  // `format` is a literal of RocksDB's: its text is the kind of the message.
  bool IsNews(const char* format) {
    const absl::Duration now = SystemClock().Monotonic();
    absl::MutexLock lock(&mutex_);
    if (last_.size() >= kMaxKinds) last_.clear();
    const auto [entry, is_new] = last_.try_emplace(format, now);
    if (!is_new && now - entry->second < kRepeatInterval) return false;
    entry->second = now;
    return true;
  }

  absl::Mutex mutex_;
  std::map<std::string, absl::Duration> last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

StateEnvironment::Impl::Impl(const StateMemory& memory)
    : memtable_bytes(memory.memtable_bytes),
      block_cache(rocksdb::NewLRUCache(memory.block_cache_bytes - memory.block_cache_bytes / kValuesShare,
                                       /*num_shard_bits=*/4, /*strict_capacity_limit=*/false,
                                       /*high_pri_pool_ratio=*/0.5)),
      write_buffers(std::make_shared<rocksdb::WriteBufferManager>(memory.memtable_bytes)),
      logger(std::make_shared<LineLogger>()),
      values(memory.block_cache_bytes / kValuesShare) {
  // The process's threads for flushes and compactions, shared by all databases.
  rocksdb::Env::Default()->SetBackgroundThreads(1, rocksdb::Env::HIGH);
  rocksdb::Env::Default()->SetBackgroundThreads(1, rocksdb::Env::LOW);
}

bool StateEnvironment::Impl::Above(double fraction) const {
  const int64_t unflushed = unflushed_bytes.load(std::memory_order_relaxed);
  const int64_t held = static_cast<int64_t>(write_buffers->memory_usage()) + unflushed;
  return static_cast<double>(held) > fraction * static_cast<double>(memtable_bytes) ||
         static_cast<double>(unflushed) > fraction * kMaxUnflushedBytes;
}

void StateEnvironment::Impl::Register(const std::shared_ptr<Database>& database) {
  absl::MutexLock lock(&mutex_);
  databases_.erase(
      std::remove_if(databases_.begin(), databases_.end(), [](const auto& weak) { return weak.expired(); }),
      databases_.end());
  databases_.push_back(database);
}

std::vector<std::shared_ptr<Database>> StateEnvironment::Impl::ByUnflushedBytes() {
  std::vector<std::pair<int64_t, std::shared_ptr<Database>>> found;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& weak : databases_) {
      if (auto database = weak.lock(); database && database->unflushed_bytes() > 0) {
        found.emplace_back(database->unflushed_bytes(), std::move(database));
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::shared_ptr<Database>> databases;
  for (auto& [bytes, database] : found) databases.push_back(std::move(database));
  return databases;
}

void StateEnvironment::Impl::MakeRoom() {
  if (!Above(kSoftFraction)) return;
  const bool wait = Above(1);
  // Each at most once: what is above the bound after that is held by reads under way, or by a full disk, and ends with
  // them.
  for (const auto& database : ByUnflushedBytes()) {
    if (!database->failure().ok()) continue;
    if (!wait) return database->FlushInBackground();
    database->Flush().IgnoreError();
    if (!Above(1)) return;
  }
}

StateEnvironment::StateEnvironment(const StateMemory& memory) : impl_(std::make_unique<Impl>(memory)) {}
StateEnvironment::~StateEnvironment() = default;

int64_t StateEnvironment::BlockCacheUsage() const { return static_cast<int64_t>(impl_->block_cache->GetUsage()); }
int64_t StateEnvironment::MemtableUsage() const {
  return static_cast<int64_t>(impl_->write_buffers->memory_usage()) +
         impl_->unflushed_bytes.load(std::memory_order_relaxed);
}

}  // namespace millstream::store
