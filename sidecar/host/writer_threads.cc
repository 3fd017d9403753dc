#include "sidecar/host/writer_threads.h"

#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/crash_point.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/thread_name.h"

namespace millstream::host {
namespace {

using What = engine::WriterCall::What;

const char* NameOf(What what) {
  switch (what) {
    case What::kCreate:
      return "create";
    case What::kBegin:
      return "begin";
    case What::kAppend:
      return "append";
    case What::kFlush:
      return "flush";
    case What::kSendOffsets:
      return "send offsets";
    case What::kCommit:
      return "commit";
    case What::kAbort:
      return "abort";
  }
  return "?";
}

// A writer and its calls, without threads.
class Executor {
 public:
  Executor(const WriterThreadsOptions& options, log::Log* log) : options_(options), log_(log) {}

  absl::Status Execute(engine::WriterCall& call, log::AcknowledgedOffsets* acknowledged) {
    if (call.writer == engine::WriterName::kPlain) return ExecutePlain(call, acknowledged);
    if (call.what == What::kCreate) return Create(call.writer);
    if (writer_ == nullptr) return NoWriter();
    switch (call.what) {
      case What::kBegin:
        appended_ = false;
        return writer_->Begin();
      case What::kAppend:
        MS_RETURN_IF_ERROR(writer_->Append(std::move(call.records)));
        if (!std::exchange(appended_, true)) CrashPoint("after-first-append");
        return absl::OkStatus();
      case What::kFlush: {
        MS_ASSIGN_OR_RETURN(*acknowledged, writer_->Flush());
        CrashPoint("after-flush");
        return absl::OkStatus();
      }
      case What::kSendOffsets:
        MS_RETURN_IF_ERROR(writer_->SendOffsets(call.token, call.offsets));
        CrashPoint("after-offsets-sent");
        return absl::OkStatus();
      case What::kCommit:
        MS_RETURN_IF_ERROR(writer_->Commit());
        CrashPoint("commit-done-not-applied");
        return absl::OkStatus();
      case What::kAbort:
        return writer_->Abort();
      case What::kCreate:
        break;
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status NoWriter() {
    return WithRecovery(absl::FailedPreconditionError("the writer was not created"), Recovery::kRecreate);
  }

  absl::Status Create(engine::WriterName name) {
    writer_.reset();
    log::WriterOptions options;
    options.transactional_id =
        name == engine::WriterName::kA ? options_.transactional_id_a : options_.transactional_id_b;
    options.transaction_timeout = options_.transaction_timeout;
    options.call_deadline = options_.call_deadline;
    writer_ = log_->NewTransactionalWriter(options);
    absl::Status status = writer_->Init();
    if (!status.ok()) writer_.reset();
    return Annotate(status, StrCat("writer ", options.transactional_id));
  }

  absl::Status ExecutePlain(engine::WriterCall& call, log::AcknowledgedOffsets* acknowledged) {
    if (call.what == What::kCreate) {
      plain_ = log_->NewPlainWriter();
      return absl::OkStatus();
    }
    if (plain_ == nullptr) return NoWriter();
    if (call.what == What::kAppend) return plain_->Append(std::move(call.records));
    MS_CHECK(call.what == What::kFlush);
    MS_ASSIGN_OR_RETURN(*acknowledged, plain_->Flush());
    return absl::OkStatus();
  }

  const WriterThreadsOptions options_;
  log::Log* const log_;
  std::unique_ptr<log::TransactionalWriter> writer_;
  std::unique_ptr<log::PlainWriter> plain_;
  bool appended_ = false;  // since the last Begin
};

}  // namespace

// The queue and thread of one writer. Shared with its thread, so that an abandoned one keeps what it uses.
class WriterThreads::Lane {
 public:
  Lane(const WriterThreadsOptions& options, log::Log* log, const Clock* clock, EventSink* sink,
       std::shared_ptr<std::atomic<int>> stuck)
      : executor_(std::make_unique<Executor>(options, log)), clock_(clock), sink_(sink), stuck_(std::move(stuck)) {}

  static std::shared_ptr<Lane> Start(std::shared_ptr<Lane> lane) {
    lane->thread_ = std::thread([lane] {
      NameThread("writer");
      lane->Run();
    });
    return lane;
  }

  void Push(engine::WriterCall call) {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(std::move(call));
  }

  bool RunsLongerThan(absl::Duration limit) {
    absl::MutexLock lock(&mutex_);
    return running_.has_value() && clock_->Monotonic() - running_->since > limit;
  }

  struct Unanswered {
    std::optional<engine::WriterCall> running;
    std::deque<engine::WriterCall> queued;
  };
  // From here on the thread answers nothing.
  Unanswered Abandon() {
    Unanswered unanswered;
    {
      absl::MutexLock lock(&mutex_);
      abandoned_ = true;
      if (running_.has_value()) {
        unanswered.running = engine::WriterCall{};
        unanswered.running->writer = running_->writer;
        unanswered.running->call = running_->call;
        unanswered.running->what = running_->what;
        stuck_->fetch_add(1);
      }
      unanswered.queued.swap(queue_);
    }
    thread_.detach();
    return unanswered;
  }

  // True when the thread has ended within `wait`.
  bool Stop(absl::Duration wait) {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
      if (!mutex_.AwaitWithTimeout(absl::Condition(&ended_), wait)) return false;
    }
    thread_.join();
    return true;
  }

 private:
  struct Running {
    engine::WriterName writer;
    engine::CallId call;
    What what;
    absl::Duration since;
  };

  void Run() {
    const auto something_to_do = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || abandoned_ || !queue_.empty();
    };
    while (true) {
      engine::WriterCall call;
      {
        absl::MutexLock lock(&mutex_, absl::Condition(&something_to_do));
        if (stopping_ || abandoned_) break;
        call = std::move(queue_.front());
        queue_.pop_front();
        running_ = Running{call.writer, call.call, call.what, clock_->Monotonic()};
      }
      engine::WriterCallDone done{
          .writer = call.writer, .call = call.call, .status = absl::OkStatus(), .acknowledged = {}};
      done.status = executor_->Execute(call, &done.acknowledged);
      {
        absl::MutexLock lock(&mutex_);
        if (abandoned_) break;
        running_.reset();
      }
      sink_->Post(std::move(done));
    }
    executor_.reset();  // may block as well: the last thing of an abandoned thread
    absl::MutexLock lock(&mutex_);
    if (abandoned_ && running_.has_value()) stuck_->fetch_sub(1);
    ended_ = true;
  }

  std::unique_ptr<Executor> executor_;  // the thread's
  const Clock* const clock_;
  EventSink* const sink_;
  const std::shared_ptr<std::atomic<int>> stuck_;
  std::thread thread_;
  absl::Mutex mutex_;
  std::deque<engine::WriterCall> queue_ ABSL_GUARDED_BY(mutex_);
  std::optional<Running> running_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

WriterThreads::WriterThreads(const WriterThreadsOptions& options, log::Log* log, const Clock* clock, EventSink* sink)
    : options_(options), log_(log), clock_(clock), sink_(sink) {}

WriterThreads::~WriterThreads() { Stop(absl::ZeroDuration()); }

void WriterThreads::Call(engine::WriterCall call) {
  std::shared_ptr<Lane>& lane = lanes_[static_cast<size_t>(call.writer)];
  if (lane == nullptr) {
    if (call.what != What::kCreate) return Refuse(call);
    if (stuck() >= kMaxAbandoned) {
      waiting_.push_back(std::move(call));
      return;
    }
    lane = Lane::Start(std::make_shared<Lane>(options_, log_, clock_, sink_, stuck_));
  }
  lane->Push(std::move(call));
}

void WriterThreads::CheckDeadlines() {
  for (size_t writer = 0; writer < lanes_.size(); ++writer) {
    if (lanes_[writer] != nullptr && lanes_[writer]->RunsLongerThan(options_.abandon_after)) Abandon(writer);
  }
  if (waiting_.empty() || stuck() >= kMaxAbandoned) return;
  for (engine::WriterCall& call : std::exchange(waiting_, {})) Call(std::move(call));
}

void WriterThreads::Abandon(size_t writer) {
  Lane::Unanswered unanswered = std::exchange(lanes_[writer], nullptr)->Abandon();
  if (unanswered.running.has_value()) {
    const engine::WriterCall& call = *unanswered.running;
    LogError("a call on a writer did not come back; it is abandoned and the writer made anew",
             {{"call", NameOf(call.what)}, {"writer", static_cast<int>(call.writer)}, {"stuck", stuck()}});
    const absl::Status status = absl::DeadlineExceededError(StrCat(
        "writer: ", NameOf(call.what), " did not come back within ", absl::FormatDuration(options_.abandon_after)));
    const bool unknown = call.what == What::kCommit || call.what == What::kAbort;
    sink_->Post(engine::WriterCallDone{
        .writer = call.writer,
        .call = call.call,
        .status = unknown ? WithUnknownOutcome(status) : WithRecovery(status, Recovery::kRecreate),
        .acknowledged = {}});
  }
  for (const engine::WriterCall& call : unanswered.queued) Refuse(call);
}

void WriterThreads::Refuse(const engine::WriterCall& call) {
  sink_->Post(engine::WriterCallDone{
      .writer = call.writer,
      .call = call.call,
      .status = WithRecovery(
          absl::FailedPreconditionError(StrCat("writer: ", NameOf(call.what), " behind a call that was abandoned")),
          Recovery::kRecreate),
      .acknowledged = {}});
}

void WriterThreads::Stop(absl::Duration wait) {
  for (std::shared_ptr<Lane>& lane : lanes_) {
    if (lane != nullptr && !lane->Stop(wait)) lane->Abandon();
    lane.reset();
  }
}

}  // namespace millstream::host
