#include "common/log/kafka/topic_watch.h"

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/kafka/errors.h"

namespace millstream::kafka {

absl::Status TopicWatch::Learn(const TopicPartition& of) {
  const auto known = topics_.find(of.topic);
  if (known == topics_.end() || of.partition.value() >= known->second.partitions || known->second.reported) {
    MS_ASSIGN_OR_RETURN(const TopicFacts facts, admin_->Describe(of.topic));
    if (of.partition.value() < 0 || of.partition.value() >= facts.partitions) {
      return absl::NotFoundError(
          StrCat("there is no partition ", of.ToString(), ": the topic has ", facts.partitions, " partitions"));
    }
    Watched& watched = topics_[of.topic];
    // A topic that is read already keeps the id it was begun with: who reads it is told of another one.
    if (watched.users == 0 || watched.reported) watched.id = facts.id;
    watched.partitions = facts.partitions;
    watched.missing = 0;
    watched.reported = false;
  }
  ++topics_[of.topic].users;
  return absl::OkStatus();
}

void TopicWatch::Forget(const std::string& topic) {
  const auto known = topics_.find(topic);
  if (known != topics_.end() && --known->second.users == 0) topics_.erase(known);
}

void TopicWatch::Use(rd_kafka_t* client) {
  client_ = client;
  answers_.reset(rd_kafka_queue_new(client));
  asking_ = false;
}

void TopicWatch::Suspect() { next_ = std::min(next_, clock_.Monotonic() + kSoon); }

void TopicWatch::Ask() {
  std::vector<const char*> names;
  for (const auto& [name, watched] : topics_) names.push_back(name.c_str());
  const Owned<rd_kafka_TopicCollection_t> collection(
      rd_kafka_TopicCollection_of_topic_names(names.data(), names.size()));
  const Owned<rd_kafka_AdminOptions_t> options(rd_kafka_AdminOptions_new(client_, RD_KAFKA_ADMIN_OP_DESCRIBETOPICS));
  char error[256];
  rd_kafka_AdminOptions_set_request_timeout(options.get(), Millis(kInterval), error, sizeof(error));
  rd_kafka_DescribeTopics(client_, collection.get(), options.get(), answers_.get());
  asking_ = true;
}

std::vector<std::pair<std::string, absl::Status>> TopicWatch::Check() {
  std::vector<std::pair<std::string, absl::Status>> changed;
  if (topics_.empty() && !asking_) return changed;
  if (!asking_) {
    if (clock_.Monotonic() >= next_) Ask();
    return changed;
  }
  const Owned<rd_kafka_event_t> event(rd_kafka_queue_poll(answers_.get(), 0));
  if (!event) return changed;
  asking_ = false;
  next_ = clock_.Monotonic() + kInterval;
  if (rd_kafka_event_error(event.get())) return changed;  // nobody answers: the reader's own retries say so
  size_t count = 0;
  const rd_kafka_TopicDescription_t** const described =
      rd_kafka_DescribeTopics_result_topics(rd_kafka_event_DescribeTopics_result(event.get()), &count);
  for (size_t i = 0; i < count; ++i) {
    const std::string name = rd_kafka_TopicDescription_name(described[i]);
    const auto known = topics_.find(name);
    if (known == topics_.end() || known->second.reported) continue;
    Watched& watched = known->second;
    const rd_kafka_error_t* const error = rd_kafka_TopicDescription_error(described[i]);
    const rd_kafka_resp_err_t code = error == nullptr ? RD_KAFKA_RESP_ERR_NO_ERROR : rd_kafka_error_code(error);
    absl::Status status;
    if (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
      if (++watched.missing < kMissingForSure) {
        Suspect();
        continue;
      }
      status = absl::NotFoundError(StrCat("topic ", name, " was deleted"));
    } else if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
      watched.missing = 0;
      const std::string id = TopicId(described[i]);
      if (id.empty() || watched.id.empty() || id == watched.id) continue;
      status = absl::NotFoundError(
          StrCat("topic ", name, " was deleted and made again: its id was ", watched.id, " and is ", id));
    } else {
      continue;
    }
    watched.reported = true;
    changed.emplace_back(name, std::move(status));
  }
  return changed;
}

}  // namespace millstream::kafka
