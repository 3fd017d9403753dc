#ifndef MILLSTREAM_OPERATOR_MODEL_SET_CHANGE_H_
#define MILLSTREAM_OPERATOR_MODEL_SET_CHANGE_H_

#include <string>
#include <vector>

#include "operator/model/processor.h"

namespace millstream::model {

// How the StatefulSet that is there gets to be the one that is wanted. Of a StatefulSet only replicas, template,
// ordinals, update strategy, revision history, minReadySeconds and the claims' retention can be changed; for anything
// else it is deleted without its pods and made anew, and adopts them.
struct SetChange {
  bool recreate = false;
  std::string why;  // of recreate: one sentence
  // The claim templates to apply: as wanted; as they are where the change is refused.
  Json claim_templates = Json::array();
  // What is refused, and the way out: a volume never shrinks and never changes its class.
  std::vector<std::string> refused;
};

// Both are a StatefulSet's spec; `there` as the API server gives it, with its defaults.
SetChange CompareSets(const Json& wanted, const Json& there);

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_SET_CHANGE_H_
