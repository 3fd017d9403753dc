#ifndef MILLSTREAM_SIDECAR_PROTOCOL_TESTING_MESSAGE_JSON_H_
#define MILLSTREAM_SIDECAR_PROTOCOL_TESTING_MESSAGE_JSON_H_

#include <string>

#include "sidecar/protocol/messages.h"

namespace millstream::protocol {

// A message as the JSON of tests/conformance/frames (see its README.md), keys sorted. For tests: slow, and complete, so
// that equal text means equal messages.
std::string ToJson(const WorkerMessage& message);
std::string ToJson(const SidecarMessage& message);

}  // namespace millstream::protocol

#endif  // MILLSTREAM_SIDECAR_PROTOCOL_TESTING_MESSAGE_JSON_H_
