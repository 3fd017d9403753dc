#include "operator/runtime/controller.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "common/base/log_line.h"
#include "common/base/strings.h"
#include "common/base/thread_name.h"
#include "operator/kube/api_error.h"
#include "operator/kube/time_limit.h"

namespace millstream::runtime {
namespace {

const std::vector<double>& DurationBounds() {
  static const std::vector<double>* const bounds =
      new std::vector<double>{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
  return *bounds;
}

}  // namespace

Controller::Controller(ControllerOptions options, Reconcile reconcile, const Clock* clock, MetricsRegistry* metrics)
    : options_(std::move(options)),
      reconcile_(std::move(reconcile)),
      clock_(clock),
      metrics_(metrics),
      queue_(clock),
      limiter_(clock, options_.seed) {}

Controller::~Controller() { Stop(); }

void Controller::Start() {
  for (int i = 0; i < options_.workers; ++i) {
    threads_.emplace_back([this, i] {
      NameThread(StrCat("ms-reconcile-", i).c_str());
      while (const std::optional<std::string> key = queue_.Get()) Handle(*key);
    });
  }
}

void Controller::Stop() {
  queue_.ShutDown();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool Controller::ProcessOne() {
  const std::optional<std::string> key = queue_.TryGet();
  if (!key) return false;
  Handle(*key);
  return true;
}

void Controller::Handle(const std::string& key) {
  const std::string id = StrCat(options_.name, "-", ++passes_);
  const absl::Duration began = clock_->Monotonic();
  const absl::StatusOr<Pass> result = RunPass(key, id);
  metrics_
      ->GetHistogram("millstream_operator_reconcile_duration_seconds", "How long passes over one key take",
                     {{"controller", options_.name}}, DurationBounds())
      ->Observe(absl::ToDoubleSeconds(clock_->Monotonic() - began));
  // Before Done: a key that is added again waits until its repetition is settled, and then is handled at once.
  Settle(key, id, result);
  queue_.Done(key);
}

absl::StatusOr<Pass> Controller::RunPass(const std::string& key, const std::string& id) const {
  const kube::TimeLimit limit(clock_, options_.pass_limit);
  try {
    return reconcile_(key, id);
  } catch (const std::exception& error) {
    // A bug of ours that one object brought out must not stop the others.
    return absl::InternalError(StrCat("the pass threw: ", std::string(error.what())));
  }
}

void Controller::Settle(const std::string& key, const std::string& id, const absl::StatusOr<Pass>& result) {
  if (result.ok()) {
    limiter_.Forget(key);
    if (result->again_after > absl::ZeroDuration()) queue_.AddAfter(key, result->again_after);
    return Count("success");
  }
  const absl::Status& status = result.status();
  if (absl::IsInvalidArgument(status)) {
    limiter_.Forget(key);
    queue_.AddAfter(key, options_.hopeless_delay);
    LogWarning("a pass failed, no repetition will help",
               {{"object", key}, {"reconcile", id}, {"error", std::string(status.message())}});
    return Count("hopeless");
  }
  const absl::Duration delay = std::max(limiter_.When(key), kube::RetryAfterOf(status).value_or(absl::ZeroDuration()));
  queue_.AddAfter(key, delay);
  Log(absl::IsAborted(status) ? LogLevel::kDebug : LogLevel::kWarning, "a pass failed and will be repeated",
      {{"object", key},
       {"reconcile", id},
       {"after", absl::FormatDuration(delay)},
       {"error", std::string(status.message())}});
  Count(absl::IsAborted(status) ? "conflict" : "error");
}

void Controller::Count(const std::string& result) {
  metrics_
      ->GetCounter("millstream_operator_reconcile_total", "Passes over one key, by how they ended",
                   {{"controller", options_.name}, {"result", result}})
      ->Add();
}

void Controller::UpdateGauges() {
  const MetricLabels labels = {{"controller", options_.name}};
  metrics_->GetGauge("millstream_operator_queue_depth", "Keys that are due", labels)
      ->Set(static_cast<double>(queue_.depth()));
  metrics_->GetGauge("millstream_operator_queue_delayed", "Keys that wait for their time", labels)
      ->Set(static_cast<double>(queue_.delayed()));
  metrics_
      ->GetGauge("millstream_operator_longest_pass_seconds", "How long the longest pass under way has taken so far",
                 labels)
      ->Set(absl::ToDoubleSeconds(longest_pass()));
}

}  // namespace millstream::runtime
