#ifndef MILLSTREAM_SIDECAR_GROUP_WIRE_INIT_PRODUCER_ID_H_
#define MILLSTREAM_SIDECAR_GROUP_WIRE_INIT_PRODUCER_ID_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "sidecar/group/wire/api.h"
#include "sidecar/group/wire/error_code.h"

namespace millstream::group::wire {

struct InitProducerIdResponse {
  static constexpr std::string_view kName = "InitProducerIdResponse";

  int32_t throttle_ms = 0;
  ErrorCode error = ErrorCode::kNone;
  int64_t producer_id = -1;
  int16_t producer_epoch = -1;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.Int32(self.throttle_ms);
    archive.Enum16(self.error);
    archive.Int64(self.producer_id);
    archive.Int16(self.producer_epoch);
  }
};

// Raises the epoch of a transactional id: whoever wrote under it is fenced and an open transaction of it is aborted.
// CONCURRENT_TRANSACTIONS until that has happened.
struct InitProducerIdRequest {
  static constexpr std::string_view kName = "InitProducerIdRequest";
  static constexpr ApiKey kApi = ApiKey::kInitProducerId;
  static constexpr int16_t kVersion = 1;
  using Response = InitProducerIdResponse;

  std::string transactional_id;
  int32_t transaction_timeout_ms = 0;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.NullIfEmpty(self.transactional_id);
    archive.Int32(self.transaction_timeout_ms);
  }
};

}  // namespace millstream::group::wire

#endif  // MILLSTREAM_SIDECAR_GROUP_WIRE_INIT_PRODUCER_ID_H_
