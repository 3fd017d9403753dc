#include "sidecar/server/http_endpoints_windows.h"

#include <algorithm>
#include <utility>

#include "common/base/strings.h"

namespace millstream::server {
namespace {

// A page has 1 MiB; a key whose rows are so far apart is better asked for as a range.
constexpr int kMostPages = 100;

// One search under way, from the last row down; the callbacks of its pages share it.
class Search : public std::enable_shared_from_this<Search> {
 public:
  Search(std::shared_ptr<BackendCalls> backend, const spec::StoreSpec* store, Bytes key, TaskId task,
         store::ScanRequest range, std::function<void(absl::StatusOr<KeyWindows>)> done)
      : backend_(std::move(backend)),
        store_(store),
        key_(std::move(key)),
        task_(task),
        range_(std::move(range)),
        done_(std::move(done)) {}

  void NextPage() {
    if (++pages_ > kMostPages) {
      return done_(absl::ResourceExhaustedError(
          StrCat("too many rows of keys that begin with '", Readable(key_), "' lie between its windows")));
    }
    const bool running = backend_->Run([this](QueryBackend* backend) {
      backend->Scan(task_, range_, [self = shared_from_this()](absl::StatusOr<ScanAnswer> answer) {
        self->Answered(std::move(answer));
      });
    });
    if (!running) done_(absl::UnavailableError("the sidecar is stopping; ask another one, or again later"));
  }

 private:
  void Answered(absl::StatusOr<ScanAnswer> answer) {
    if (!answer.ok()) return done_(answer.status());
    if (pages_ == 1) found_.source = std::move(answer->source);
    store::ScanPage& page = answer->page;
    for (auto& [row, value] : page.rows) {
      const std::optional<engine::RowParts> parts = engine::ParseRowKey(*store_, row);
      if (!parts || parts->key != key_) continue;
      if (found_.rows.size() == KeyWindows::kMost) {
        found_.more = true;
        return End();
      }
      found_.rows.push_back({parts->bounds, std::move(value)});
    }
    if (!page.more || page.rows.empty()) return End();
    range_.after = std::move(page.rows.back().first);
    NextPage();
  }

  void End() {
    std::sort(found_.rows.begin(), found_.rows.end(),
              [](const KeyWindows::Row& a, const KeyWindows::Row& b) { return a.bounds < b.bounds; });
    done_(std::move(found_));
  }

  const std::shared_ptr<BackendCalls> backend_;
  const spec::StoreSpec* const store_;
  const Bytes key_;
  const TaskId task_;
  store::ScanRequest range_;
  const std::function<void(absl::StatusOr<KeyWindows>)> done_;
  int pages_ = 0;
  KeyWindows found_;
};

}  // namespace

void FindWindows(std::shared_ptr<BackendCalls> backend, store::StoreIndex store, const spec::StoreSpec* windowed,
                 const Bytes& key, TaskId task, std::function<void(absl::StatusOr<KeyWindows>)> done) {
  engine::RowRange rows = engine::RowsOf(*windowed, key);
  store::ScanRequest range;
  range.store = store;
  range.from = std::move(rows.from);
  range.to = std::move(rows.to);
  range.reverse = true;
  range.max_rows = KeyWindows::kMost + 1;
  std::make_shared<Search>(std::move(backend), windowed, key, task, std::move(range), std::move(done))->NextPage();
}

}  // namespace millstream::server
