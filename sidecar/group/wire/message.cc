#include "sidecar/group/wire/message.h"

namespace millstream::group::wire {

std::string FrameRequest(ApiKey api, int16_t version, int32_t correlation_id, std::string_view client_id,
                         std::string_view body) {
  std::string header;
  Writer writer(&header);
  writer.Enum16(api);
  writer.Int16(version);
  writer.Int32(correlation_id);
  writer.String(client_id);
  std::string frame;
  Writer(&frame).Int32(static_cast<int32_t>(header.size() + body.size()));
  frame += header;
  frame += body;
  return frame;
}

}  // namespace millstream::group::wire
