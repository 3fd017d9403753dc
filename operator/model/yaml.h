#ifndef MILLSTREAM_OPERATOR_MODEL_YAML_H_
#define MILLSTREAM_OPERATOR_MODEL_YAML_H_

#include <string>
#include <vector>

#include "operator/model/processor.h"

namespace millstream::model {

// Block style YAML of JSON values, for people and golden files: every text that YAML 1.1 or 1.2 could take for
// something else is quoted as in JSON, keys too. Ends with a line end.
std::string ToYaml(const Json& value);
// Several documents, each after "---".
std::string ToYaml(const std::vector<Json>& documents);

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_YAML_H_
