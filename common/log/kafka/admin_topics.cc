// log::Admin on a cluster: topics.
#include <limits>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/kafka/admin.h"
#include "common/log/kafka/errors.h"

namespace millstream::kafka {
namespace {

// Settings are asked for so many topics at a time: an answer has some 3 KB per topic.
constexpr size_t kTopicsPerRequest = 500;

// How long a topic that was just made may be unknown to the broker that is asked, and how often that is asked.
constexpr absl::Duration kTopicAppears = absl::Seconds(5), kTopicPause = absl::Milliseconds(10);

// The bound on how far ahead of the broker's clock a record's timestamp may be: since Kafka 3.6 (KIP-937), and before.
constexpr char kTimestampAhead[] = "message.timestamp.after.max.ms";
constexpr char kTimestampDifference[] = "message.timestamp.difference.max.ms";

log::TopicInfo Join(TopicFacts facts, const std::map<std::string, TopicConfig>& configs) {
  log::TopicInfo info{.name = facts.name, .id = std::move(facts.id), .partitions = facts.partitions, .config = {}};
  info.replication_factor = facts.replication_factor;
  if (const auto config = configs.find(facts.name); config != configs.end()) info.config = config->second;
  return info;
}

// The error of the one topic a call was about.
absl::Status OneResult(const rd_kafka_topic_result_t** results, size_t count, const std::string& what) {
  if (count != 1) return absl::InternalError(StrCat(what, ": an answer with ", count, " results"));
  const rd_kafka_resp_err_t error = rd_kafka_topic_result_error(results[0]);
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return absl::OkStatus();
  const char* const text = rd_kafka_topic_result_error_string(results[0]);
  return ToStatus(error, what, text == nullptr ? "" : text);
}

}  // namespace

absl::StatusOr<std::vector<log::TopicInfo>> KafkaAdmin::ListTopics() {
  MS_ASSIGN_OR_RETURN(const std::vector<std::string> names, client_->TopicNames());
  std::vector<log::TopicInfo> infos;
  for (size_t begin = 0; begin < names.size(); begin += kTopicsPerRequest) {
    const size_t end = std::min(begin + kTopicsPerRequest, names.size());
    MS_ASSIGN_OR_RETURN(std::vector<TopicFacts> all,
                        client_->Describe(std::vector<std::string>(names.begin() + begin, names.begin() + end)));
    std::erase_if(all, [](const TopicFacts& facts) { return facts.internal; });
    std::vector<std::string> own;
    for (const TopicFacts& facts : all) own.push_back(facts.name);
    MS_ASSIGN_OR_RETURN(const auto configs, client_->TopicConfigs(own));
    for (TopicFacts& facts : all) infos.push_back(Join(std::move(facts), configs));
  }
  return infos;
}

absl::StatusOr<log::TopicInfo> KafkaAdmin::DescribeTopic(const std::string& topic) {
  MS_ASSIGN_OR_RETURN(TopicFacts facts, client_->Describe(topic));
  MS_ASSIGN_OR_RETURN(const auto configs, client_->TopicConfigs({topic}));
  return Join(std::move(facts), configs);
}

absl::Status KafkaAdmin::CreateTopic(const log::TopicSpec& spec) {
  if (spec.name.empty()) return absl::InvalidArgumentError("create topic: a topic needs a name");
  if (spec.partitions < 1) {
    return absl::InvalidArgumentError(
        StrCat("create topic ", spec.name, ": ", spec.partitions, " partitions, at least 1 is needed"));
  }
  if (!spec.any_timestamp) return Create(spec, spec.config);
  std::map<std::string, std::string> config = spec.config;
  config[kTimestampAhead] = std::to_string(std::numeric_limits<int64_t>::max());
  const absl::Status status = Create(spec, config);
  // An older broker refuses the name that it does not know.
  if (!absl::IsInvalidArgument(status) || status.message().find(kTimestampAhead) == absl::string_view::npos) {
    return status;
  }
  config.erase(kTimestampAhead);
  config[kTimestampDifference] = std::to_string(std::numeric_limits<int64_t>::max());
  return Create(spec, config);
}

absl::Status KafkaAdmin::Create(const log::TopicSpec& spec, const std::map<std::string, std::string>& config) {
  const std::string what = StrCat("create topic ", spec.name);
  char error[512];
  const Owned<rd_kafka_NewTopic_t> topic(
      rd_kafka_NewTopic_new(spec.name.c_str(), spec.partitions, spec.replication_factor, error, sizeof(error)));
  if (!topic) return absl::InvalidArgumentError(StrCat(what, ": ", error));
  for (const auto& [name, value] : config) {
    if (rd_kafka_NewTopic_set_config(topic.get(), name.c_str(), value.c_str())) {
      return absl::InvalidArgumentError(StrCat(what, ": setting ", name));
    }
  }
  rd_kafka_NewTopic_t* topics[] = {topic.get()};
  MS_RETURN_IF_ERROR(client_->UntilSettled([&]() -> absl::Status {
    MS_ASSIGN_OR_RETURN(const auto event, client_->Call(RD_KAFKA_ADMIN_OP_CREATETOPICS, what,
                                                        [&](rd_kafka_t* client, const rd_kafka_AdminOptions_t* options,
                                                            rd_kafka_queue_t* queue) {
                                                          rd_kafka_CreateTopics(client, topics, 1, options, queue);
                                                        }));
    size_t count = 0;
    const rd_kafka_topic_result_t** const results =
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event.get()), &count);
    return OneResult(results, count, what);
  }));
  // The controller has made it, brokers hear of it a moment later: who asks next should not be told that there is none.
  const absl::Duration until = SystemClock().Monotonic() + kTopicAppears;
  while (absl::IsNotFound(DescribeTopic(spec.name).status()) && SystemClock().Monotonic() < until) {
    absl::SleepFor(kTopicPause);
  }
  return absl::OkStatus();
}

absl::Status KafkaAdmin::DeleteTopic(const std::string& topic) {
  const std::string what = StrCat("delete topic ", topic);
  const Owned<rd_kafka_DeleteTopic_t> deletion(rd_kafka_DeleteTopic_new(topic.c_str()));
  rd_kafka_DeleteTopic_t* deletions[] = {deletion.get()};
  return client_->UntilSettled([&]() -> absl::Status {
    MS_ASSIGN_OR_RETURN(const auto event, client_->Call(RD_KAFKA_ADMIN_OP_DELETETOPICS, what,
                                                        [&](rd_kafka_t* client, const rd_kafka_AdminOptions_t* options,
                                                            rd_kafka_queue_t* queue) {
                                                          rd_kafka_DeleteTopics(client, deletions, 1, options, queue);
                                                        }));
    size_t count = 0;
    const rd_kafka_topic_result_t** const results =
        rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event.get()), &count);
    return OneResult(results, count, what);
  });
}

}  // namespace millstream::kafka
