#include "operator/reconcile/metrics.h"

#include <string>

#include "common/base/strings.h"

namespace millstream::reconcile {

std::function<void(std::string_view verb, const kube::Resource& resource, int code)> ApiCallCounter(
    MetricsRegistry* metrics) {
  return [metrics](std::string_view verb, const kube::Resource& resource, int code) {
    metrics
        ->GetCounter(
            "millstream_operator_api_calls_total", "Calls to the API server, by how they ended",
            {{"verb", std::string(verb)}, {"resource", resource.Name()}, {"code", code == 0 ? "none" : StrCat(code)}})
        ->Add();
  };
}

}  // namespace millstream::reconcile
