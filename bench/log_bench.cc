// The embedded log: appends in transactions, reads, commits, wake-up of a waiting reader.
//   log_bench [--benchmark_filter=...]; the folder is made under TMPDIR (a real disk, or the syncs mean nothing).
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/log/embedded/embedded_log.h"
#include "common/log/embedded/test_folder.h"

namespace millstream::log {
namespace {

class BenchLog {
 public:
  explicit BenchLog(int partitions) {
    EmbeddedLogOptions options;
    options.directory = folder_.path();
    auto opened = EmbeddedLog::Open(options);
    MS_CHECK_OK(opened);
    log_ = *std::move(opened);
    MS_CHECK_OK(log_->admin().CreateTopic(
        {"changelog", partitions, -1, {{"cleanup.policy", "compact"}, {"min.cleanable.dirty.ratio", "1"}}}));
    MS_CHECK_OK(log_->admin().CreateTopic({"output", partitions, -1, {}}));
  }
  EmbeddedLog& operator*() { return *log_; }
  EmbeddedLog* operator->() { return log_.get(); }

 private:
  embedded::TestFolder folder_;
  std::unique_ptr<EmbeddedLog> log_;
};

// As the engine writes: per input one changelog and one output record, 100-byte values, 500 inputs per append.
std::vector<OutgoingRecord> EngineBatch(int partition, int batch) {
  std::vector<OutgoingRecord> records;
  for (const char* topic : {"changelog", "output"}) {
    for (int i = 0; i < 500; ++i) {
      OutgoingRecord& record = records.emplace_back();
      record.to = {topic, Partition(partition)};
      record.timestamp_ms = 1'700'000'000'000 + batch;
      record.key = "key-" + std::to_string((batch * 500LL + i) * 7919 % 100'000);
      record.value = std::string(100, static_cast<char>('a' + i % 26));
    }
  }
  return records;
}

void BM_AppendAndCommit(benchmark::State& state) {
  const int partitions = 8, appends = static_cast<int>(state.range(0)) / 1000;
  BenchLog log(partitions);
  auto writer = log->NewTransactionalWriter({"writer"});
  MS_CHECK_OK(writer->Init());
  std::vector<std::vector<OutgoingRecord>> batches;
  for (int i = 0; i < appends; ++i) batches.push_back(EngineBatch(i % partitions, i));
  int64_t records = 0;
  for (auto _ : state) {
    MS_CHECK_OK(writer->Begin());
    for (const auto& batch : batches) MS_CHECK_OK(writer->Append(batch));  // the copy is part of the price
    MS_CHECK_OK(writer->Flush());
    MS_CHECK_OK(writer->Commit());
    records += appends * 1000;
  }
  state.SetItemsProcessed(records);
}
BENCHMARK(BM_AppendAndCommit)
    ->Arg(1'000)
    ->Arg(20'000)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->MinTime(2);

void BM_CommitOfOneRecord(benchmark::State& state) {
  BenchLog log(1);
  auto writer = log->NewTransactionalWriter({"writer"});
  MS_CHECK_OK(writer->Init());
  OutgoingRecord record;
  record.to = {"output", Partition(0)};
  record.value = "v";
  for (auto _ : state) {
    MS_CHECK_OK(writer->Begin());
    MS_CHECK_OK(writer->Append({record}));
    MS_CHECK_OK(writer->Commit());
  }
}
BENCHMARK(BM_CommitOfOneRecord)->Unit(benchmark::kMicrosecond)->UseRealTime();

void BM_Read(benchmark::State& state) {
  const int partitions = 8, batches = 2'000;
  BenchLog log(partitions);
  auto plain = log->NewPlainWriter();
  for (int i = 0; i < batches; ++i) MS_CHECK_OK(plain->Append(EngineBatch(i % partitions, i)));
  MS_CHECK_OK(plain->Flush());
  int64_t records = 0;
  for (auto _ : state) {
    auto reader = log->NewReader({});
    for (int p = 0; p < partitions; ++p) MS_CHECK_OK(reader->Add({"output", Partition(p)}, Offset(0)));
    for (int ends = 0; ends < partitions;) {
      auto events = reader->Poll(absl::Seconds(10));
      MS_CHECK_OK(events);
      for (const ReaderEvent& event : *events) {
        if (const auto* read = std::get_if<RecordsRead>(&event)) records += static_cast<int64_t>(read->records.size());
        ends += std::holds_alternative<EndOfPartition>(event);
      }
    }
  }
  state.SetItemsProcessed(records);
}
BENCHMARK(BM_Read)->Unit(benchmark::kMillisecond)->UseRealTime()->MeasureProcessCPUTime();

// From before the append in one thread to the record in the other.
void BM_AppendToWaitingReader(benchmark::State& state) {
  BenchLog log(static_cast<int>(state.range(0)));
  auto reader = log->NewReader({});
  for (int p = 0; p < state.range(0); ++p) MS_CHECK_OK(reader->Add({"output", Partition(p)}, Offset(0)));
  while (!reader->Poll(absl::Milliseconds(10))->empty()) {
  }
  auto plain = log->NewPlainWriter();
  OutgoingRecord record;
  record.value = "v";
  int turn = 0;
  for (auto _ : state) {
    record.to = {"output", Partition(turn++ % static_cast<int>(state.range(0)))};
    absl::Duration start;
    std::thread appending([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the reader waits by now
      start = SystemClock().Monotonic();
      MS_CHECK_OK(plain->Append({record}));
    });
    absl::Duration end;
    for (bool seen = false; !seen; end = SystemClock().Monotonic()) {
      auto events = reader->Poll(absl::Seconds(10));
      for (const ReaderEvent& event : *events) seen = seen || std::holds_alternative<RecordsRead>(event);
    }
    appending.join();
    state.SetIterationTime(absl::ToDoubleSeconds(end - start));
  }
}
BENCHMARK(BM_AppendToWaitingReader)->Arg(1)->Arg(1000)->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(300);

void BM_EmptyPollOfManyPartitions(benchmark::State& state) {
  BenchLog log(1000);
  auto reader = log->NewReader({});
  for (int p = 0; p < 1000; ++p) MS_CHECK_OK(reader->Add({"output", Partition(p)}, Offset(0)));
  while (!reader->Poll(absl::Milliseconds(10))->empty()) {
  }
  for (auto _ : state) MS_CHECK_OK(reader->Poll(absl::ZeroDuration()));
}
BENCHMARK(BM_EmptyPollOfManyPartitions);

double ResidentMegabytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// What an open log costs while nothing happens: with so many partitions per topic, a reader waiting on all of them, and
// megabytes written before. Run alone, so that the memory is its own.
void BM_Idle(benchmark::State& state) {
  const double before = ResidentMegabytes();
  const int partitions = static_cast<int>(state.range(0));
  BenchLog log(partitions);
  auto plain = log->NewPlainWriter();
  const int64_t appends = state.range(1) * (1 << 20) / 120'000;  // an append makes about 120 kB
  for (int64_t i = 0; i < appends; ++i) {
    MS_CHECK_OK(plain->Append(EngineBatch(static_cast<int>(i % partitions), static_cast<int>(i))));
  }
  MS_CHECK_OK(plain->Flush());
  auto reader = log->NewReader({});
  for (int p = 0; p < partitions; ++p) {
    const TopicPartition from{"output", Partition(p)};
    MS_CHECK_OK(reader->Add(from, *log->admin().EndOffset(from, Isolation::kReadCommitted)));
  }
  while (!reader->Poll(absl::Seconds(1))->empty()) {
  }
  for (auto _ : state) {
    const double cpu = CpuSeconds();
    const absl::Duration began = SystemClock().Monotonic();
    MS_CHECK_OK(reader->Poll(absl::Seconds(20)));
    state.counters["cpu_percent"] =
        100 * (CpuSeconds() - cpu) / absl::ToDoubleSeconds(SystemClock().Monotonic() - began);
  }
  state.counters["resident_mb"] = ResidentMegabytes() - before;
}
BENCHMARK(BM_Idle)->Args({8, 0})->Args({8, 200})->Args({1000, 0})->Iterations(1)->UseRealTime();

}  // namespace
}  // namespace millstream::log

BENCHMARK_MAIN();
