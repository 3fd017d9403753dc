#ifndef MILLSTREAM_SIDECAR_GROUP_WIRE_OFFSET_FETCH_H_
#define MILLSTREAM_SIDECAR_GROUP_WIRE_OFFSET_FETCH_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/group/wire/api.h"
#include "sidecar/group/wire/consumer_protocol.h"
#include "sidecar/group/wire/error_code.h"

namespace millstream::group::wire {

struct FetchedOffset {
  int32_t partition = 0;
  int64_t offset = -1;  // -1: none is committed
  int32_t leader_epoch = -1;
  std::string metadata;
  ErrorCode error = ErrorCode::kNone;
};

struct FetchedTopic {
  std::string topic;
  std::vector<FetchedOffset> offsets;
};

struct OffsetFetchResponse {
  static constexpr std::string_view kName = "OffsetFetchResponse";

  int32_t throttle_ms = 0;
  std::vector<FetchedTopic> topics;
  ErrorCode error = ErrorCode::kNone;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.Int32(self.throttle_ms);
    archive.Array(self.topics, [](auto& a, auto& topic) {
      a.String(topic.topic);
      a.Array(topic.offsets, [](auto& b, auto& item) {
        b.Int32(item.partition);
        b.Int64(item.offset);
        b.Int32(item.leader_epoch);
        b.NullIfEmpty(item.metadata);
        b.Enum16(item.error);
      });
    });
    archive.Enum16(self.error);
  }
};

// The group's committed offsets with their metadata, pending transactions left out.
struct OffsetFetchRequest {
  static constexpr std::string_view kName = "OffsetFetchRequest";
  static constexpr ApiKey kApi = ApiKey::kOffsetFetch;
  static constexpr int16_t kVersion = 5;
  using Response = OffsetFetchResponse;

  std::string group;
  std::vector<TopicPartitions> topics;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.String(self.group);
    archive.Array(self.topics, [](auto& a, auto& item) { TopicPartitions::Fields(a, item); });
  }
};

}  // namespace millstream::group::wire

#endif  // MILLSTREAM_SIDECAR_GROUP_WIRE_OFFSET_FETCH_H_
