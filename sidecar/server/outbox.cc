#include "sidecar/server/outbox.h"

#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::server {

absl::Status Outbox::Add(std::string frame) {
  absl::MutexLock lock(&mutex_);
  if (bytes_ > 0 && bytes_ + frame.size() > max_bytes_) {
    refused_ = true;
    return absl::ResourceExhaustedError(
        StrCat("the worker's queue holds ", bytes_, " bytes that it has not read, of at most ", max_bytes_));
  }
  bytes_ += frame.size();
  frames_.push_back(std::move(frame));
  return absl::OkStatus();
}

bool Outbox::AddOwn(std::string frame, size_t reserve) {
  absl::MutexLock lock(&mutex_);
  if (bytes_ > 0 && bytes_ + frame.size() > max_bytes_ + reserve) return false;
  bytes_ += frame.size();
  frames_.push_back(std::move(frame));
  return true;
}

std::deque<std::string> Outbox::Take() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(frames_, {});
}

bool Outbox::Written(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  MS_CHECK(bytes <= bytes_);
  bytes_ -= bytes;
  if (!refused_ || bytes_ > max_bytes_ / 2) return false;
  refused_ = false;
  return true;
}

size_t Outbox::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

}  // namespace millstream::server
