#include "operator/reconcile/sidecar_reports.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/thread_name.h"
#include "common/http/client.h"
#include "operator/kube/json.h"
#include "operator/model/processor.h"

namespace millstream::reconcile {
namespace {

// As many at once: a thousand pods that do not answer are asked within 2 minutes, and nobody else waits for them.
constexpr int kThreads = 16;
// Beyond that pods are not asked in this pass; the next one tries again.
constexpr size_t kMaxWaiting = 4096;
// A sidecar answers from memory. Longer than a pass waits: a late answer serves the next one.
constexpr absl::Duration kDeadline = absl::Seconds(3);
// 1,000 tasks with their errors are about 1 MiB.
constexpr size_t kMaxAnswerBytes = 4 << 20;
constexpr absl::Duration kForgotten = absl::Minutes(10);

class HttpSidecarReports : public SidecarReports {
 public:
  HttpSidecarReports(const Clock* clock, MetricsRegistry* metrics, int port)
      : clock_(clock), metrics_(metrics), port_(port) {
    for (int i = 0; i < kThreads; ++i) {
      threads_.emplace_back([this] {
        NameThread("ms-sidecars");
        Work();
      });
    }
  }

  ~HttpSidecarReports() override {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    for (std::thread& thread : threads_) thread.join();
  }

  std::map<std::string, model::SidecarReport> Of(const std::vector<Pod>& pods, absl::Duration max_age) override {
    const absl::Time now = clock_->WallTime();
    absl::MutexLock lock(&mutex_);
    ForgetOld();
    std::vector<std::string> awaited;
    for (const Pod& pod : pods) {
      if (pod.ip.empty()) continue;
      Known& known = known_[pod.uid];
      known.wanted = clock_->Monotonic();
      if (known.report && now - known.report->heard <= max_age) continue;
      // Who did not answer the last time is asked, but not waited for: passes over others would wait with this one.
      if (!known.silent) awaited.push_back(pod.uid);
      if (known.asked || waiting_.size() >= kMaxWaiting) continue;
      known.asked = true;
      waiting_.push_back(pod);
    }
    const auto answered = [this, &awaited]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return std::none_of(awaited.begin(), awaited.end(), [this](const std::string& uid) { return IsAsked(uid); });
    };
    mutex_.AwaitWithTimeout(absl::Condition(&answered), kPatience);
    std::map<std::string, model::SidecarReport> reports;
    for (const Pod& pod : pods) {
      const auto known = known_.find(pod.uid);
      if (known != known_.end() && known->second.report) reports[pod.name] = *known->second.report;
    }
    return reports;
  }

 private:
  struct Known {
    std::optional<model::SidecarReport> report;
    bool asked = false;   // waits for its turn or for its answer
    bool silent = false;  // the last question got no answer
    absl::Duration wanted = absl::ZeroDuration();
  };

  bool IsAsked(const std::string& uid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto known = known_.find(uid);
    return known != known_.end() && known->second.asked;
  }

  void ForgetOld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Duration now = clock_->Monotonic();
    if (now - swept_ < kForgotten) return;
    swept_ = now;
    for (auto at = known_.begin(); at != known_.end();) {
      const auto next = std::next(at);
      if (!at->second.asked && now - at->second.wanted > kForgotten) known_.erase(at);
      at = next;
    }
  }

  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !waiting_.empty(); }

  void Work() {
    while (true) {
      Pod pod;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(this, &HttpSidecarReports::HasWork));
        if (stopping_) return;
        pod = std::move(waiting_.front());
        waiting_.pop_front();
      }
      absl::StatusOr<model::SidecarReport> report = Ask(pod);
      Count(report.status());
      absl::MutexLock lock(&mutex_);
      Known& known = known_[pod.uid];
      known.asked = false;
      known.silent = !report.ok();
      if (report.ok()) known.report = *std::move(report);
    }
  }

  absl::StatusOr<model::SidecarReport> Ask(const Pod& pod) const {
    const bool is_six = absl::StrContains(pod.ip, ":");
    http::ClientRequest request;
    request.url = StrCat("http://", is_six ? "[" : "", pod.ip, is_six ? "]:" : ":", port_, "/v1/tasks");
    request.deadline = kDeadline;
    request.max_body_bytes = kMaxAnswerBytes;
    MS_ASSIGN_OR_RETURN(const http::Response response, http::Fetch(request));
    if (response.status != 200) return absl::UnavailableError(StrCat(request.url, " answers ", response.status));
    MS_ASSIGN_OR_RETURN(const kube::Json answer, kube::ParseJson(response.body, request.url));
    return model::ReadSidecarReport(answer, clock_->WallTime(), pod.uid);
  }

  void Count(const absl::Status& status) const {
    metrics_
        ->GetCounter("millstream_operator_sidecar_requests_total", "Questions to sidecars, by how they ended",
                     {{"result", status.ok() ? "success" : "error"}})
        ->Add();
  }

  const Clock* const clock_;
  MetricsRegistry* const metrics_;
  const int port_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Pod> waiting_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);  // by uid
  absl::Duration swept_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<SidecarReports> NewHttpSidecarReports(const Clock* clock, MetricsRegistry* metrics, int port) {
  return std::make_unique<HttpSidecarReports>(clock, metrics, port);
}

}  // namespace millstream::reconcile
