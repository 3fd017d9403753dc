#include "operator/runtime/work_queue.h"

#include <algorithm>

#include "common/base/status.h"

namespace millstream::runtime {

void WorkQueue::Add(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  AddLocked(key);
}

void WorkQueue::AddLocked(const std::string& key) {
  if (shut_down_ || !dirty_.insert(key).second) return;
  if (processing_.contains(key)) return;  // Done queues it
  queue_.push_back(key);
  changed_.Signal();
}

void WorkQueue::AddAfter(const std::string& key, absl::Duration delay) {
  absl::MutexLock lock(&mutex_);
  if (shut_down_) return;
  if (delay <= absl::ZeroDuration()) return AddLocked(key);
  // Whole nanoseconds, as clocks count: else a key would not be due when the clock has advanced by until_next().
  const absl::Duration when = clock_->Monotonic() + absl::Ceil(delay, absl::Nanoseconds(1));
  const auto [found, is_new] = due_.try_emplace(key, when);
  if (!is_new) {
    if (found->second <= when) return;
    delayed_.erase({found->second, key});
    found->second = when;
  }
  delayed_.emplace(when, key);
  changed_.Signal();  // whoever waits may have to wake earlier
}

void WorkQueue::MoveDue() {
  const absl::Duration now = clock_->Monotonic();
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    const std::string key = delayed_.begin()->second;
    delayed_.erase(delayed_.begin());
    due_.erase(key);
    AddLocked(key);
  }
}

std::optional<std::string> WorkQueue::TakeLocked() {
  MoveDue();
  if (queue_.empty()) return std::nullopt;
  std::string key = std::move(queue_.front());
  queue_.pop_front();
  dirty_.erase(key);
  processing_[key] = clock_->Monotonic();
  return key;
}

std::optional<std::string> WorkQueue::TryGet() {
  absl::MutexLock lock(&mutex_);
  if (shut_down_) return std::nullopt;
  return TakeLocked();
}

std::optional<std::string> WorkQueue::Get() {
  absl::MutexLock lock(&mutex_);
  while (!shut_down_) {
    if (std::optional<std::string> key = TakeLocked()) {
      if (!queue_.empty() || !delayed_.empty()) changed_.Signal();  // the next one waits for what is left
      return key;
    }
    changed_.WaitWithTimeout(&mutex_, UntilNextLocked());
  }
  return std::nullopt;
}

void WorkQueue::Done(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  MS_CHECK(processing_.erase(key) == 1);
  if (shut_down_ || !dirty_.contains(key)) return;
  queue_.push_back(key);
  changed_.Signal();
}

void WorkQueue::ShutDown() {
  absl::MutexLock lock(&mutex_);
  shut_down_ = true;
  queue_.clear();
  dirty_.clear();
  delayed_.clear();
  due_.clear();
  changed_.SignalAll();
}

size_t WorkQueue::depth() const {
  absl::MutexLock lock(&mutex_);
  return queue_.size();
}

size_t WorkQueue::delayed() const {
  absl::MutexLock lock(&mutex_);
  return delayed_.size();
}

absl::Duration WorkQueue::longest_running() const {
  absl::MutexLock lock(&mutex_);
  const absl::Duration now = clock_->Monotonic();
  absl::Duration longest = absl::ZeroDuration();
  for (const auto& [key, since] : processing_) longest = std::max(longest, now - since);
  return longest;
}

absl::Duration WorkQueue::until_next() const {
  absl::MutexLock lock(&mutex_);
  return UntilNextLocked();
}

absl::Duration WorkQueue::UntilNextLocked() const {
  if (delayed_.empty()) return absl::InfiniteDuration();
  return std::max(absl::ZeroDuration(), delayed_.begin()->first - clock_->Monotonic());
}

}  // namespace millstream::runtime
