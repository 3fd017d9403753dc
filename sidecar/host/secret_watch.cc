#include "sidecar/host/secret_watch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/log_line.h"
#include "common/base/strings.h"

namespace millstream::host {
namespace {

// What has to change: the files, or something at the brokers (or nothing: they are away).
std::string_view ReasonOf(const absl::Status& tried) {
  return absl::IsInvalidArgument(tried) ? "SecretUnreadable" : "SecretRefused";
}

}  // namespace

SecretWatch::SecretWatch(const SecretWatchOptions& options, std::shared_ptr<kafka::LiveAccess> live, Read read,
                         Try attempt, const Clock* clock, MetricsRegistry* metrics)
    : options_(options),
      live_(std::move(live)),
      read_(std::move(read)),
      try_(std::move(attempt)),
      clock_(clock),
      taken_(metrics->GetCounter("millstream_secrets_taken_total",
                                 "Rotated secrets that brokers took, and connections go on with.", {})),
      waiting_(metrics->GetGauge("millstream_secrets_waiting",
                                 "1 while the folder has secrets that cannot be used and those before are.", {})),
      retry_pause_(options.first_retry) {}

SecretWatch::~SecretWatch() { Stop(); }

void SecretWatch::Start() {
  thread_ = std::thread([this] { Run(); });
}

void SecretWatch::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void SecretWatch::Run() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), options_.interval)) return;
    }
    Look();
  }
}

std::vector<Condition> SecretWatch::Conditions() const {
  absl::MutexLock lock(&mutex_);
  if (!condition_.has_value()) return {};
  return {*condition_};
}

void SecretWatch::Look() {
  absl::StatusOr<kafka::ClusterAccess> read = read_();
  if (!read.ok()) return Unreadable(read.status());
  unread_.reset();
  if (*read == live_->Now()->access) return Settle();
  if (found_ != *read) {
    // The kubelet replaces a whole folder at once, but who copies files does not: it must look the same twice.
    found_ = *std::move(read);
    retry_pause_ = options_.first_retry;
    retry_at_ = -absl::InfiniteDuration();
    return;
  }
  if (clock_->Monotonic() >= retry_at_) Attempt(*found_);
}

void SecretWatch::Settle() {
  found_.reset();
  Tell(std::nullopt);
}

void SecretWatch::Unreadable(const absl::Status& why) {
  found_.reset();
  // Once may be in the middle of a change.
  const bool again = std::exchange(unread_, why).has_value();
  if (again)
    Tell(Condition{"SecretUnreadable", StrCat(std::string(why.message()), "; the secrets before stay in use")});
}

void SecretWatch::Attempt(const kafka::ClusterAccess& access) {
  const absl::Status tried = try_(access);
  if (tried.ok()) {
    live_->Change(access);
    taken_->Add();
    LogInfo("rotated secrets are in use", {{"version", live_->version()}});
    return Settle();
  }
  retry_at_ = clock_->Monotonic() + retry_pause_;
  retry_pause_ = std::min(2 * retry_pause_, options_.longest_retry);
  Tell(Condition{std::string(ReasonOf(tried)),
                 StrCat("the rotated secrets are not taken: ", std::string(tried.message()),
                        "; those before stay in use, and these are tried again within a minute")});
}

void SecretWatch::Tell(std::optional<Condition> condition) {
  waiting_->Set(condition.has_value() ? 1 : 0);
  absl::MutexLock lock(&mutex_);
  if (condition.has_value() && condition != condition_) {
    LogWarning(condition->message, {{"reason", condition->reason}});
  }
  condition_ = std::move(condition);
}

}  // namespace millstream::host
