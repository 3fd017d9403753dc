// What the way to a worker and back costs per record, without engine, log and stores: batches of 500 records of 150
// bytes go through the worker server and the Unix socket to a C++ worker that counts per key and emits every count. The
// frames are encoded once, so the sidecar's part is the server's alone (writing, reading, decoding).
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "absl/synchronization/notification.h"
#include "common/base/status.h"
#include "millstream/worker.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/server/worker_server.h"

namespace millstream {
namespace {

constexpr int kRecords = 500;
constexpr uint64_t kWindow = 4;  // batches of different tasks on their way

double ThreadCpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

std::string BatchFrame(uint64_t seq) {
  std::vector<std::string> keys;
  for (int i = 0; i < kRecords; ++i) keys.push_back("customer-" + std::to_string(100000 + i * 7));
  const std::string value(150, 'v');
  protocol::Batch batch;
  batch.seq = seq;
  batch.keys.assign(keys.begin(), keys.end());
  auto& state = batch.state.emplace_back();
  for (int i = 0; i < kRecords; ++i) {
    protocol::RecordItem& item = batch.items.emplace_back();
    item.offset = Offset(i);
    item.timestamp_ms = 1'700'000'000'000;
    item.key_index = i;
    item.value = value;
    state.values.push_back({protocol::StateValue::What::kValue, "12345"});
  }
  return protocol::EncodeFrame(batch);
}

absl::Status Count(worker::Context& ctx) {
  const auto before = ctx.State("counts").Get();
  if (!before.ok()) return before.status();
  uint64_t count = 0;
  if (before->has_value()) std::from_chars((*before)->data(), (*before)->data() + (*before)->size(), count);
  char buffer[24];
  const std::string_view text(
      buffer, static_cast<size_t>(std::to_chars(buffer, buffer + sizeof(buffer), count + 1).ptr - buffer));
  const absl::Status stored = ctx.State("counts").Put(text);
  if (!stored.ok()) return stored;
  return ctx.Emit("out", ctx.key(), text);
}

// Keeps kWindow batches on their way until all are answered.
class Pump : public server::WorkerEvents {
 public:
  explicit Pump(uint64_t batches) : batches_(batches) {
    for (uint64_t i = 1; i <= batches; ++i) frames_.push_back(BatchFrame(i));
  }
  absl::StatusOr<protocol::Welcome> OnHello(const server::ConnectedWorker&) override {
    protocol::Welcome welcome;
    welcome.inputs = {{"in", "in"}};
    welcome.outputs = {{"out", "out", 1 << 20}};
    welcome.stores = {{"counts", "KeyValue", true, 1 << 20}};
    welcome.deadline_ms = 60'000;
    welcome.max_timestamp_ms = 4'000'000'000'000;
    return welcome;
  }
  void OnConnected(const server::ConnectedWorker& worker) override {
    id_ = worker.id;
    cpu_ = ThreadCpuSeconds();
    while (next_ < kWindow) SendNext();
  }
  void OnMessage(server::WorkerId, server::InboundMessage message) override {
    const auto* result = std::get_if<protocol::Result>(&message.message);
    if (result == nullptr) return;
    MS_CHECK(result->done == kRecords && result->outputs.size() == kRecords);
    if (next_ < batches_) SendNext();
    if (++answered_ < batches_) return;
    cpu_ = ThreadCpuSeconds() - cpu_;
    done_.Notify();
  }
  void OnDisconnected(server::WorkerId, const absl::Status&, bool) override {}

  void set_server(server::WorkerServer* server) { server_ = server; }
  void Wait() { done_.WaitForNotification(); }
  double server_cpu() const { return cpu_; }

 private:
  void SendNext() { MS_CHECK_OK(server_->Send(id_, std::move(frames_[next_++]))); }

  const uint64_t batches_;
  std::vector<std::string> frames_;
  server::WorkerServer* server_ = nullptr;
  server::WorkerId id_;
  uint64_t next_ = 0, answered_ = 0;
  double cpu_ = 0;
  absl::Notification done_;
};

void CountingRoundTrip(benchmark::State& state) {
  constexpr uint64_t kBatches = 400;
  double server_cpu = 0, worker_cpu = 0;
  for (auto _ : state) {
    char folder[] = "/tmp/ms-bench-XXXXXX";
    MS_CHECK(mkdtemp(folder) != nullptr);
    Pump pump(kBatches);
    auto metrics = NewMetricsRegistry();
    server::WorkerServerOptions options;
    options.socket_path = std::string(folder) + "/worker.sock";
    server::WorkerServer server(options, &pump, &SystemClock(), metrics.get());
    pump.set_server(&server);
    MS_CHECK_OK(server.Start());
    worker::AppOptions app_options;
    app_options.socket_path = options.socket_path;
    app_options.handle_signals = false;
    worker::App app(app_options);
    app.On("in", Count);
    const auto start = std::chrono::steady_clock::now();
    std::thread thread([&] {
      MS_CHECK_OK(app.Run());
      worker_cpu += ThreadCpuSeconds();
    });
    pump.Wait();
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    server_cpu += pump.server_cpu();
    server.Stop("done", absl::Seconds(5));
    thread.join();
    rmdir(folder);
  }
  const double records = static_cast<double>(state.iterations()) * kBatches * kRecords;
  state.counters["records_per_second"] = benchmark::Counter(records, benchmark::Counter::kIsRate);
  state.counters["server_ns_per_record"] = 1e9 * server_cpu / records;
  state.counters["worker_ns_per_record"] = 1e9 * worker_cpu / records;
}
BENCHMARK(CountingRoundTrip)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millstream

BENCHMARK_MAIN();
