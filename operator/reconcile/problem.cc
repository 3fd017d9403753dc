#include "operator/reconcile/problem.h"

#include "common/base/strings.h"
#include "operator/kube/api_error.h"

namespace millstream::reconcile {

Problem ProblemOf(const absl::Status& status, std::string_view what, std::string_view refused) {
  const std::string text(status.message());
  if (absl::IsInvalidArgument(status)) {
    return {std::string(refused), StrCat("the API server refuses ", what, ": ", text), true, status};
  }
  if (absl::IsPermissionDenied(status)) {
    return {"Forbidden", StrCat("the API server forbids ", what, ": ", text), true, status};
  }
  return {"ApiServerError", StrCat(what, ": ", text, "; it is tried again"), false, status};
}

}  // namespace millstream::reconcile
