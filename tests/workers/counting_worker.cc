// Counts records per key: state = count, one output per record with the new count. The worker of the throughput
// benchmark (it does what the peers' benchmark program does) and of the fault tests.
//
//   counting_worker [--input=in] [--output=out] [--store=counts] [--state=count|keep|window|timer]
//   [--format=decimal|binary]
//                   [--timers=1] [--after-ms=60000] [--parallel=4] [--workers=1] [--delay-us=0] [--crash-key=KEY]
//                   [--hang-key=KEY] [--fail-key=KEY]
//
// An empty --output emits nothing; `binary` counts are 8 bytes, big-endian. `keep`: state = the last value of the key,
// the output is its length. `window`: state = the count of the key in each window of the record, the output is that
// count. `timer`: no state; each record sets --timers timers of its key, due --after-ms behind it, and a timer that is
// due sends its name to the output.
// --workers opens that many connections, each
// with a thread. --delay-us sleeps in every handler call. The last three do so for every record of that key: abort the
// process, never return, return an error.
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "common/base/bytes.h"
#include "millstream/worker.h"
#include "tests/workers/flags.h"

namespace millstream {
namespace {

struct Options {
  std::string input = "in", output = "out", store = "counts", state = "count", format = "decimal";
  int parallel = 4, workers = 1, delay_us = 0, timers = 1, after_ms = 60'000;
  std::optional<std::string> crash_key, hang_key, fail_key;
};

absl::StatusOr<uint64_t> Parse(std::string_view text, bool binary) {
  uint64_t count = 0;
  if (binary) {
    if (text.size() != 8) return absl::DataLossError("a stored count is not 8 bytes");
    return ReadBigEndian64(text);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size())
    return absl::DataLossError("a stored count is not a number");
  return count;
}

std::string_view Format(uint64_t count, bool binary, char (&buffer)[24]) {
  if (!binary) return {buffer, static_cast<size_t>(std::to_chars(buffer, buffer + sizeof(buffer), count).ptr - buffer)};
  const uint64_t big = __builtin_bswap64(count);
  __builtin_memcpy(buffer, &big, sizeof(big));
  return {buffer, sizeof(big)};
}

std::string TimerName(int number) { return "t" + std::to_string(number); }

absl::Status Count(const Options& options, worker::Context& ctx) {
  if (ctx.key() == options.crash_key && options.crash_key.has_value()) std::abort();
  while (ctx.key() == options.hang_key && options.hang_key.has_value())
    std::this_thread::sleep_for(std::chrono::hours(1));
  if (ctx.key() == options.fail_key && options.fail_key.has_value())
    return absl::InternalError("told to fail for this key");
  if (options.delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(options.delay_us));
  const bool binary = options.format == "binary";
  worker::Store counts = ctx.State(options.store);
  const auto before = counts.Get();
  if (!before.ok()) return before.status();
  uint64_t count = 0;
  if (before->has_value()) {
    const auto parsed = Parse(**before, binary);
    if (!parsed.ok()) return parsed.status();
    count = *parsed;
  }
  char buffer[24];
  const std::string_view text = Format(count + 1, binary, buffer);
  const absl::Status stored = counts.Put(text);
  if (!stored.ok() || options.output.empty()) return stored;
  return ctx.Emit(options.output, ctx.key(), text);
}

absl::Status Keep(const Options& options, worker::Context& ctx) {
  const std::string_view value = ctx.value().value_or("");  // a tombstone is kept as nothing
  const absl::Status stored = ctx.State(options.store).Put(value);
  if (!stored.ok() || options.output.empty()) return stored;
  char buffer[24];
  return ctx.Emit(options.output, ctx.key(), Format(value.size(), false, buffer));
}

absl::Status CountWindows(const Options& options, worker::Context& ctx) {
  worker::WindowStore store = ctx.Windows(options.store);
  const auto windows = store.Windows();
  if (!windows.ok()) return windows.status();
  for (const worker::Window& window : *windows) {
    const auto before = store.Get(window);
    if (!before.ok()) return before.status();
    uint64_t count = 0;
    if (before->has_value()) {
      const auto parsed = Parse(**before, options.format == "binary");
      if (!parsed.ok()) return parsed.status();
      count = *parsed;
    }
    char buffer[24];
    const std::string_view text = Format(count + 1, options.format == "binary", buffer);
    const absl::Status stored = store.Put(window, text);
    if (!stored.ok()) return stored;
    if (options.output.empty()) continue;
    const absl::Status emitted = ctx.Emit(options.output, ctx.key(), text);
    if (!emitted.ok()) return emitted;
  }
  return absl::OkStatus();
}

absl::Status SetTimers(const Options& options, worker::Context& ctx) {
  for (int i = 0; i < options.timers; ++i) {
    const absl::Status set = ctx.SetTimer(TimerName(i), ctx.timestamp_ms() + options.after_ms);
    if (!set.ok()) return set;
  }
  return absl::OkStatus();
}

absl::Status Handle(const Options& options, worker::Context& ctx) {
  if (options.state == "keep") return Keep(options, ctx);
  if (options.state == "window") return CountWindows(options, ctx);
  if (options.state == "timer") return SetTimers(options, ctx);
  return Count(options, ctx);
}

absl::Status RunOne(const Options& options) {
  worker::AppOptions app_options;
  app_options.name = "counting";
  app_options.parallel = options.parallel;
  worker::App app(app_options);
  app.On(options.input, [&options](worker::Context& ctx) { return Handle(options, ctx); });
  for (int i = 0; options.state == "timer" && i < options.timers; ++i) {
    app.OnTimer(TimerName(i), [&options](worker::Context& ctx) {
      return options.output.empty() ? absl::OkStatus() : ctx.Emit(options.output, ctx.key(), ctx.timer());
    });
  }
  return app.Run();
}

int Main(int argc, char** argv) {
  Options options;
  Flags flags(argc, argv);
  flags.Take("input", &options.input);
  flags.Take("output", &options.output);
  flags.Take("store", &options.store);
  flags.Take("state", &options.state);
  flags.Take("format", &options.format);
  flags.Take("parallel", &options.parallel);
  flags.Take("workers", &options.workers);
  flags.Take("timers", &options.timers);
  flags.Take("after-ms", &options.after_ms);
  flags.Take("delay-us", &options.delay_us);
  flags.Take("crash-key", &options.crash_key);
  flags.Take("hang-key", &options.hang_key);
  flags.Take("fail-key", &options.fail_key);
  if (!flags.Done("counting_worker")) return 2;

  std::vector<std::thread> threads;
  std::vector<absl::Status> statuses(static_cast<size_t>(options.workers));
  for (size_t i = 1; i < statuses.size(); ++i) threads.emplace_back([&, i] { statuses[i] = RunOne(options); });
  statuses[0] = RunOne(options);
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    if (status.ok()) continue;
    std::cerr << "counting_worker: " << status.message() << "\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace millstream

int main(int argc, char** argv) { return millstream::Main(argc, argv); }
