#ifndef MILLSTREAM_OPERATOR_RECONCILE_METRICS_H_
#define MILLSTREAM_OPERATOR_RECONCILE_METRICS_H_

#include <functional>
#include <string_view>

#include "common/base/metrics.h"
#include "operator/kube/resource.h"

namespace millstream::reconcile {

// For kube::ClientOptions::on_call: counts calls to the API server by verb, resource and code ("none": no answer).
// `metrics` outlives it.
std::function<void(std::string_view verb, const kube::Resource& resource, int code)> ApiCallCounter(
    MetricsRegistry* metrics);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_METRICS_H_
