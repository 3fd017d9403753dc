#ifndef MILLSTREAM_OPERATOR_OPTIONS_H_
#define MILLSTREAM_OPERATOR_OPTIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/log_line.h"
#include "operator/kube/config.h"
#include "operator/model/processor.h"

namespace millstream::program {

// What millstream-operator was told: arguments, and the environment of its pod. A plain value.
struct Options {
  std::string kubeconfig, context;      // empty: as kube::FindConfig looks
  std::vector<std::string> namespaces;  // to watch; empty: all
  std::string operator_namespace;       // empty: that of the API server's configuration
  std::string identity;                 // the pod's name; empty: the host's
  bool leader_election = true;
  std::string lease_name = "millstream-operator";
  model::ModelOptions model;
  int max_concurrent_rollouts = 1;
  int workers = 4;
  std::string http_address = "0.0.0.0";
  int http_port = 8080;
  std::string probe;  // a URL to ask instead of running; empty: run
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kJson;
};

// `arguments` without the program's name. INVALID_ARGUMENT: names the option and says what it takes. CANCELLED: asked
// for help or the version, which is the message.
absl::StatusOr<Options> ParseOptions(std::vector<std::string> arguments, const kube::Environment& environment);

inline constexpr std::string_view kProgram = "millstream-operator";

}  // namespace millstream::program

#endif  // MILLSTREAM_OPERATOR_OPTIONS_H_
