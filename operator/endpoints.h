#ifndef MILLSTREAM_OPERATOR_ENDPOINTS_H_
#define MILLSTREAM_OPERATOR_ENDPOINTS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/http/message.h"

namespace millstream::program {

// What the operator says over HTTP. Called on threads that serve HTTP: must not wait.
struct Pages {
  std::function<absl::Status()> health;     // an error: only a restart will help
  std::function<absl::Status()> readiness;  // an error: it cannot do its work yet, and why
  std::function<std::string()> metrics;     // Prometheus text
};

// GET (and HEAD) /healthz, /readyz, /metrics. Nothing in them is secret; who may reach them is the matter of a
// NetworkPolicy.
http::Response Answer(const http::Request& request, const Pages& pages);

}  // namespace millstream::program

#endif  // MILLSTREAM_OPERATOR_ENDPOINTS_H_
