#ifndef MILLSTREAM_TESTS_SIM_OPERATOR_REST_H_
#define MILLSTREAM_TESTS_SIM_OPERATOR_REST_H_

#include <string>
#include <vector>

#include "operator/model/processor.h"
#include "tests/sim/operator/cluster.h"

namespace millstream::sim {

// What is still not as it should be when nothing disturbs any more: children that differ from their manifests, pods
// that are old or not ready, status that says something else than what is, objects of nobody. Empty: at rest.
std::vector<std::string> Unrest(Cluster* cluster, const model::ModelOptions& options);

}  // namespace millstream::sim

#endif  // MILLSTREAM_TESTS_SIM_OPERATOR_REST_H_
