#include "sidecar/server/http_endpoints_scan.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::server {
namespace {

constexpr size_t kTasksAtOnce = 4;

// One merged scan under way. The callbacks of a wave share it.
class Merge : public std::enable_shared_from_this<Merge> {
 public:
  Merge(std::shared_ptr<BackendCalls> backend, MergedScan scan, std::function<void(absl::StatusOr<MergedPage>)> done)
      : backend_(std::move(backend)), scan_(std::move(scan)), done_(std::move(done)) {}

  void NextWave() {
    if (next_ == scan_.tasks.size()) return done_(std::move(page_));
    // The last answer starts the next wave, perhaps while this loop is still running: it works on its own numbers.
    const size_t first = next_, end = std::min(first + kTasksAtOnce, scan_.tasks.size());
    next_ = end;
    {
      absl::MutexLock lock(&mutex_);
      waiting_ = end - first;
      answers_.assign(waiting_, {});
    }
    for (size_t i = first; i < end; ++i) {
      const TaskId task = scan_.tasks[i];
      const bool running = backend_->Run([&](QueryBackend* backend) {
        backend->Scan(task, RangeFor(task),
                      [self = shared_from_this(), slot = i - first](absl::StatusOr<ScanAnswer> answer) {
                        self->Answered(slot, std::move(answer));
                      });
      });
      if (!running)
        Answered(i - first, absl::UnavailableError("the sidecar is stopping; ask another one, or again later"));
    }
  }

 private:
  // The part of the range that is behind the cursor, for this task.
  store::ScanRequest RangeFor(TaskId task) const {
    store::ScanRequest range = scan_.range;
    range.max_rows = scan_.max_rows;
    range.max_bytes = scan_.max_bytes;
    if (!scan_.after) return range;
    const Bytes& key = scan_.after->key;
    const bool passed = range.reverse ? task >= scan_.after->task : task <= scan_.after->task;
    if (passed) {
      range.after = key;
    } else if (range.reverse) {
      const Bytes behind = key + '\0';  // the key itself is still to come
      if (!range.to || behind < *range.to) range.to = behind;
    } else if (!range.from || key > *range.from) {
      range.from = key;
    }
    return range;
  }

  void Answered(size_t slot, absl::StatusOr<ScanAnswer> answer) {
    {
      absl::MutexLock lock(&mutex_);
      answers_[slot].emplace(std::move(answer));
      if (--waiting_ > 0) return;
    }
    EndWave();
  }

  // Only one thread gets here at a time: the one with the last answer of a wave.
  void EndWave() {
    std::vector<std::optional<absl::StatusOr<ScanAnswer>>> answers;
    {
      absl::MutexLock lock(&mutex_);
      answers.swap(answers_);
    }
    for (auto& answer : answers) {
      if (!(*answer).ok()) return done_((*answer).status());
      Take(**std::move(answer));
    }
    Trim();
    NextWave();
  }

  bool Before(const MergedPage::Row& a, const MergedPage::Row& b) const {
    const auto left = std::tie(a.key, a.task), right = std::tie(b.key, b.task);
    return scan_.range.reverse ? left > right : left < right;
  }

  void Take(ScanAnswer answer) {
    for (auto& [key, value] : answer.page.rows) {
      page_.rows.push_back({std::move(key), std::move(value), answer.source.task});
    }
    if (answer.page.more && !page_.rows.empty()) {
      // What this task has behind its last row is not known, so nothing behind that row may be shown.
      MergedPage::Row last{page_.rows.back().key, "", answer.source.task};
      if (!horizon_ || Before(last, *horizon_)) horizon_ = std::move(last);
    }
    page_.sources.push_back(std::move(answer.source));
  }

  void Trim() {
    std::sort(page_.rows.begin(), page_.rows.end(), [this](const auto& a, const auto& b) { return Before(a, b); });
    size_t keep = 0, bytes = 0;
    for (; keep < page_.rows.size() && keep < scan_.max_rows; ++keep) {
      const MergedPage::Row& row = page_.rows[keep];
      bytes += row.key.size() + row.value.size();
      if ((horizon_ && Before(*horizon_, row)) || (keep > 0 && bytes > scan_.max_bytes)) break;
    }
    if (keep < page_.rows.size()) {
      horizon_ = {page_.rows[keep - 1].key, "", page_.rows[keep - 1].task};
      page_.rows.resize(keep);
    }
    page_.more = horizon_.has_value();
  }

  const std::shared_ptr<BackendCalls> backend_;
  const MergedScan scan_;
  const std::function<void(absl::StatusOr<MergedPage>)> done_;
  size_t next_ = 0;  // into scan_.tasks
  MergedPage page_;
  std::optional<MergedPage::Row> horizon_;  // rows behind it are not complete

  absl::Mutex mutex_;
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::optional<absl::StatusOr<ScanAnswer>>> answers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

bool BackendCalls::Run(const std::function<void(QueryBackend*)>& call) {
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return false;
    ++running_;
  }
  call(backend_);
  absl::MutexLock lock(&mutex_);
  --running_;
  return true;
}

void BackendCalls::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  mutex_.Await(absl::Condition(
      +[](int* running) { return *running == 0; }, &running_));
}

void RunMergedScan(std::shared_ptr<BackendCalls> backend, MergedScan scan,
                   std::function<void(absl::StatusOr<MergedPage>)> done) {
  std::make_shared<Merge>(std::move(backend), std::move(scan), std::move(done))->NextWave();
}

std::string EncodeCursor(const MergedScan::Cursor& cursor) {
  std::string bytes;
  AppendBigEndian32(static_cast<uint32_t>(cursor.task.value()), &bytes);
  bytes += cursor.key;
  return absl::WebSafeBase64Escape(bytes);
}

absl::StatusOr<MergedScan::Cursor> DecodeCursor(const std::string& text) {
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(text, &bytes) || bytes.size() < 4) {
    return absl::InvalidArgumentError("the cursor is not one of ours; pass on what the page before gave as \"cursor\"");
  }
  return MergedScan::Cursor{bytes.substr(4), TaskId(static_cast<int32_t>(ReadBigEndian32(bytes)))};
}

}  // namespace millstream::server
