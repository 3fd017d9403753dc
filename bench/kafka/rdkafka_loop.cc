// The floor: what a transaction loop costs that does nothing. It reads a topic, appends every record to two topics (an
// output and a changelog, partition by partition) and commits both with the offsets every 100 ms, on one thread, with
// librdkafka as it is. No group, no state, no user code. Ends on SIGTERM with a last commit.
//
//   rdkafka_loop --bootstrap=HOST:PORT --group=G --input=T --output=T --changelog=T [--commit-ms=100]
#include <atomic>
#include <chrono>
#include <csignal>
#include <vector>

#include "bench/kafka/clients.h"

namespace millstream::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kCallMs = 60'000;
constexpr size_t kBatch = 2000;

std::atomic<bool> stop = false;

struct Options {
  std::string bootstrap, group, input, output, changelog;
  std::chrono::milliseconds commit_every;
};

class Loop {
 public:
  explicit Loop(const Options& options)
      : input_(options.input),
        commit_every_(options.commit_every),
        reader_(NewReader(options.bootstrap, input_, /*from_end=*/false,
                          {{"queued.min.messages", "200000"}, {"queued.max.messages.kbytes", "65536"}})),
        queue_(rd_kafka_queue_get_consumer(reader_.get())),
        metadata_(rd_kafka_consumer_group_metadata_new(options.group.c_str())),
        producer_(NewClient(RD_KAFKA_PRODUCER, options.bootstrap,
                            {{"transactional.id", options.group},
                             {"linger.ms", "5"},
                             {"batch.size", "1000000"},
                             {"queue.buffering.max.messages", "500000"},
                             {"queue.buffering.max.kbytes", "1048576"}})) {
    topics_.push_back(NewTopic(producer_.get(), options.output));
    topics_.push_back(NewTopic(producer_.get(), options.changelog));
    next_.resize(static_cast<size_t>(PartitionCount(reader_.get(), input_)), -1);
    Check("init_transactions", rd_kafka_init_transactions(producer_.get(), kCallMs));
    for (const auto& topic : topics_) PartitionCount(producer_.get(), rd_kafka_topic_name(topic.get()));
  }

  void Run() {
    std::vector<rd_kafka_message_t*> batch(kBatch);
    bool open = false;
    Clock::time_point opened;
    while (!stop) {
      const ssize_t count = rd_kafka_consume_batch_queue(queue_.get(), 5, batch.data(), batch.size());
      for (ssize_t i = 0; i < count; ++i) {
        const Owned<rd_kafka_message_t> message(batch[static_cast<size_t>(i)]);
        if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) continue;
        Check(input_, message->err);
        if (!open) {
          Check("begin_transaction", rd_kafka_begin_transaction(producer_.get()));
          open = true;
          opened = Clock::now();
        }
        Append(*message);
      }
      if (open && Clock::now() - opened >= commit_every_) {
        Commit();
        open = false;
      }
    }
    if (open) Commit();
  }

 private:
  void Append(const rd_kafka_message_t& message) {
    for (const auto& topic : topics_) {
      // The value is that of a count: a few bytes.
      while (rd_kafka_produce(topic.get(), message.partition, RD_KAFKA_MSG_F_COPY, const_cast<char*>("1"), 1, message.key,
                              message.key_len, nullptr) != 0) {
        if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL) Check("produce", rd_kafka_last_error());
        rd_kafka_poll(producer_.get(), 10);
      }
    }
    next_[static_cast<size_t>(message.partition)] = message.offset + 1;
  }

  void Commit() {
    const Owned<rd_kafka_topic_partition_list_t> offsets(rd_kafka_topic_partition_list_new(8));
    for (size_t partition = 0; partition < next_.size(); ++partition) {
      if (next_[partition] < 0) continue;
      rd_kafka_topic_partition_list_add(offsets.get(), input_.c_str(), static_cast<int32_t>(partition))->offset =
          next_[partition];
      next_[partition] = -1;
    }
    Check("send_offsets_to_transaction",
          rd_kafka_send_offsets_to_transaction(producer_.get(), offsets.get(), metadata_.get(), kCallMs));
    Check("commit_transaction", rd_kafka_commit_transaction(producer_.get(), kCallMs));
  }

  const std::string input_;
  const std::chrono::milliseconds commit_every_;
  const Client reader_;
  const Owned<rd_kafka_queue_t> queue_;
  const Owned<rd_kafka_consumer_group_metadata_t> metadata_;
  const Client producer_;
  std::vector<Owned<rd_kafka_topic_t>> topics_;
  std::vector<int64_t> next_;  // per partition: the offset after the last one appended; -1: none since the last commit
};

}  // namespace
}  // namespace millstream::bench

int main(int argc, char** argv) {
  using namespace millstream::bench;
  std::signal(SIGTERM, [](int) { stop = true; });
  Arguments arguments(argc, argv, 1);
  const Options options = {arguments.Text("bootstrap"), arguments.Text("group"),     arguments.Text("input"),
                           arguments.Text("output"),    arguments.Text("changelog"),
                           std::chrono::milliseconds(arguments.Number("commit-ms", 100))};
  arguments.Done();
  Loop(options).Run();
  return 0;
}
