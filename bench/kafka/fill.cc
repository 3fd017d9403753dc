#include <algorithm>
#include <cstdio>
#include <random>

#include "absl/strings/str_format.h"
#include "bench/kafka/commands.h"

namespace millstream::bench {
namespace {

constexpr uint64_t kScatter = 2654435761;  // a prime above any number of keys here: i * kScatter mod keys meets each once

std::string RandomLetters(size_t size, std::mt19937_64* random) {
  std::string text(size, 0);
  for (char& letter : text) letter = static_cast<char>('!' + (*random)() % 94);
  return text;
}

}  // namespace

int Fill(Arguments& arguments) {
  const std::string bootstrap = arguments.Text("bootstrap"), topic_name = arguments.Text("topic");
  const auto records = static_cast<uint64_t>(arguments.Number("records"));
  const auto keys = static_cast<uint64_t>(arguments.Number("keys"));
  const auto value_bytes = static_cast<size_t>(arguments.Number("value-bytes", 100));
  const bool each = arguments.Number("each", 0) != 0;
  std::mt19937_64 random(static_cast<uint64_t>(arguments.Number("seed", 1)));
  arguments.Done();

  const Client producer = NewClient(
      RD_KAFKA_PRODUCER, bootstrap,
      {{"enable.idempotence", "true"}, {"linger.ms", "20"}, {"batch.size", "1000000"}, {"delivery.report.only.error", "true"}});
  const auto topic = NewTopic(producer.get(), topic_name, {{"partitioner", "murmur2"}});
  PartitionCount(producer.get(), topic_name);  // known before the first record
  // A value is a piece of this text, so that it costs nothing to make and nothing makes it smaller.
  const std::string text = RandomLetters((1 << 20) + value_bytes, &random);
  for (uint64_t i = 0; i < records; ++i) {
    const std::string key = absl::StrFormat("key-%08d", each ? i * kScatter % keys : random() % keys);
    while (rd_kafka_produce(topic.get(), RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY,
                            const_cast<char*>(text.data()) + random() % (1 << 20), value_bytes, key.data(), key.size(),
                            nullptr) != 0) {
      if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL) Check(topic_name, rd_kafka_last_error());
      rd_kafka_poll(producer.get(), 10);
    }
  }
  Check("flush", rd_kafka_flush(producer.get(), 60'000));
  std::printf("{\"records\": %llu}\n", static_cast<unsigned long long>(records));
  return 0;
}

}  // namespace millstream::bench
