// The contract of common/log, on a real cluster: the one whose servers MILLSTREAM_TEST_KAFKA names.
#include <librdkafka/rdkafka.h>

#include <cstdlib>
#include <map>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/kafka/open.h"
#include "common/log/kafka/rd.h"
#include "common/log/testing/contract_suite.h"

namespace millstream::kafka {
namespace {

using log::GroupToken;

const char* Servers() { return std::getenv("MILLSTREAM_TEST_KAFKA"); }

// A member made by librdkafka's own group consumer, kept alive by polling while it joins; it assigns nothing.
class Member {
 public:
  Member(const std::string& group, const std::string& client_id) {
    rd_kafka_conf_t* const conf = rd_kafka_conf_new();
    for (const auto& [name, value] : std::map<std::string, std::string>{{"bootstrap.servers", Servers()},
                                                                        {"group.id", group},
                                                                        {"client.id", client_id},
                                                                        {"enable.auto.commit", "false"},
                                                                        {"heartbeat.interval.ms", "500"},
                                                                        {"session.timeout.ms", "30000"},
                                                                        {"log_level", "0"}}) {
      char error[256];
      MS_CHECK(rd_kafka_conf_set(conf, name.c_str(), value.c_str(), error, sizeof(error)) == RD_KAFKA_CONF_OK);
    }
    rd_kafka_conf_set_rebalance_cb(
        conf, [](rd_kafka_t* client, rd_kafka_resp_err_t error, rd_kafka_topic_partition_list_t* partitions, void*) {
          rd_kafka_assign(client, error == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS ? partitions : nullptr);
        });
    char error[256];
    client_ = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error, sizeof(error));
    MS_CHECK(client_ != nullptr);
    rd_kafka_poll_set_consumer(client_);
  }
  ~Member() { rd_kafka_destroy(client_); }

  absl::StatusOr<GroupToken> Join(const std::string& group, const std::string& topic) {
    const Owned<rd_kafka_topic_partition_list_t> topics(rd_kafka_topic_partition_list_new(1));
    rd_kafka_topic_partition_list_add(topics.get(), topic.c_str(), RD_KAFKA_PARTITION_UA);
    if (rd_kafka_subscribe(client_, topics.get())) return absl::InternalError("subscribe");
    const absl::Duration until = SystemClock().Monotonic() + absl::Seconds(20);
    while (SystemClock().Monotonic() < until) {
      const Owned<rd_kafka_message_t> message(rd_kafka_consumer_poll(client_, 20));
      const Owned<rd_kafka_consumer_group_metadata_t> metadata(rd_kafka_consumer_group_metadata(client_));
      rd_kafka_topic_partition_list_t* assigned = nullptr;
      rd_kafka_assignment(client_, &assigned);
      const Owned<rd_kafka_topic_partition_list_t> owned(assigned);
      if (!metadata || assigned->cnt == 0) continue;
      return GroupToken{.group = group,
                        .member_id = rd_kafka_consumer_group_metadata_member_id(metadata.get()),
                        .instance_id = "",
                        .generation = Generation(rd_kafka_consumer_group_metadata_generation_id(metadata.get()))};
    }
    return absl::DeadlineExceededError(StrCat("no generation of group ", group));
  }
  void Leave() { rd_kafka_consumer_close(client_); }

 private:
  rd_kafka_t* client_ = nullptr;
};

class KafkaBackend : public log::ContractBackend {
 public:
  KafkaBackend() {
    KafkaLogOptions options;
    options.access.bootstrap_servers = Servers();
    options.client_id = "millstream-contract";
    options.admin_deadline = absl::Seconds(10);
    auto log = OpenKafkaLog(options);
    MS_CHECK_OK(log);
    log_ = *std::move(log);
  }

  log::Log& log() override { return *log_; }

  absl::StatusOr<GroupToken> JoinGroup(const std::string& group, const std::string& member_id) override {
    // The suite wants a group with one member and a generation that goes up: the member before leaves.
    members_.erase(group);
    const std::string topic = StrCat("members-of-", group);
    const absl::Status made = log_->admin().CreateTopic({topic, 1, -1, {}});
    if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
    members_[group] = std::make_unique<Member>(group, member_id);
    return members_[group]->Join(group, topic);
  }
  void LeaveGroup(const GroupToken& token) override { members_.erase(token.group); }

  absl::Duration patience() const override { return absl::Seconds(20); }
  absl::Duration quiet() const override { return absl::Milliseconds(700); }  // longer than fetch.wait.max.ms
  // The broker looks for expired transactions every 10 s.
  absl::Duration expiry_scan() const override { return absl::Seconds(15); }

 private:
  std::unique_ptr<log::Log> log_;
  std::map<std::string, std::unique_ptr<Member>> members_;
};

std::vector<log::ContractBackendFactory> Factories() {
  if (Servers() == nullptr) return {};
  return {[] { return std::make_unique<KafkaBackend>(); }};
}

}  // namespace
}  // namespace millstream::kafka

namespace millstream::log {
// Without a cluster there is nothing to test; the part of the test run that needs one sets the variable.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LogContract);
INSTANTIATE_TEST_SUITE_P(Kafka, LogContract, testing::ValuesIn(kafka::Factories()),
                         [](const auto&) { return "kafka"; });
}  // namespace millstream::log
