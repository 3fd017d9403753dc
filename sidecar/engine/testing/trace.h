#ifndef MILLSTREAM_SIDECAR_ENGINE_TESTING_TRACE_H_
#define MILLSTREAM_SIDECAR_ENGINE_TESTING_TRACE_H_

#include <string>

#include "sidecar/engine/io.h"

namespace millstream::engine::testing {

// One line about an event or action, for following a seed (MILLSTREAM_SIM_TRACE=1). Not parsed by anything.
std::string Describe(const Event& event);
std::string Describe(const Action& action);

}  // namespace millstream::engine::testing

#endif  // MILLSTREAM_SIDECAR_ENGINE_TESTING_TRACE_H_
