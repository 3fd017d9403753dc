#ifndef MILLSTREAM_SIDECAR_ENGINE_WELCOME_H_
#define MILLSTREAM_SIDECAR_ENGINE_WELCOME_H_

#include "absl/status/statusor.h"
#include "sidecar/engine/engine.h"
#include "sidecar/protocol/messages.h"

namespace millstream::engine {

// What the sidecar tells a worker about the processor: names in the order of their ids, limits, deadlines. `version`,
// `session` and `frame_cap` are the server's to fill in. INVALID_ARGUMENT, with a message for the author of the worker,
// if its HELLO does not fit: a handler for an input that is not declared, or a declared input without a handler. Pure.
absl::StatusOr<protocol::Welcome> WelcomeFor(const EngineOptions& options, const protocol::Hello& hello);

// The limits above, with the default where the options do not say.
int64_t OutputMaxBytes(const EngineOptions& options, size_t output);
int64_t StoreMaxBytes(const EngineOptions& options, size_t store);

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_WELCOME_H_
