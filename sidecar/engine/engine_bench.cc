// What the engine's own thread costs per record: batches, overlays, transactions, applies; without worker, log and
// disk, which answer at once and outside the measured time. Counting per key, and per key and minute, as the end-to-end
// benchmarks do.
//
//   engine_bench [RECORDS]
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/log_line.h"
#include "sidecar/engine/engine.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/frame.h"

namespace millstream::engine {
namespace {

enum class Stores { kKeyValue, kWindows };

EngineOptions Options(Stores stores) {
  EngineOptions options;
  spec::StreamProcessorSpec& spec = options.spec;
  spec.name = "bench";
  spec.group = "bench";
  spec.inputs.push_back({.name = "in", .topic = "in", .start_from = {}, .partitioner = {}, .prefetch = {"counts"}});
  spec.stores.push_back({.name = "counts", .backend = {}, .changelog = {true, "bench-counts-changelog", {}}});
  if (stores == Stores::kWindows) {
    spec.stores[0].type = spec::StoreType::kWindow;
    spec.stores[0].window = {.size = absl::Minutes(1),
                             .advance = absl::Minutes(1),
                             .grace = absl::Seconds(10),
                             .retention = absl::Seconds(70)};
    spec.stores.push_back(
        {.name = std::string(spec::kTimersName), .changelog = {true, "bench-timers-changelog", {}}, .internal = true});
  }
  spec.outputs.push_back({.name = "out", .topic = "totals-per-customer", .create = std::nullopt, .partitioner = {}});
  options.output_partitions = {8};
  options.transactional_id_a = "a";
  options.transactional_id_b = "b";
  options.process_start = "1";
  options.owner_stamp = "local/default/bench";
  return options;
}

class Bench {
 public:
  Bench(Stores stores, int tasks, int keys)
      : stores_(stores),
        tasks_(tasks),
        keys_(keys),
        metrics_(NewMetricsRegistry()),
        engine_(Engine::Create(Options(stores), &SystemClock(), metrics_.get())) {}

  void Run(int64_t records) {
    Handle(TokenChanged{{"bench", "m", "", Generation(1)}, 1});
    WorkerConnected worker;
    worker.worker = 1;
    worker.hello.parallel = 2;
    Handle(std::move(worker));
    for (int task = 0; task < tasks_; ++task) Handle(TaskAssigned{TaskId(task)});
    while (handled_ < records) {
      for (int task = 0; task < tasks_; ++task) Feed(TaskId(task));
      Drain();
    }
    const double per_record = std::chrono::duration<double, std::nano>(spent_).count() / static_cast<double>(handled_);
    std::printf("%s, %d tasks, %d keys: %.0f ns per record in the engine (%lld records, %llu transactions)\n",
                stores_ == Stores::kWindows ? "windows" : "key-value", tasks_, keys_, per_record,
                static_cast<long long>(handled_), static_cast<unsigned long long>(engine_->Status().transactions));
    for (const auto& [what, time] : by_event_) {
      std::printf("  event %2zu: %.0f ns per record\n", what,
                  std::chrono::duration<double, std::nano>(time).count() / static_cast<double>(handled_));
    }
  }

 private:
  // Of this thread: other work on the machine does not count.
  struct Clock {
    using duration = std::chrono::nanoseconds;
    static duration now() {
      timespec time;
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return std::chrono::seconds(time.tv_sec) + duration(time.tv_nsec);
    }
  };

  void Feed(TaskId task) {
    auto fetch = fetches_.find(task);
    if (fetch == fetches_.end() || fetch->second.paused) return;
    RecordsRead read;
    read.task = task;
    read.fetch = fetch->second.number;
    for (int i = 0; i < 500; ++i) {
      log::Record record;
      record.offset = Offset(fetch->second.next++);
      record.timestamp_ms = record.offset.value() * tasks_ * kMinute / kRecordsPerMinute;
      record.key = "customer-" + std::to_string(std::rand() % keys_);
      record.value = std::string(100, 'v');
      read.records.push_back(std::move(record));
    }
    read.next = Offset(fetch->second.next);
    Handle(std::move(read));
  }

  void Handle(Event event) {
    std::vector<Action> actions;
    const size_t what = event.index();
    const auto start = Clock::now();
    engine_->Handle(std::move(event), &actions);
    const auto took = Clock::now() - start;
    spent_ += took;
    by_event_[what] += took;
    for (Action& action : actions) pending_.push_back(std::move(action));
  }

  void Drain() {
    while (!pending_.empty()) {
      std::vector<Action> actions = std::move(pending_);
      pending_.clear();
      for (Action& action : actions) Answer(action);
    }
    Handle(Tick{});
  }

  void Answer(Action& action) {
    if (auto* open = std::get_if<OpenTask>(&action)) {
      Handle(TaskOpened{open->task, absl::OkStatus(), {{0, Offset(0), true, ""}}, {}});
    } else if (auto* start = std::get_if<StartFetch>(&action)) {
      fetches_[start->task] = {start->fetch, start->from.value(), false};
    } else if (auto* pause = std::get_if<PauseFetch>(&action)) {
      fetches_[pause->task].paused = pause->paused;
    } else if (auto* read = std::get_if<ReadKeys>(&action)) {
      KeysRead done;
      done.read = read->read;
      const auto& rows = disk_[{read->task, read->store}];
      for (const Bytes& key : read->keys) {
        const auto row = rows.find(key);
        done.values.push_back(row == rows.end() ? std::nullopt : std::optional(row->second));
      }
      Handle(std::move(done));
    } else if (auto* scan = std::get_if<ScanRange>(&action)) {
      Handle(RangeScanned{scan->read, absl::OkStatus(), Scan(disk_[{scan->task, scan->range.store}], scan->range)});
    } else if (auto* apply = std::get_if<ApplyState>(&action)) {
      for (const store::StoreWrite& write : apply->writes) {
        auto& rows = disk_[{apply->task, write.store}];
        if (write.value) {
          rows.insert_or_assign(Bytes(write.key), Bytes(*write.value));
        } else {
          rows.erase(Bytes(write.key));
        }
      }
      Handle(StateApplied{apply->apply, absl::OkStatus()});
    } else if (auto* call = std::get_if<WriterCall>(&action)) {
      for (const log::OutgoingRecord& record : call->records) ends_[record.to] = ends_[record.to].Next();
      WriterCallDone done{call->writer, call->call, absl::OkStatus(), {}};
      if (call->what == WriterCall::What::kFlush) done.acknowledged = ends_;
      Handle(std::move(done));
    } else if (auto* send = std::get_if<SendToWorker>(&action)) {
      Reply(send->frame);
    }
  }

  using Rows = std::map<Bytes, Bytes>;

  // Forward, which is all that looking for ends of windows needs.
  static store::ScanPage Scan(const Rows& rows, const store::ScanRequest& range) {
    store::ScanPage page;
    auto row = range.after ? rows.upper_bound(*range.after) : range.from ? rows.lower_bound(*range.from) : rows.begin();
    for (; row != rows.end() && (!range.to || row->first < *range.to); ++row) {
      if (page.rows.size() >= range.max_rows) {
        page.more = true;
        break;
      }
      page.rows.emplace_back(row->first, row->second);
    }
    return page;
  }

  void Reply(const std::string& frame) {
    auto message = protocol::DecodeSidecarMessage(std::string_view(frame).substr(protocol::kFrameHeaderBytes));
    const auto* batch = std::get_if<protocol::Batch>(&*message);
    if (batch == nullptr) return;
    protocol::Result result;
    result.seq = batch->seq;
    result.done = static_cast<uint32_t>(batch->items.size());
    auto& ops = result.ops.emplace_back(0, std::vector<protocol::StateOp>()).second;
    std::set<Bytes> rows;
    if (stores_ == Stores::kKeyValue) {
      for (const std::string_view key : batch->keys) ops.push_back({key, "12345678", 0});
    } else {
      for (const protocol::RecordItem& item : batch->items) {
        for (const protocol::ItemWindow& window : item.windows) {
          Bytes row(batch->keys[static_cast<size_t>(item.key_index)]);
          AppendBigEndian64(static_cast<uint64_t>(window.start_ms), &row);
          rows.insert(std::move(row));
        }
      }
      for (const Bytes& row : rows) ops.push_back({row, "12345678", 0});
    }
    for (const protocol::RecordItem& item : batch->items) {
      protocol::OutputRecord output;
      output.key = batch->keys[static_cast<size_t>(item.key_index)];
      output.value = "12345678";
      output.timestamp_ms = item.timestamp_ms;
      result.outputs.push_back(std::move(output));
    }
    auto buffer = std::make_shared<std::string>(protocol::EncodeFrame(result));
    auto decoded = protocol::DecodeWorkerMessage(std::string_view(*buffer).substr(protocol::kFrameHeaderBytes));
    handled_ += static_cast<int64_t>(batch->items.size());
    Handle(WorkerSent{1, *std::move(decoded), std::move(buffer)});
  }

  struct Fetch {
    uint64_t number = 0;
    int64_t next = 0;
    bool paused = false;
  };
  // A window of a key gets several records, and many windows end while it runs.
  static constexpr int64_t kMinute = 60'000, kRecordsPerMinute = 500'000;

  const Stores stores_;
  const int tasks_, keys_;
  std::map<std::pair<TaskId, store::StoreIndex>, Rows> disk_;
  std::unique_ptr<MetricsRegistry> metrics_;
  std::unique_ptr<Engine> engine_;
  std::map<TaskId, Fetch> fetches_;
  log::AcknowledgedOffsets ends_;
  std::vector<Action> pending_;
  Clock::duration spent_{};
  std::map<size_t, Clock::duration> by_event_;
  int64_t handled_ = 0;
};

}  // namespace
}  // namespace millstream::engine

int main(int argc, char** argv) {
  millstream::SetLogging(millstream::LogLevel::kError, millstream::LogFormat::kText);
  const int64_t records = argc > 1 ? std::atoll(argv[1]) : 2'000'000;
  using millstream::engine::Bench;
  using millstream::engine::Stores;
  for (const int tasks : {1, 8, 100}) Bench(Stores::kKeyValue, tasks, 100'000).Run(records);
  Bench(Stores::kWindows, 8, 100'000).Run(records);
}
