#ifndef MILLSTREAM_COMMON_LOG_KAFKA_ASSIGNMENT_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_ASSIGNMENT_H_

#include <string_view>
#include <vector>

#include "common/base/ids.h"

namespace millstream::kafka {

// The partitions in a group member's assignment, as the brokers keep it: ConsumerProtocolAssignment of Kafka's message
// definitions, whose versions 0 to 3 all begin with version and [topic [partition]]. What does not decode is an
// assignment of another protocol (Kafka Connect): no partitions.
std::vector<TopicPartition> DecodeAssignment(std::string_view bytes);

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_ASSIGNMENT_H_
