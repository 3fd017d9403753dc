#ifndef MILLSTREAM_CLI_TOOLS_ADOPT_H_
#define MILLSTREAM_CLI_TOOLS_ADOPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/log/log.h"
#include "nlohmann/json.hpp"

namespace millstream::cli {

struct AdoptRequest {
  std::string group, owner;         // the stamp of the processor that takes over
  std::vector<std::string> topics;  // its inputs
};

struct AdoptPlan {
  struct Row {
    TopicPartition of;
    Offset next;
    std::string owner;  // so far; empty: none
  };
  std::vector<Row> rows;             // whose owner is another; by partition
  std::vector<std::string> members;  // alive: while there are any, nothing is executed
  int64_t already_ours = 0;
};

// A group belongs to the processor whose stamp is in the metadata of its offsets; another one refuses to start
// (GroupOwnedByAnother). Adopting writes the new stamp beside the same offsets; state and topics stay as they are.
absl::StatusOr<AdoptPlan> PlanAdoption(log::Log* log, const AdoptRequest& request);
// In one transaction. FAILED_PRECONDITION: members are alive.
absl::Status ExecuteAdoption(log::Log* log, const AdoptRequest& request, const AdoptPlan& plan);

nlohmann::json ToJson(const AdoptRequest& request);
AdoptRequest AdoptRequestFrom(const nlohmann::json& json);
nlohmann::json ToJson(const AdoptPlan& plan);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_TOOLS_ADOPT_H_
