#include "common/log/testing/fault_script.h"

#include "common/base/clock.h"
#include "common/log/testing/faulty_reader.h"

namespace millstream::log {

int FaultyLog::Script::Inject(Fault fault) {
  absl::MutexLock lock(&mutex_);
  entries_[++last_] = std::make_shared<Entry>(Entry{std::move(fault)});
  return last_;
}

void FaultyLog::Script::Remove(int fault) {
  Release(fault);
  absl::MutexLock lock(&mutex_);
  entries_.erase(fault);
}

void FaultyLog::Script::Release(int fault) {
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(fault);
  if (it == entries_.end()) return;
  it->second->released = true;
  changed_.SignalAll();
}

void FaultyLog::Script::ReleaseAll() {
  absl::MutexLock lock(&mutex_);
  for (auto& [number, entry] : entries_) entry->released = true;
  changed_.SignalAll();
}

int FaultyLog::Script::Strikes(int fault) const {
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(fault);
  return it == entries_.end() ? 0 : it->second->strikes;
}

bool FaultyLog::Script::WaitUntilHeld(int fault, absl::Duration patience) const {
  const absl::Duration until = SystemClock().Monotonic() + patience;
  absl::MutexLock lock(&mutex_);
  for (;;) {
    const auto it = entries_.find(fault);
    if (it == entries_.end()) return false;
    if (it->second->holding > 0) return true;
    const absl::Duration left = until - SystemClock().Monotonic();
    if (left <= absl::ZeroDuration()) return false;
    changed_.WaitWithTimeout(&mutex_, left);
  }
}

Fault FaultyLog::Script::Arrive(Call call, const std::string& of) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<Entry> striking;
  for (const auto& [number, entry] : entries_) {
    if (entry->fault.call != call || (!entry->fault.of.empty() && entry->fault.of != of)) continue;
    if (entry->seen++ < entry->fault.skip || entry->strikes >= entry->fault.times) continue;
    striking = entry;
    break;
  }
  if (striking == nullptr) return {};
  ++striking->strikes;
  const absl::Duration until = SystemClock().Monotonic() + striking->fault.delay;
  for (absl::Duration left = striking->fault.delay; left > absl::ZeroDuration();
       left = until - SystemClock().Monotonic()) {
    changed_.WaitWithTimeout(&mutex_, left);
  }
  ++striking->holding;
  changed_.SignalAll();
  while (striking->fault.hold && !striking->released) changed_.Wait(&mutex_);
  --striking->holding;
  return striking->fault;
}

void FaultyLog::Script::Later(const std::string& transactional_id, std::function<absl::Status()> call) {
  absl::MutexLock lock(&mutex_);
  later_.emplace(transactional_id, std::move(call));
}

absl::Status FaultyLog::Script::HappenNow(const std::string& transactional_id) {
  std::vector<std::function<absl::Status()>> calls;
  {
    absl::MutexLock lock(&mutex_);
    const auto [first, last] = later_.equal_range(transactional_id);
    for (auto it = first; it != last; ++it) calls.push_back(std::move(it->second));
    later_.erase(first, last);
  }
  absl::Status status;
  for (const auto& call : calls) status.Update(call());
  return status;
}

void FaultyLog::Script::NeverHappen(const std::string& transactional_id) {
  absl::MutexLock lock(&mutex_);
  later_.erase(transactional_id);
}

void FaultyLog::Script::AddReader(FaultyReader* reader) {
  absl::MutexLock lock(&mutex_);
  readers_.push_back(reader);
}

void FaultyLog::Script::RemoveReader(FaultyReader* reader) {
  absl::MutexLock lock(&mutex_);
  std::erase(readers_, reader);
}

void FaultyLog::Script::FailPartition(const TopicPartition& partition, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  for (FaultyReader* reader : readers_) reader->FailPartition(partition, status);
}

}  // namespace millstream::log
