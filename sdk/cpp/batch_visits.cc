// Visits of a batch.
#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sdk/cpp/batch_run.h"

namespace millstream::worker {

absl::StatusOr<const Handler*> BatchRun::HandlerOfVisit() {
  row_value_.reset();
  if (item().key_index < 0) return host_->VisitEndOf(item().visit);
  const auto store = static_cast<int>(welcome().visits[item().visit].store);
  MS_ASSIGN_OR_RETURN(row_value_, Read(store, std::nullopt));
  return row_value_.has_value() ? host_->VisitOf(item().visit) : nullptr;
}

absl::Status BatchRun::StageVisit(std::string_view name, protocol::VisitOp::What what, MaybeView data) {
  MS_RETURN_IF_ERROR(void_);
  const auto& visits = welcome().visits;
  const auto visit =
      std::find_if(visits.begin(), visits.end(), [&](const auto& candidate) { return candidate.name == name; });
  std::string problem;
  if (visit == visits.end()) {
    problem = StrCat("the manifest does not declare it; declared are: ", NamesOf(visits));
  } else if (in_hook_) {
    problem = "hooks start and stop none: they belong to the time of a record";
  } else if (SizeOf(data) > protocol::kMaxVisitData) {
    problem = StrCat("its data has ", SizeOf(data), " bytes, the limit is ", protocol::kMaxVisitData);
  }
  if (!problem.empty()) return FailOutput(absl::InvalidArgumentError(StrCat("visit \"", name, "\": ", problem)));
  protocol::VisitOp& op = visits_.emplace_back();
  op.visit = static_cast<uint32_t>(visit - visits.begin());
  op.what = what;
  if (data.has_value()) op.data = arena_.Copy(*data);
  staged_bytes_ += SizeOf(data) + kEntryBytes;
  return absl::OkStatus();
}

}  // namespace millstream::worker
