#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "bench/kafka/commands.h"

namespace millstream::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kDeadlineMs = 60'000;

// Key number `key` gets the records key, key + keys, key + 2 * keys.. of the run: the n-th output of a key answers record
// n * keys + key.
class Probe {
 public:
  Probe(const std::string& bootstrap, const std::string& input, const std::string& output, int keys)
      : keys_(keys),
        answered_(static_cast<size_t>(keys), 0),
        reader_(NewReader(bootstrap, output, /*from_end=*/true, {{"fetch.wait.max.ms", "500"}})),
        producer_(NewClient(RD_KAFKA_PRODUCER, bootstrap, {{"linger.ms", "0"}, {"enable.idempotence", "true"}})),
        topic_(NewTopic(producer_.get(), input, {{"partitioner", "murmur2"}})) {
    PartitionCount(producer_.get(), input);
  }

  void Send(int64_t record) {
    const std::string key = absl::StrFormat("key-%08d", record % keys_), value(100, 'v');
    if (rd_kafka_produce(topic_.get(), RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, const_cast<char*>(value.data()),
                         value.size(), key.data(), key.size(), nullptr) != 0)
      Check("produce", rd_kafka_last_error());
    rd_kafka_poll(producer_.get(), 0);
  }

  // The record that the next output answers; -1: nothing came within the time.
  int64_t Receive(int timeout_ms) {
    const Owned<rd_kafka_message_t> message(rd_kafka_consumer_poll(reader_.get(), timeout_ms));
    if (message == nullptr || message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) return -1;
    Check("output", message->err);
    int64_t key = 0;
    const std::string_view text = Key(*message);
    if (!absl::SimpleAtoi(absl::string_view(text.data(), text.size()).substr(4), &key) || key >= keys_)
      Die("output", "a key that was not sent");
    return answered_[static_cast<size_t>(key)]++ * keys_ + key;
  }

  // One record for every key, so that every partition works; returns when all are answered.
  void Warm() {
    for (int64_t record = 0; record < keys_; ++record) Send(record);
    const auto end = Clock::now() + std::chrono::milliseconds(kDeadlineMs);
    for (int64_t left = keys_; left > 0;) {
      if (Receive(100) >= 0) --left;
      if (Clock::now() > end) Die("output", "the processor does not answer");
    }
  }

 private:
  const int64_t keys_;
  std::vector<int64_t> answered_;
  const Client reader_, producer_;
  const Owned<rd_kafka_topic_t> topic_;
};

double Percentile(const std::vector<double>& sorted, double part) {
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(part * static_cast<double>(sorted.size())))];
}

}  // namespace

int Latency(Arguments& arguments) {
  const std::string bootstrap = arguments.Text("bootstrap");
  const std::string input = arguments.Text("input"), output = arguments.Text("output");
  const int64_t rate = arguments.Number("rate", 1000), seconds = arguments.Number("seconds");
  const int64_t warmup = arguments.Number("warmup"), keys = arguments.Number("keys", 1000);
  arguments.Done();
  Probe probe(bootstrap, input, output, static_cast<int>(keys));
  probe.Warm();

  const int64_t first = keys, count = (warmup + seconds) * rate, measured_from = first + warmup * rate;
  const auto start = Clock::now() + std::chrono::milliseconds(50);
  const auto due = [&](int64_t record) { return start + std::chrono::nanoseconds((record - first) * 1'000'000'000 / rate); };
  std::thread sender([&] {
    for (int64_t record = first; record < first + count; ++record) {
      std::this_thread::sleep_until(due(record));
      probe.Send(record);
    }
  });
  std::vector<double> samples;
  const auto end = due(first + count) + std::chrono::milliseconds(kDeadlineMs);
  for (int64_t left = count; left > 0;) {
    const int64_t record = probe.Receive(100);
    if (record < 0) {
      if (Clock::now() > end) Die("output", absl::StrFormat("%d outputs did not come", left));
      continue;
    }
    --left;
    if (record >= measured_from)
      samples.push_back(std::chrono::duration<double, std::milli>(Clock::now() - due(record)).count());
  }
  sender.join();
  std::sort(samples.begin(), samples.end());
  std::printf("{\"records\": %zu, \"p50\": %.3f, \"p99\": %.3f, \"p99.9\": %.3f, \"max\": %.3f}\n", samples.size(),
              Percentile(samples, 0.5), Percentile(samples, 0.99), Percentile(samples, 0.999), samples.back());
  return 0;
}

}  // namespace millstream::bench
