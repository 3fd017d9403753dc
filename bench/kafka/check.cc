#include <cstdio>
#include <functional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "bench/kafka/commands.h"

namespace millstream::bench {
namespace {

constexpr int kPollMs = 30'000;  // a topic that is silent for so long before its end is an error

void ReadAll(const std::string& bootstrap, const std::string& topic,
             const std::function<void(const rd_kafka_message_t&)>& use) {
  const Client reader = NewReader(bootstrap, topic, /*from_end=*/false);
  int left = PartitionCount(reader.get(), topic);
  while (left > 0) {
    const Owned<rd_kafka_message_t> message(rd_kafka_consumer_poll(reader.get(), kPollMs));
    if (message == nullptr) Die(topic, "its end is not reached");
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      --left;
      continue;
    }
    Check(topic, message->err);
    use(*message);
  }
}

}  // namespace

int CheckOutputs(Arguments& arguments) {
  const std::string bootstrap = arguments.Text("bootstrap");
  const std::string input = arguments.Text("input"), output = arguments.Text("output");
  const bool counts = arguments.Text("values", "any") == "count";
  arguments.Done();
  struct Seen {
    int64_t inputs = 0, outputs = 0;
  };
  absl::flat_hash_map<std::string, Seen> keys;
  long long inputs = 0, outputs = 0, wrong = 0, lost = 0, doubled = 0;
  ReadAll(bootstrap, input, [&](const rd_kafka_message_t& message) {
    const std::string_view key = Key(message);
    ++keys[absl::string_view(key.data(), key.size())].inputs;
    ++inputs;
  });
  ReadAll(bootstrap, output, [&](const rd_kafka_message_t& message) {
    const std::string_view key = Key(message);
    Seen& seen = keys[absl::string_view(key.data(), key.size())];
    ++seen.outputs;
    ++outputs;
    int64_t number = 0;
    if (counts && (!absl::SimpleAtoi(absl::string_view(static_cast<const char*>(message.payload), message.len), &number) ||
                   number != seen.outputs))
      ++wrong;
  });
  for (const auto& [key, seen] : keys) {
    lost += std::max<int64_t>(0, seen.inputs - seen.outputs);
    doubled += std::max<int64_t>(0, seen.outputs - seen.inputs);
  }
  std::printf("{\"inputs\": %lld, \"outputs\": %lld, \"keys\": %zu, \"lost\": %lld, \"doubled\": %lld, \"wrong\": %lld}\n",
              inputs, outputs, keys.size(), lost, doubled, wrong);
  return lost + doubled + wrong == 0 ? 0 : 1;
}

}  // namespace millstream::bench
