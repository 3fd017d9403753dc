#include "operator/runtime/reflector.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/log_line.h"
#include "operator/kube/api_error.h"

namespace millstream::runtime {
namespace {

// As client-go's reflectors: an API server that comes back is not met by everybody at once.
constexpr BackoffOptions kBackoff{.first = absl::Milliseconds(800), .max = absl::Seconds(30), .jitter = 0.5};
// A watch that ended sooner without a word is treated as a failure: else it would be opened in a tight loop.
constexpr absl::Duration kShortWatch = absl::Seconds(1);

}  // namespace

Reflector::Reflector(const kube::Resource& resource, kube::Selection selection, kube::Client* client,
                     ObjectCache* cache, const Clock* clock, uint64_t seed)
    : resource_(resource),
      selection_(std::move(selection)),
      client_(client),
      cache_(cache),
      clock_(clock),
      random_(seed) {}

absl::Status Reflector::last_error() const {
  absl::MutexLock lock(&mutex_);
  return last_error_;
}

absl::Duration Reflector::Step(const http::Interruption& interruption) {
  if (needs_list_) {
    if (const absl::Status listed = List(); !listed.ok()) return After(listed, false);
    needs_list_ = false;
  }
  bool progress = false;
  const absl::Duration began = clock_->Monotonic();
  absl::Status watched = Watch(interruption, &progress);
  if (interruption.interrupted()) return absl::ZeroDuration();
  if (kube::IsExpired(watched)) needs_list_ = true;
  if (watched.ok() && !progress && clock_->Monotonic() - began < kShortWatch) {
    watched = absl::UnavailableError("watch: the server ended it at once");
  }
  return After(watched, progress);
}

absl::Status Reflector::List() {
  absl::StatusOr<kube::ObjectList> list = client_->List(resource_, selection_);
  if (!list.ok()) return list.status();
  cache_->Replace(*std::move(list));
  return absl::OkStatus();
}

absl::Status Reflector::Watch(const http::Interruption& interruption, bool* progress) {
  kube::WatchOptions options;
  options.resource_version = cache_->resource_version();
  return client_->Watch(resource_, selection_, options, interruption, [this, progress](kube::WatchEvent event) {
    *progress = true;
    cache_->Take(std::move(event));
    return absl::OkStatus();
  });
}

absl::Duration Reflector::After(const absl::Status& status, bool progress) {
  {
    absl::MutexLock lock(&mutex_);
    last_error_ = progress ? absl::OkStatus() : status;
  }
  if (progress) failures_ = 0;
  if (status.ok()) {
    failures_ = 0;
    return absl::ZeroDuration();
  }
  ++failures_;
  if (failures_ >= kMaxBarrenWatches) needs_list_ = true;
  // A silence that was noticed, or a history that is gone, is worth a try at once; the next one in a row is not.
  if (failures_ == 1 && (kube::IsExpired(status) || absl::IsDeadlineExceeded(status))) return absl::ZeroDuration();
  LogWarning("watching is interrupted",
             {{"resource", resource_.Name()}, {"failures", failures_}, {"error", std::string(status.message())}});
  const double chance = std::uniform_real_distribution<double>(0, 1)(random_);
  const absl::Duration delay = BackoffDelay(kBackoff, failures_, chance);
  return std::max(delay, kube::RetryAfterOf(status).value_or(absl::ZeroDuration()));
}

void Reflector::Run(const http::Interruption& interruption) {
  while (!interruption.interrupted()) {
    const absl::Duration delay = Step(interruption);
    if (delay > absl::ZeroDuration() && interruption.WaitFor(delay)) return;
  }
}

}  // namespace millstream::runtime
