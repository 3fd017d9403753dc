#ifndef MILLSTREAM_OPERATOR_KUBE_TESTING_SCRIPTED_TRANSPORT_H_
#define MILLSTREAM_OPERATOR_KUBE_TESTING_SCRIPTED_TRANSPORT_H_

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "operator/kube/transport.h"

namespace millstream::kube {

// A transport that answers from a script, one answer per call, and keeps what was asked. Behind the script's end every
// call is UNAVAILABLE. Thread-safe.
class ScriptedTransport : public Transport {
 public:
  void Answer(int status, std::string body, std::string retry_after = "") {
    absl::MutexLock lock(&mutex_);
    steps_.push_back({absl::OkStatus(), {status, std::move(retry_after), std::move(body)}, {}});
  }
  void Fail(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    steps_.push_back({std::move(status), {}, {}});
  }
  // A stream: the pieces, then the end, or the error.
  void Pieces(std::vector<std::string> pieces, absl::Status end = absl::OkStatus()) {
    absl::MutexLock lock(&mutex_);
    steps_.push_back({std::move(end), {200, "", ""}, std::move(pieces)});
  }

  absl::StatusOr<HttpAnswer> Do(const HttpCall& call) override {
    const Step step = Next(call);
    if (!step.status.ok()) return step.status;
    return step.answer;
  }
  absl::StatusOr<HttpAnswer> Stream(const HttpCall& call, absl::Duration, const http::Interruption& interruption,
                                    const PieceSink& sink) override {
    const Step step = Next(call);
    for (const std::string& piece : step.pieces) {
      if (interruption.interrupted()) return absl::CancelledError("interrupted");
      if (absl::Status taken = sink(piece); !taken.ok()) return taken;
    }
    if (!step.status.ok()) return step.status;
    return step.answer;
  }

  std::vector<HttpCall> calls() const {
    absl::MutexLock lock(&mutex_);
    return calls_;
  }
  HttpCall last_call() const {
    absl::MutexLock lock(&mutex_);
    return calls_.empty() ? HttpCall() : calls_.back();
  }

 private:
  struct Step {
    absl::Status status;
    HttpAnswer answer;
    std::vector<std::string> pieces;
  };
  Step Next(const HttpCall& call) {
    absl::MutexLock lock(&mutex_);
    calls_.push_back(call);
    if (steps_.empty()) return {absl::UnavailableError("the script has ended"), {}, {}};
    Step step = std::move(steps_.front());
    steps_.pop_front();
    return step;
  }

  mutable absl::Mutex mutex_;
  std::deque<Step> steps_ ABSL_GUARDED_BY(mutex_);
  std::vector<HttpCall> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millstream::kube

#endif  // MILLSTREAM_OPERATOR_KUBE_TESTING_SCRIPTED_TRANSPORT_H_
