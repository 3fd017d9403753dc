#ifndef MILLSTREAM_SIDECAR_PROTOCOL_MESSAGE_JSON_H_
#define MILLSTREAM_SIDECAR_PROTOCOL_MESSAGE_JSON_H_

#include <string>

#include "sidecar/protocol/messages.h"

namespace millstream::protocol {

// A message as the JSON of tests/conformance/frames (see its README.md), keys sorted. Slow, and complete: equal text means equal messages. For tests and
// `millstream conform`.
std::string ToJson(const WorkerMessage& message);
std::string ToJson(const SidecarMessage& message);

}  // namespace millstream::protocol

#endif  // MILLSTREAM_SIDECAR_PROTOCOL_MESSAGE_JSON_H_
