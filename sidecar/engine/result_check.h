#ifndef MILLSTREAM_SIDECAR_ENGINE_RESULT_CHECK_H_
#define MILLSTREAM_SIDECAR_ENGINE_RESULT_CHECK_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "sidecar/engine/batch.h"
#include "sidecar/engine/engine.h"
#include "sidecar/engine/outputs.h"

namespace millstream::engine {

// What is wrong with a frame of a worker: the ERROR it gets before it is cut off.
struct ProtocolFault {
  std::string code, message;
};

// A whole RESULT is looked at before anything of it is staged.
std::optional<ProtocolFault> CheckFrame(const EngineOptions& options, const Batch& batch,
                                        const protocol::Result& result);
// Values and outputs beyond the limits of WELCOME: the handler's fault, not the worker's. OK if there are none.
absl::Status CheckLimits(const EngineOptions& options, const OutputRouter& router, const Batch& batch,
                         const protocol::Result& result, int64_t wall_ms);
// The same for what GET and SCAN carry.
std::optional<ProtocolFault> CheckOps(const EngineOptions& options, const protocol::StateOps& ops);
std::optional<ProtocolFault> CheckStore(const EngineOptions& options, uint32_t store);

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_RESULT_CHECK_H_
