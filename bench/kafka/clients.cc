#include "bench/kafka/clients.h"

#include <cstdlib>
#include <iostream>

#include "absl/strings/numbers.h"

namespace millstream::bench {
namespace {

constexpr int kDeadlineMs = 60'000;

}  // namespace

void Die(std::string_view what, std::string_view why) {
  std::cerr << what << ": " << why << std::endl;
  std::_Exit(1);  // librdkafka's threads may be in anything
}

void Check(std::string_view what, rd_kafka_resp_err_t error) {
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) Die(what, rd_kafka_err2str(error));
}

void Check(std::string_view what, rd_kafka_error_t* error) {
  if (error != nullptr) Die(what, rd_kafka_error_string(error));
}

Arguments::Arguments(int argc, char** argv, int first) {
  for (int i = first; i < argc; ++i) {
    const std::string_view text = argv[i];
    const size_t equals = text.find('=');
    if (!text.starts_with("--") || equals == std::string_view::npos) Die(text, "arguments are --name=value");
    given_.emplace(text.substr(2, equals - 2), text.substr(equals + 1));
  }
}

std::string Arguments::Text(const std::string& name, const std::string& otherwise) {
  const auto node = given_.extract(name);
  return node.empty() ? otherwise : node.mapped();
}

std::string Arguments::Text(const std::string& name) {
  std::string text = Text(name, "");
  if (text.empty()) Die("--" + name, "is missing; see the top of the source");
  return text;
}

int64_t Arguments::Number(const std::string& name, int64_t otherwise) {
  return given_.contains(name) ? Number(name) : otherwise;
}

int64_t Arguments::Number(const std::string& name) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(Text(name), &number) || number < 0) Die("--" + name, "is not a number");
  return number;
}

void Arguments::Done() const {
  if (!given_.empty()) Die("--" + given_.begin()->first, "is unknown; see the top of the source");
}

Client NewClient(rd_kafka_type_t type, const std::string& bootstrap, const Settings& settings) {
  char error[512];
  Owned<rd_kafka_conf_t> conf(rd_kafka_conf_new());
  Settings all = {
      {"bootstrap.servers", bootstrap}, {"socket.nagle.disable", "true"}, {"log.connection.close", "false"}};
  all.insert(all.end(), settings.begin(), settings.end());
  for (const auto& [name, value] : all)
    if (rd_kafka_conf_set(conf.get(), name.c_str(), value.c_str(), error, sizeof(error)) != RD_KAFKA_CONF_OK)
      Die(name, error);
  Client client(rd_kafka_new(type, conf.get(), error, sizeof(error)));
  if (client == nullptr) Die("rd_kafka_new", error);
  (void)conf.release();  // the client's now
  return client;
}

Owned<rd_kafka_topic_t> NewTopic(rd_kafka_t* client, const std::string& topic, const Settings& settings) {
  char error[512];
  rd_kafka_topic_conf_t* conf = rd_kafka_topic_conf_new();
  for (const auto& [name, value] : settings)
    if (rd_kafka_topic_conf_set(conf, name.c_str(), value.c_str(), error, sizeof(error)) != RD_KAFKA_CONF_OK)
      Die(name, error);
  return Owned<rd_kafka_topic_t>(rd_kafka_topic_new(client, topic.c_str(), conf));
}

int PartitionCount(rd_kafka_t* client, const std::string& topic) {
  const Owned<rd_kafka_topic_t> handle = NewTopic(client, topic);
  const rd_kafka_metadata_t* found = nullptr;
  Check(topic, rd_kafka_metadata(client, 0, handle.get(), &found, kDeadlineMs));
  const kafka::OwnedMetadata metadata(found);
  if (metadata->topic_cnt != 1 || metadata->topics[0].partition_cnt == 0) Die(topic, "does not exist");
  return metadata->topics[0].partition_cnt;
}

Client NewReader(const std::string& bootstrap, const std::string& topic, bool from_end, Settings settings) {
  settings.insert(settings.begin(), {{"group.id", "bench"},
                                     {"isolation.level", "read_committed"},
                                     {"enable.auto.commit", "false"},
                                     {"enable.partition.eof", "true"},
                                     {"auto.offset.reset", "error"}});
  Client client = NewClient(RD_KAFKA_CONSUMER, bootstrap, settings);
  rd_kafka_poll_set_consumer(client.get());
  const Owned<rd_kafka_topic_partition_list_t> assignment(rd_kafka_topic_partition_list_new(16));
  for (int partition = 0, count = PartitionCount(client.get(), topic); partition < count; ++partition) {
    int64_t low = 0, high = 0;
    Check(topic, rd_kafka_query_watermark_offsets(client.get(), topic.c_str(), partition, &low, &high, kDeadlineMs));
    rd_kafka_topic_partition_list_add(assignment.get(), topic.c_str(), partition)->offset = from_end ? high : low;
  }
  Check(topic, rd_kafka_assign(client.get(), assignment.get()));
  return client;
}

}  // namespace millstream::bench
