#ifndef MILLSTREAM_SIDECAR_GROUP_WIRE_MESSAGE_H_
#define MILLSTREAM_SIDECAR_GROUP_WIRE_MESSAGE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/strings.h"
#include "sidecar/group/wire/api.h"
#include "sidecar/group/wire/reader.h"
#include "sidecar/group/wire/writer.h"

namespace millstream::group::wire {

// A message M has kName and `Fields(archive, self)`; a request also kApi, kVersion and its Response.

template <typename M>
std::string EncodeMessage(const M& message) {
  std::string bytes;
  Writer writer(&bytes);
  M::Fields(writer, message);
  return bytes;
}

enum class Trailing { kRefuse, kIgnore };

// INVALID_ARGUMENT says what is wrong with the bytes, and where. `trailing`: what to do about bytes after the last
// field.
template <typename M>
absl::StatusOr<M> DecodeMessage(std::string_view bytes, Trailing trailing = Trailing::kRefuse) {
  Reader reader(bytes);
  M message;
  M::Fields(reader, message);
  if (reader.ok() && trailing == Trailing::kRefuse && reader.remaining() > 0) {
    reader.Fail(StrCat(reader.remaining(), " bytes are left over"));
  }
  if (!reader.ok()) return absl::InvalidArgumentError(StrCat("malformed ", M::kName, ": ", reader.error()));
  return message;
}

// A whole request as it goes over the connection: length, header (version 1), body.
std::string FrameRequest(ApiKey api, int16_t version, int32_t correlation_id, std::string_view client_id,
                         std::string_view body);

}  // namespace millstream::group::wire

#endif  // MILLSTREAM_SIDECAR_GROUP_WIRE_MESSAGE_H_
