// What state costs: Apply and MultiGet per key while the store grows, memory of many idle stores, restore-like bulk
// writes.
//   store_bench [--keys 10000,100000,1000000,10000000] [--value-bytes 100] [--tasks 1,10,100] [--dir FOLDER]
// Prints tables: nanoseconds of the calling thread's CPU per key, min / median / max of the repeats.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/store/state_environment.h"
#include "sidecar/store/task_store.h"

namespace millstream::store {
namespace {

constexpr int kBatchKeys = 500;  // of a worker batch: what one MultiGet asks for
constexpr int kRepeats = 5;

struct Options {
  std::vector<int64_t> keys{10'000, 100'000, 1'000'000, 10'000'000};
  std::vector<int64_t> tasks{1, 10, 100};
  size_t value_bytes = 100;
  std::string folder = std::filesystem::temp_directory_path().string();
};

double SecondsOf(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double Seconds(clockid_t clock, const std::function<void()>& work) {
  const double begun = SecondsOf(clock);
  work();
  return SecondsOf(clock) - begun;
}

// CPU of the calling thread: comparable on a busy machine. What flushes and compactions cost shows in the CPU of the
// process.
double Seconds(const std::function<void()>& work) { return Seconds(CLOCK_THREAD_CPUTIME_ID, work); }
double CpuSeconds() { return SecondsOf(CLOCK_PROCESS_CPUTIME_ID); }

int64_t ResidentKilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return strtoll(line.c_str() + 6, nullptr, 10);
  }
  return 0;
}

std::string MinMedianMax(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  char text[64];
  snprintf(text, sizeof(text), "%6.0f %6.0f %6.0f", values.front(), values[values.size() / 2], values.back());
  return text;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

TaskIdentity Identity(int task) {
  return {"bench", TaskId(task), {{"totals", StoreDefinition::Backend::kDisk, "bench-totals-changelog", "id"}}};
}

// Keys of a hash-like order, so that neighbours in time are not neighbours on disk.
Bytes KeyOf(uint64_t number) {
  Bytes key;
  AppendBigEndian64(number * 0x9E3779B97F4A7C15u, &key);
  return key;
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options), folder_(StrCat(options.folder, "/store-bench-", getpid())) {}
  ~Bench() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void Curve() {
    printf("one task, values of %zu bytes, %d keys a batch; CPU ns per key, min median max of %d\n",
           options_.value_bytes, kBatchKeys, kRepeats);
    printf("%10s | %-20s | %-20s | %-20s | %5s | %8s | %6s | %s\n", "keys", "MultiGet, all keys", "MultiGet, hot 10^4",
           "Apply, all keys", "ratio", "MB disk", "RSS MB", "fill: wall ns per key, MB/s, CPU of all threads");
    printf("(ratio: medians of MultiGet and Apply of all keys together, to the first row's)\n");
    for (const int64_t keys : options_.keys) CurvePoint(keys);
  }

  void ManyTasks() {
    printf(
        "\n100,000 keys over so many tasks, Apply + MultiGet of %d keys a task in turn; CPU ns per key, min median max "
        "of %d\n",
        kBatchKeys, kRepeats);
    printf("%10s | %-20s | %-20s | %s\n", "tasks", "MultiGet", "Apply", "open ms/task, RSS MB idle, RSS MB after");
    for (const int64_t tasks : options_.tasks) TasksPoint(static_cast<int>(tasks));
  }

 private:
  // Until compactions of the filling are done; they are part of its CPU, not of what is measured next.
  static void WaitUntilIdle() {
    for (double before = CpuSeconds();; before = CpuSeconds()) {
      usleep(500'000);
      if (CpuSeconds() - before < 0.005) return;
    }
  }

  std::unique_ptr<TaskStore> Open(StateEnvironment* environment, int task) {
    auto store = TaskStore::Open(environment, StrCat(folder_, "/", task), Identity(task));
    MS_CHECK_OK(store);
    return *std::move(store);
  }

  std::vector<StoreWrite> Writes(int64_t first, int64_t count, const std::function<uint64_t(int64_t)>& key_number) {
    std::vector<StoreWrite> writes;
    for (int64_t i = first; i < first + count; ++i) {
      std::string value(options_.value_bytes, '\0');
      for (size_t at = 0; at < value.size(); at += 8) {  // compressible to about half, like real values
        const uint64_t bits = at % 16 == 0 ? random_() : 0;
        memcpy(&value[at], &bits, std::min<size_t>(8, value.size() - at));
      }
      writes.push_back({0, KeyOf(key_number(i)), std::move(value)});
    }
    return writes;
  }

  void Apply(TaskStore* store, const std::vector<StoreWrite>& writes) {
    Positions positions;
    positions.changelog[0] = Offset(++offset_);
    positions.inputs["orders"] = Offset(offset_);
    MS_CHECK_OK(store->Apply(writes, positions));
  }

  double MultiGetNanos(TaskStore* store, int64_t keys, int batches) {
    std::vector<Bytes> names(kBatchKeys);
    double seconds = 0;
    for (int b = 0; b < batches; ++b) {
      for (Bytes& name : names) name = KeyOf(random_() % keys);
      const std::vector<std::string_view> wanted(names.begin(), names.end());
      seconds += Seconds([&] {
        const auto values = store->MultiGet(0, wanted);
        MS_CHECK_OK(values);
        for (const MaybeBytes& value : *values) MS_CHECK(value.has_value());
      });
    }
    return seconds / batches / kBatchKeys * 1e9;
  }

  double ApplyNanos(TaskStore* store, int64_t keys, int batches) {
    double seconds = 0;
    for (int b = 0; b < batches; ++b) {
      const auto writes = Writes(0, kBatchKeys, [&](int64_t) { return random_() % keys; });
      seconds += Seconds([&] { Apply(store, writes); });
    }
    return seconds / batches / kBatchKeys * 1e9;
  }

  void CurvePoint(int64_t keys) {
    StateEnvironment environment{StateMemory()};
    auto store = Open(&environment, 0);
    const double fill_cpu = CpuSeconds();
    double fill = 0;
    for (int64_t first = 0; first < keys; first += 10'000) {
      const auto writes =
          Writes(first, std::min<int64_t>(10'000, keys - first), [](int64_t i) { return static_cast<uint64_t>(i); });
      fill += Seconds(CLOCK_MONOTONIC, [&] { Apply(store.get(), writes); });
    }
    MS_CHECK_OK(store->Flush());
    WaitUntilIdle();
    const double fill_cpu_used = CpuSeconds() - fill_cpu;
    std::vector<double> gets, hot, applies;
    MultiGetNanos(store.get(), keys, 200);  // warm
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      gets.push_back(MultiGetNanos(store.get(), keys, 200));
      hot.push_back(MultiGetNanos(store.get(), std::min<int64_t>(keys, 10'000), 200));
      applies.push_back(ApplyNanos(store.get(), keys, 200));
    }
    const double both = Median(gets) + Median(applies);
    if (first_row_ == 0) first_row_ = both;
    printf("%10lld | %s | %s | %s | %5.2f | %8.1f | %6.1f | %.0f ns, %.0f MB/s, CPU %.1f s\n",
           static_cast<long long>(keys), MinMedianMax(gets).c_str(), MinMedianMax(hot).c_str(),
           MinMedianMax(applies).c_str(), both / first_row_, static_cast<double>(store->ApproximateBytes()) / 1e6,
           static_cast<double>(ResidentKilobytes()) / 1024, fill / static_cast<double>(keys) * 1e9,
           static_cast<double>(keys) * static_cast<double>(8 + options_.value_bytes) / fill / 1e6, fill_cpu_used);
    fflush(stdout);
    store = nullptr;
    std::filesystem::remove_all(folder_);
  }

  void TasksPoint(int tasks) {
    const int64_t keys = 100'000 / tasks;
    StateEnvironment environment{StateMemory()};
    std::vector<std::unique_ptr<TaskStore>> stores;
    const int64_t before = ResidentKilobytes();
    const double open = Seconds(CLOCK_MONOTONIC, [&] {
      for (int task = 0; task < tasks; ++task) stores.push_back(Open(&environment, task));
    });
    const int64_t idle = ResidentKilobytes();
    for (auto& store : stores) {
      Apply(store.get(), Writes(0, keys, [](int64_t i) { return static_cast<uint64_t>(i); }));
      MS_CHECK_OK(store->Flush());
    }
    std::vector<double> gets, applies;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      double get = 0, apply = 0;
      const int batches = std::max(2, 200 / tasks);
      for (auto& store : stores) {
        get += MultiGetNanos(store.get(), keys, batches);
        apply += ApplyNanos(store.get(), keys, batches);
      }
      gets.push_back(get / tasks);
      applies.push_back(apply / tasks);
    }
    printf("%10d | %s | %s | %.1f ms, %.1f MB, %.1f MB\n", tasks, MinMedianMax(gets).c_str(),
           MinMedianMax(applies).c_str(), open / tasks * 1e3, static_cast<double>(idle - before) / 1024,
           static_cast<double>(ResidentKilobytes()) / 1024);
    fflush(stdout);
    stores.clear();
    std::filesystem::remove_all(folder_);
  }

  const Options options_;
  const std::string folder_;
  std::mt19937_64 random_{42};
  int64_t offset_ = 0;
  double first_row_ = 0;  // of the curve; 0: not measured yet
};

std::vector<int64_t> Numbers(const char* text) {
  std::vector<int64_t> numbers;
  for (const auto part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    int64_t number = 0;
    MS_CHECK(absl::SimpleAtoi(part, &number) && number > 0);
    numbers.push_back(number);
  }
  return numbers;
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--keys")
      options.keys = Numbers(argv[i + 1]);
    else if (name == "--tasks")
      options.tasks = Numbers(argv[i + 1]);
    else if (name == "--value-bytes")
      options.value_bytes = static_cast<size_t>(Numbers(argv[i + 1]).at(0));
    else if (name == "--dir")
      options.folder = argv[i + 1];
    else
      return fprintf(stderr, "unknown option %s; see the top of bench/store_bench.cc\n", argv[i]), 2;
  }
  Bench bench(options);
  bench.ManyTasks();
  bench.Curve();
  return 0;
}

}  // namespace
}  // namespace millstream::store

int main(int argc, char** argv) { return millstream::store::Main(argc, argv); }
