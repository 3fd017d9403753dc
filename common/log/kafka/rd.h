#ifndef MILLSTREAM_COMMON_LOG_KAFKA_RD_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_RD_H_

#include <librdkafka/rdkafka.h>

#include <memory>

namespace millstream::kafka {

// Frees what librdkafka's C interface hands out, so that every such pointer has an owner with a scope.
// rd_kafka_t is not among them: see Client.
struct RdDelete {
  void operator()(rd_kafka_conf_t* p) const { rd_kafka_conf_destroy(p); }
  void operator()(rd_kafka_topic_t* p) const { rd_kafka_topic_destroy(p); }
  void operator()(rd_kafka_topic_partition_list_t* p) const { rd_kafka_topic_partition_list_destroy(p); }
  void operator()(rd_kafka_queue_t* p) const { rd_kafka_queue_destroy(p); }
  void operator()(rd_kafka_event_t* p) const { rd_kafka_event_destroy(p); }
  void operator()(rd_kafka_error_t* p) const { rd_kafka_error_destroy(p); }
  void operator()(rd_kafka_headers_t* p) const { rd_kafka_headers_destroy(p); }
  void operator()(rd_kafka_message_t* p) const { rd_kafka_message_destroy(p); }
  void operator()(rd_kafka_AdminOptions_t* p) const { rd_kafka_AdminOptions_destroy(p); }
  void operator()(rd_kafka_NewTopic_t* p) const { rd_kafka_NewTopic_destroy(p); }
  void operator()(rd_kafka_DeleteTopic_t* p) const { rd_kafka_DeleteTopic_destroy(p); }
  void operator()(rd_kafka_ConfigResource_t* p) const { rd_kafka_ConfigResource_destroy(p); }
  void operator()(rd_kafka_TopicCollection_t* p) const { rd_kafka_TopicCollection_destroy(p); }
  void operator()(rd_kafka_ListConsumerGroupOffsets_t* p) const { rd_kafka_ListConsumerGroupOffsets_destroy(p); }
  void operator()(rd_kafka_AlterConsumerGroupOffsets_t* p) const { rd_kafka_AlterConsumerGroupOffsets_destroy(p); }
  void operator()(rd_kafka_DeleteGroup_t* p) const { rd_kafka_DeleteGroup_destroy(p); }
  void operator()(rd_kafka_consumer_group_metadata_t* p) const { rd_kafka_consumer_group_metadata_destroy(p); }
};

template <typename T>
using Owned = std::unique_ptr<T, RdDelete>;

// rd_kafka_event_t and the results of admin calls are one type; metadata and group lists have other functions and a
// const in their way.
struct RdDeleteConst {
  void operator()(const rd_kafka_metadata_t* p) const { rd_kafka_metadata_destroy(p); }
  void operator()(const rd_kafka_group_list* p) const { rd_kafka_group_list_destroy(p); }
};
using OwnedMetadata = std::unique_ptr<const rd_kafka_metadata_t, RdDeleteConst>;
using OwnedGroupList = std::unique_ptr<const rd_kafka_group_list, RdDeleteConst>;

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_RD_H_
