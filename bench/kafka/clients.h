#ifndef MILLSTREAM_BENCH_KAFKA_CLIENTS_H_
#define MILLSTREAM_BENCH_KAFKA_CLIENTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/log/kafka/rd.h"

// librdkafka for programs that run once and end at the first error: everything here prints what failed and exits.
// The product's own clients (common/log/kafka) are not used, so that a fault of theirs cannot hide here.
namespace millstream::bench {

struct DeleteClient {
  void operator()(rd_kafka_t* client) const { rd_kafka_destroy(client); }
};
using Client = std::unique_ptr<rd_kafka_t, DeleteClient>;
using kafka::Owned;

[[noreturn]] void Die(std::string_view what, std::string_view why);
void Check(std::string_view what, rd_kafka_resp_err_t error);
// Takes what the transactional calls return; null is success.
void Check(std::string_view what, rd_kafka_error_t* error);

// --name=value arguments; ends the program when one that is asked for is missing, or one is unknown (Done).
class Arguments {
 public:
  Arguments(int argc, char** argv, int first);

  std::string Text(const std::string& name);
  std::string Text(const std::string& name, const std::string& otherwise);
  int64_t Number(const std::string& name);
  int64_t Number(const std::string& name, int64_t otherwise);
  void Done() const;

 private:
  std::map<std::string, std::string> given_;
};

using Settings = std::vector<std::pair<std::string, std::string>>;

Client NewClient(rd_kafka_type_t type, const std::string& bootstrap, const Settings& settings);
Owned<rd_kafka_topic_t> NewTopic(rd_kafka_t* client, const std::string& topic, const Settings& settings = {});
// A consumer of all partitions of `topic`, each from its start or its end, read_committed; it joins no group.
Client NewReader(const std::string& bootstrap, const std::string& topic, bool from_end, Settings settings = {});
int PartitionCount(rd_kafka_t* client, const std::string& topic);

inline std::string_view Key(const rd_kafka_message_t& message) {
  return {static_cast<const char*>(message.key), message.key_len};
}
inline std::string_view Value(const rd_kafka_message_t& message) {
  return {static_cast<const char*>(message.payload), message.len};
}

}  // namespace millstream::bench

#endif  // MILLSTREAM_BENCH_KAFKA_CLIENTS_H_
