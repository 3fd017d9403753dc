#include "cli/tools/tool.h"

#include "cli/tools/adopt.h"
#include "cli/tools/dead_letters.h"
#include "cli/tools/lag.h"
#include "cli/tools/reset.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

using Json = nlohmann::json;

absl::StatusOr<Json> Reset(log::Log* log, const Json& json) {
  const ResetRequest request = ResetRequestFrom(json);
  MS_ASSIGN_OR_RETURN(const ResetPlan plan, PlanReset(log, request));
  Json answer = ToJson(plan);
  if (!json.at("execute").get<bool>()) return answer;
  MS_ASSIGN_OR_RETURN(const ResetOutcome outcome, ExecuteReset(log, request, plan));
  answer["done"] = {{"tasks", outcome.tasks}, {"tombstones", outcome.tombstones}};
  if (!outcome.status.ok()) answer["done"]["error"] = std::string(outcome.status.message());
  return answer;
}

absl::StatusOr<Json> Adopt(log::Log* log, const Json& json) {
  const AdoptRequest request = AdoptRequestFrom(json);
  MS_ASSIGN_OR_RETURN(const AdoptPlan plan, PlanAdoption(log, request));
  if (json.at("execute").get<bool>()) MS_RETURN_IF_ERROR(ExecuteAdoption(log, request, plan));
  return ToJson(plan);
}

absl::StatusOr<Json> Dispatch(log::Log* log, const std::string& tool, const Json& json) {
  if (tool == kResetTool) return Reset(log, json);
  if (tool == kAdoptTool) return Adopt(log, json);
  if (tool == kLagTool) {
    MS_ASSIGN_OR_RETURN(const LagReport report, ReadLag(log, LagRequestFrom(json)));
    return ToJson(report);
  }
  if (tool == kListDeadLettersTool) {
    MS_ASSIGN_OR_RETURN(const DeadLetterList list, ListDeadLetters(log, DeadLetterRequestFrom(json)));
    return ToJson(list);
  }
  if (tool == kReplayDeadLettersTool) {
    MS_ASSIGN_OR_RETURN(const ReplayReport report,
                        ReplayDeadLetters(log, DeadLetterRequestFrom(json), json.at("execute").get<bool>()));
    return ToJson(report);
  }
  return absl::UnimplementedError(StrCat("there is no tool ", tool));
}

}  // namespace

absl::StatusOr<std::string> RunTool(log::Log* log, const std::string& tool, const std::string& request) {
  try {
    MS_ASSIGN_OR_RETURN(const Json answer, Dispatch(log, tool, Json::parse(request)));
    return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(StrCat("tool ", tool, ": ", error.what()));
  }
}

}  // namespace millstream::cli
