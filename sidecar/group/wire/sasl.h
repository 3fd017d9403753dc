#ifndef MILLSTREAM_SIDECAR_GROUP_WIRE_SASL_H_
#define MILLSTREAM_SIDECAR_GROUP_WIRE_SASL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/group/wire/api.h"
#include "sidecar/group/wire/error_code.h"

namespace millstream::group::wire {

struct SaslHandshakeResponse {
  static constexpr std::string_view kName = "SaslHandshakeResponse";

  ErrorCode error = ErrorCode::kNone;
  std::vector<std::string> mechanisms;  // what the broker offers

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.Enum16(self.error);
    archive.Array(self.mechanisms, [](auto& a, auto& name) { a.String(name); });
  }
};

// Chooses the mechanism. Version 1: SaslAuthenticate carries its messages.
struct SaslHandshakeRequest {
  static constexpr std::string_view kName = "SaslHandshakeRequest";
  static constexpr ApiKey kApi = ApiKey::kSaslHandshake;
  static constexpr int16_t kVersion = 1;
  using Response = SaslHandshakeResponse;

  std::string mechanism;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.String(self.mechanism);
  }
};

struct SaslAuthenticateResponse {
  static constexpr std::string_view kName = "SaslAuthenticateResponse";

  ErrorCode error = ErrorCode::kNone;
  std::string error_message, payload;
  int64_t session_lifetime_ms = 0;  // 0: the connection is not closed for its age (KIP-368)

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.Enum16(self.error);
    archive.NullIfEmpty(self.error_message);
    archive.Bytes(self.payload);
    archive.Int64(self.session_lifetime_ms);
  }
};

// One message of the mechanism.
struct SaslAuthenticateRequest {
  static constexpr std::string_view kName = "SaslAuthenticateRequest";
  static constexpr ApiKey kApi = ApiKey::kSaslAuthenticate;
  static constexpr int16_t kVersion = 1;
  using Response = SaslAuthenticateResponse;

  std::string payload;

  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.Bytes(self.payload);
  }
};

}  // namespace millstream::group::wire

#endif  // MILLSTREAM_SIDECAR_GROUP_WIRE_SASL_H_
