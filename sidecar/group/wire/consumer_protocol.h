#ifndef MILLSTREAM_SIDECAR_GROUP_WIRE_CONSUMER_PROTOCOL_H_
#define MILLSTREAM_SIDECAR_GROUP_WIRE_CONSUMER_PROTOCOL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millstream::group::wire {

// The encodings that Kafka's own consumers put into a group of protocol type "consumer", and that its tools read.
// Version 1; all versions only append fields, so that what follows is ignored.
inline constexpr std::string_view kConsumerProtocolType = "consumer";

struct TopicPartitions {
  std::string topic;
  std::vector<int32_t> partitions;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.String(self.topic);
    archive.Array(self.partitions, [](auto& a, auto& partition) { a.Int32(partition); });
  }
};

// A member's metadata in JoinGroup. `user_data` is the assignor's own (plan/member_data.h).
struct Subscription {
  static constexpr std::string_view kName = "Subscription";

  int16_t version = 1;
  std::vector<std::string> topics;
  std::string user_data;
  std::vector<TopicPartitions> owned;  // for Kafka's cooperative assignor; ours has its own list

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.Int16(self.version);
    archive.Array(self.topics, [](auto& a, auto& topic) { a.String(topic); });
    archive.Bytes(self.user_data);
    if (self.version >= 1) archive.Array(self.owned, [](auto& a, auto& item) { TopicPartitions::Fields(a, item); });
  }
};

// What a member gets in SyncGroup.
struct Assignment {
  static constexpr std::string_view kName = "Assignment";

  int16_t version = 1;
  std::vector<TopicPartitions> partitions;
  std::string user_data;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.Int16(self.version);
    archive.Array(self.partitions, [](auto& a, auto& item) { TopicPartitions::Fields(a, item); });
    archive.Bytes(self.user_data);
  }
};

}  // namespace millstream::group::wire

#endif  // MILLSTREAM_SIDECAR_GROUP_WIRE_CONSUMER_PROTOCOL_H_
