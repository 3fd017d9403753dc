#include "common/log/kafka/admin_client.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/kafka/errors.h"
#include "common/log/kafka/properties.h"

namespace millstream::kafka {
namespace {

// Between attempts of a call whose error passes by itself.
constexpr absl::Duration kRetryPause = absl::Milliseconds(50);
// librdkafka answers by its own timer; this is for it being late, not for the broker.
constexpr absl::Duration kAnswerSlack = absl::Seconds(2);

// The least time between two clients for calls about groups.
constexpr absl::Duration kGroupClientAge = absl::Seconds(1);

bool IsAboutGroup(rd_kafka_admin_op_t op) {
  return op == RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS || op == RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS ||
         op == RD_KAFKA_ADMIN_OP_DELETEGROUPS;
}

TopicConfig ConfigOf(const rd_kafka_ConfigResource_t* resource) {
  TopicConfig config;
  size_t count = 0;
  const rd_kafka_ConfigEntry_t** const entries = rd_kafka_ConfigResource_configs(resource, &count);
  for (size_t i = 0; i < count; ++i) {
    const char* const value = rd_kafka_ConfigEntry_value(entries[i]);
    if (value != nullptr) config[rd_kafka_ConfigEntry_name(entries[i])] = value;
  }
  return config;
}

}  // namespace

std::string TopicId(const rd_kafka_TopicDescription_t* described) {
  const rd_kafka_Uuid_t* const id = rd_kafka_TopicDescription_topic_id(described);
  if (id == nullptr) return "";
  if (rd_kafka_Uuid_least_significant_bits(id) == 0 && rd_kafka_Uuid_most_significant_bits(id) == 0) return "";
  return rd_kafka_Uuid_base64str(id);
}

Owned<rd_kafka_topic_partition_list_t> PartitionList(const std::string& topic, int32_t partition, int64_t offset) {
  Owned<rd_kafka_topic_partition_list_t> list(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), partition)->offset = offset;
  return list;
}

int Millis(absl::Duration duration) {
  return static_cast<int>(
      std::clamp<int64_t>(absl::ToInt64Milliseconds(duration), 1, std::numeric_limits<int>::max() / 4));
}

absl::StatusOr<std::unique_ptr<Client>> AdminClient::NewClient(std::shared_ptr<const ClientContext> context) {
  ClientSpec spec;
  spec.what = "admin";
  // A consumer, although it never consumes: when a broker answers a question about a group's offsets with
  // NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS, librdkafka 2.8 (rd_kafka_handle_OffsetFetch) tells the client's
  // own group to look for its coordinator, and crashes where the client has none.
  spec.type = RD_KAFKA_CONSUMER;
  spec.fixed = AdminProperties();
  return Client::New(std::move(context), std::move(spec));
}

absl::StatusOr<std::unique_ptr<AdminClient>> AdminClient::New(std::shared_ptr<const ClientContext> context) {
  MS_ASSIGN_OR_RETURN(std::unique_ptr<Client> client, NewClient(context));
  return std::unique_ptr<AdminClient>(new AdminClient(std::move(context), std::move(client)));
}

std::shared_ptr<Client> AdminClient::CurrentClient(bool for_group) {
  std::shared_ptr<Client> ended, group_ended;  // end after the lock, which may take a while
  absl::MutexLock lock(&mutex_);
  if (client_->outdated()) {
    auto made = NewClient(context_);
    if (made.ok()) {  // otherwise the old one is asked again
      ended = std::exchange(client_, std::shared_ptr<Client>(*std::move(made)));
      group_ended = std::exchange(group_client_, nullptr);
      context_->CountRenewed("admin");
    }
  }
  return for_group && group_client_ ? group_client_ : client_;
}

// librdkafka 2.8 keeps the coordinators it has found for admin calls as long as they are asked, right or wrong
// (rdkafka_coord.c: only the transaction code evicts one): a client that met one that had moved would meet it for ever.
void AdminClient::NoteMovedCoordinator(const absl::Status& status) {
  const std::string_view name = rd_kafka_err2name(RD_KAFKA_RESP_ERR_NOT_COORDINATOR);
  if (!absl::IsUnavailable(status) || !absl::StrContains(status.message(), ToAbsl(name))) return;
  std::shared_ptr<Client> ended;  // ends after the lock, which may take a while
  absl::MutexLock lock(&mutex_);
  // While a new coordinator is elected, every one says that it is none.
  if (clock_.Monotonic() - group_client_made_ < kGroupClientAge) return;
  group_client_made_ = clock_.Monotonic();
  auto made = NewClient(context_);
  if (!made.ok()) return;  // the old one is asked again
  ended = std::exchange(group_client_, std::shared_ptr<Client>(*std::move(made)));
}

absl::Status AdminClient::UntilSettled(const std::function<absl::Status()>& attempt) {
  return UntilSettled(attempt, deadline());
}

absl::Status AdminClient::UntilSettled(const std::function<absl::Status()>& attempt, absl::Duration wait) {
  const absl::Duration until = clock_.Monotonic() + wait;
  while (true) {
    absl::Status status = attempt();
    NoteMovedCoordinator(status);
    if (!absl::IsUnavailable(status) || clock_.Monotonic() + kRetryPause >= until) return status;
    absl::SleepFor(kRetryPause);
  }
}

// librdkafka 2.8 lets go of all back-off while an admin request waits for a controller that is away: each change of the
// connection's state asks for the connection again, which "expedites" it (rd_kafka_broker_controller_async, OP_CONNECT):
// thousands of attempts a second and most of a core, until the request times out. So after trouble with connections no
// such request is begun before a broker answered a plain one, which waits as it should; its answer also says who the
// controller is by now. (Not without trouble: it asks about all topics the client knows, and one that is just being made
// would be remembered as unknown.)
bool AdminClient::AwaitBroker(const Client& client, absl::Duration wait) {
  if (client.ConnectionTrouble().empty()) return true;
  const rd_kafka_metadata_t* raw = nullptr;
  const rd_kafka_resp_err_t error = rd_kafka_metadata(client.get(), /*all_topics=*/0, nullptr, &raw, Millis(wait));
  const OwnedMetadata metadata(raw);
  return !error;
}

absl::StatusOr<Answer> AdminClient::CallOnce(rd_kafka_admin_op_t op, std::string_view what, const Start& start,
                                             const Tune& tune, absl::Duration wait) {
  const std::shared_ptr<Client> client = CurrentClient(IsAboutGroup(op));
  const absl::Duration until = clock_.Monotonic() + wait;
  if (!AwaitBroker(*client, wait)) {
    return ToStatus(RD_KAFKA_RESP_ERR__TIMED_OUT, what, StrCat("no broker answers", client->ConnectionTrouble()));
  }
  wait = std::max(until - clock_.Monotonic(), kRetryPause);
  const Owned<rd_kafka_AdminOptions_t> options(rd_kafka_AdminOptions_new(client->get(), op));
  char error[512];
  if (rd_kafka_AdminOptions_set_request_timeout(options.get(), Millis(wait), error, sizeof(error))) {
    return absl::InternalError(StrCat(what, ": ", error));
  }
  if (tune) {
    const Owned<rd_kafka_error_t> refused(tune(options.get()));
    if (refused) return absl::InternalError(StrCat(what, ": ", rd_kafka_error_string(refused.get())));
  }
  const Owned<rd_kafka_queue_t> queue(rd_kafka_queue_new(client->get()));
  start(client->get(), options.get(), queue.get());
  Owned<rd_kafka_event_t> event(rd_kafka_queue_poll(queue.get(), Millis(wait + kAnswerSlack)));
  const rd_kafka_resp_err_t failed = event ? rd_kafka_event_error(event.get()) : RD_KAFKA_RESP_ERR__TIMED_OUT;
  if (failed == RD_KAFKA_RESP_ERR_NO_ERROR) return Answer(client, std::move(event));
  const char* const text = event ? rd_kafka_event_error_string(event.get()) : nullptr;
  absl::Status status = ToStatus(failed, what, text == nullptr ? "" : text);
  if (absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status)) {
    status = absl::Status(status.code(), StrCat(status.message(), client->ConnectionTrouble()));
  }
  return status;
}

absl::StatusOr<Answer> AdminClient::Call(rd_kafka_admin_op_t op, std::string_view what, const Start& start,
                                         const Tune& tune, std::optional<absl::Duration> wait) {
  const absl::Duration until = clock_.Monotonic() + wait.value_or(deadline());
  std::optional<Answer> answer;
  const auto attempt = [&]() -> absl::Status {
    auto called = CallOnce(op, what, start, tune, std::max(until - clock_.Monotonic(), kRetryPause));
    if (!called.ok()) return called.status();
    answer.emplace(*std::move(called));
    return absl::OkStatus();
  };
  MS_RETURN_IF_ERROR(UntilSettled(attempt, wait.value_or(deadline())));
  return *std::move(answer);
}

absl::StatusOr<std::vector<TopicFacts>> AdminClient::Describe(const std::vector<std::string>& topics) {
  std::vector<TopicFacts> facts;
  if (topics.empty()) return facts;
  std::vector<const char*> names;
  for (const std::string& topic : topics) names.push_back(topic.c_str());
  const Owned<rd_kafka_TopicCollection_t> collection(
      rd_kafka_TopicCollection_of_topic_names(names.data(), names.size()));
  const std::string what = topics.size() == 1 ? StrCat("describe topic ", topics.front()) : "describe topics";
  const auto start = [&](rd_kafka_t* client, const rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* queue) {
    rd_kafka_DescribeTopics(client, collection.get(), options, queue);
  };
  MS_RETURN_IF_ERROR(UntilSettled([&]() -> absl::Status {
    facts.clear();
    MS_ASSIGN_OR_RETURN(const auto event, Call(RD_KAFKA_ADMIN_OP_DESCRIBETOPICS, what, start));
    size_t count = 0;
    const rd_kafka_TopicDescription_t** const described =
        rd_kafka_DescribeTopics_result_topics(rd_kafka_event_DescribeTopics_result(event.get()), &count);
    for (size_t i = 0; i < count; ++i) {
      const std::string name = rd_kafka_TopicDescription_name(described[i]);
      const rd_kafka_error_t* const error = rd_kafka_TopicDescription_error(described[i]);
      if (error != nullptr && rd_kafka_error_code(error) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        const absl::Status status =
            ToStatus(rd_kafka_error_code(error), StrCat("topic ", name), rd_kafka_error_string(error));
        // No broker can hold a topic with an illegal name.
        if (absl::IsNotFound(status) || absl::IsInvalidArgument(status)) continue;
        return status;
      }
      TopicFacts topic{.name = name, .id = TopicId(described[i])};
      size_t partitions = 0;
      const rd_kafka_TopicPartitionInfo_t** const infos =
          rd_kafka_TopicDescription_partitions(described[i], &partitions);
      topic.partitions = static_cast<int>(partitions);
      size_t replicas = 0;
      if (partitions > 0) rd_kafka_TopicPartitionInfo_replicas(infos[0], &replicas);
      topic.replication_factor = static_cast<int>(replicas);
      topic.internal = rd_kafka_TopicDescription_is_internal(described[i]) != 0;
      facts.push_back(std::move(topic));
    }
    return absl::OkStatus();
  }));
  return facts;
}

absl::StatusOr<TopicFacts> AdminClient::Describe(const std::string& topic) {
  if (topic.empty()) return absl::NotFoundError("there is no topic without a name");
  MS_ASSIGN_OR_RETURN(std::vector<TopicFacts> facts, Describe(std::vector<std::string>{topic}));
  if (facts.empty()) return absl::NotFoundError(StrCat("there is no topic ", topic));
  return std::move(facts.front());
}

absl::StatusOr<std::vector<std::string>> AdminClient::TopicNames() {
  std::vector<std::string> names;
  MS_RETURN_IF_ERROR(UntilSettled([&]() -> absl::Status {
    const rd_kafka_metadata_t* raw = nullptr;
    const rd_kafka_resp_err_t error =
        rd_kafka_metadata(client()->get(), /*all_topics=*/1, nullptr, &raw, Millis(deadline()));
    const OwnedMetadata metadata(raw);
    if (error) return ToStatus(error, "list topics", StrCat(rd_kafka_err2str(error), ConnectionTrouble()));
    names.clear();
    for (int i = 0; i < metadata->topic_cnt; ++i) names.push_back(metadata->topics[i].topic);
    return absl::OkStatus();
  }));
  return names;
}

absl::StatusOr<std::map<std::string, TopicConfig>> AdminClient::TopicConfigs(const std::vector<std::string>& topics) {
  return TopicConfigs(topics, deadline());
}

absl::StatusOr<std::map<std::string, TopicConfig>> AdminClient::TopicConfigs(const std::vector<std::string>& topics,
                                                                             absl::Duration wait) {
  std::map<std::string, TopicConfig> configs;
  if (topics.empty()) return configs;
  std::vector<Owned<rd_kafka_ConfigResource_t>> owned;
  std::vector<rd_kafka_ConfigResource_t*> resources;
  for (const std::string& topic : topics) {
    owned.emplace_back(rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic.c_str()));
    resources.push_back(owned.back().get());
  }
  const auto start = [&](rd_kafka_t* client, const rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* queue) {
    rd_kafka_DescribeConfigs(client, resources.data(), resources.size(), options, queue);
  };
  MS_ASSIGN_OR_RETURN(const auto event,
                      Call(RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, "describe the settings of topics", start, nullptr, wait));
  size_t count = 0;
  const rd_kafka_ConfigResource_t** const described =
      rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(event.get()), &count);
  for (size_t i = 0; i < count; ++i) {
    const rd_kafka_resp_err_t error = rd_kafka_ConfigResource_error(described[i]);
    // A broker that has not heard of a new topic yet: that is not the same as settings that may not be seen.
    if (error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART && topics.size() == 1)
      return absl::NotFoundError(StrCat("there is no topic ", topics.front()));
    if (error) continue;
    configs[rd_kafka_ConfigResource_name(described[i])] = ConfigOf(described[i]);
  }
  return configs;
}

std::optional<std::string> AdminClient::BrokerSetting(const std::string& name) {
  const rd_kafka_metadata_t* raw = nullptr;
  if (rd_kafka_metadata(client()->get(), /*all_topics=*/0, nullptr, &raw, Millis(deadline()))) return std::nullopt;
  const OwnedMetadata metadata(raw);
  if (metadata->broker_cnt == 0) return std::nullopt;
  const std::string broker = std::to_string(metadata->brokers[0].id);
  const Owned<rd_kafka_ConfigResource_t> resource(
      rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_BROKER, broker.c_str()));
  rd_kafka_ConfigResource_t* resources[] = {resource.get()};
  const auto event = Call(RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, "describe the settings of a broker",
                          [&](rd_kafka_t* client, const rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* queue) {
                            rd_kafka_DescribeConfigs(client, resources, 1, options, queue);
                          });
  if (!event.ok()) return std::nullopt;
  size_t count = 0;
  const rd_kafka_ConfigResource_t** const described =
      rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(event->get()), &count);
  if (count == 0 || rd_kafka_ConfigResource_error(described[0])) return std::nullopt;
  TopicConfig config = ConfigOf(described[0]);
  const auto found = config.find(name);
  return found == config.end() ? std::nullopt : std::optional<std::string>(found->second);
}

std::optional<int64_t> AdminClient::MaxMessageBytes(const std::string& topic) {
  {
    absl::MutexLock lock(&mutex_);
    const auto known = limits_.find(topic);
    if (known != limits_.end() && clock_.Monotonic() < known->second.until) return known->second.bytes;
  }
  std::optional<int64_t> bytes;
  const auto configs = TopicConfigs({topic}, std::min(kLimitWait, deadline()));
  if (configs.ok()) {
    if (const auto config = configs->find(topic); config != configs->end()) {
      const auto value = config->second.find("max.message.bytes");
      if (value != config->second.end()) bytes = std::atoll(value->second.c_str());
    }
  }
  absl::MutexLock lock(&mutex_);
  if (limits_.size() >= kMostTopics) limits_.clear();
  limits_[topic] = {bytes, clock_.Monotonic() + (configs.ok() ? kLimitAge : kLimitRetry)};
  return bytes;
}

void AdminClient::ForgetLimit(const std::string& topic) {
  absl::MutexLock lock(&mutex_);
  limits_.erase(topic);
}

std::vector<std::string> AdminClient::WrittenTopics() {
  absl::MutexLock lock(&mutex_);
  return {written_.begin(), written_.end()};
}

void AdminClient::NoteWritten(const std::string& topic) {
  absl::MutexLock lock(&mutex_);
  if (written_.size() < kMostTopics) written_.insert(topic);
}

}  // namespace millstream::kafka
