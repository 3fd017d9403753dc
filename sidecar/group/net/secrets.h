#ifndef MILLSTREAM_SIDECAR_GROUP_NET_SECRETS_H_
#define MILLSTREAM_SIDECAR_GROUP_NET_SECRETS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace millstream::group {

// The hash functions of SCRAM.
enum class HashKind { kSha256, kSha512 };

std::string Hash(HashKind kind, std::string_view bytes);
std::string Hmac(HashKind kind, std::string_view key, std::string_view bytes);
// PBKDF2 with HMAC: Hi() of RFC 5802. Precondition: iterations > 0.
std::string StretchPassword(HashKind kind, std::string_view password, std::string_view salt, int iterations);
// Equal length and content, in a time that does not tell where they differ.
bool SecretsEqual(std::string_view a, std::string_view b);
// `bytes` random bytes from the operating system, as base64 (which has no comma).
std::string RandomText(size_t bytes);

std::string Base64Encode(std::string_view bytes);
// INVALID_ARGUMENT: not base64.
absl::StatusOr<std::string> Base64Decode(std::string_view text);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_NET_SECRETS_H_
