#include "sdk/cpp/program.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sdk/cpp/batch_run.h"
#include "sdk/cpp/row_key.h"

namespace millstream::worker {
namespace {

absl::Status CheckStores(const Program& program, const protocol::Welcome& welcome) {
  for (const protocol::StoreInfo& store : welcome.stores) {
    if (store.type != "KeyValue" && store.type != "Window" && store.type != "Session") {
      return absl::FailedPreconditionError(
          StrCat("store \"", store.name, "\" has type ", store.type, ": not supported yet by the C++ SDK"));
    }
    if (IsFinal(store) && !program.closings.contains(store.name)) {
      return absl::FailedPreconditionError(
          StrCat("store \"", store.name,
                 "\" has emit: Final in the manifest, and the program has no handler for what closes; add OnClose(\"",
                 store.name, "\", ...)"));
    }
  }
  return absl::OkStatus();
}

template <typename Map, typename Fits>
absl::Status CheckNames(const Map& named, const protocol::Welcome& welcome, std::string_view what,
                        std::string_view which, const Fits& fits) {
  for (const auto& [name, handler] : named) {
    std::string names;
    bool found = false;
    for (const protocol::StoreInfo& store : welcome.stores) {
      if (!fits(store)) continue;
      found = found || store.name == name;
      StrAppend(&names, names.empty() ? "" : ", ", store.name);
    }
    if (!found) {
      return absl::FailedPreconditionError(StrCat("the program ", what, " of \"", name, "\"; stores ", which,
                                                  " in the manifest: ", names.empty() ? "none" : names));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckVisits(const Program& program, const protocol::Welcome& welcome) {
  for (const protocol::Welcome::Visit& visit : welcome.visits) {
    if (visit.store >= welcome.stores.size()) {
      return absl::FailedPreconditionError(StrCat("visit \"", visit.name, "\" is of store ", visit.store,
                                                  ", there are ", welcome.stores.size(), "; use a later C++ SDK"));
    }
    if (!program.visits.contains(visit.name)) {
      return absl::FailedPreconditionError(StrCat("the manifest declares visit \"", visit.name,
                                                  "\", for which the program has no handler; add OnVisit(\"",
                                                  visit.name, "\", ...)"));
    }
  }
  for (const HandlerMap* handlers : {&program.visits, &program.visit_ends}) {
    for (const auto& [name, handler] : *handlers) {
      const bool found = std::any_of(welcome.visits.begin(), welcome.visits.end(),
                                     [&name = name](const auto& visit) { return visit.name == name; });
      if (found) continue;
      return absl::FailedPreconditionError(StrCat("the program handles visit \"", name,
                                                  "\", which the manifest does not declare; add {name: ", name,
                                                  ", store: ...} to spec.visits. Visits: ", NamesOf(welcome.visits)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> Program::Capabilities() const {
  std::vector<std::string> wanted;
  if (begin) wanted.emplace_back(protocol::kBeginCapability);
  if (finalize) wanted.emplace_back(protocol::kFinalizeCapability);
  if (committed) wanted.emplace_back(protocol::kCommittedCapability);
  if (!visits.empty()) wanted.emplace_back(protocol::kVisitsCapability);
  if (!closings.empty()) wanted.emplace_back(protocol::kSessionClosingsCapability);
  return wanted;
}

absl::Status CheckFits(const Program& program, const protocol::Welcome& welcome) {
  MS_RETURN_IF_ERROR(CheckStores(program, welcome));
  MS_RETURN_IF_ERROR(CheckVisits(program, welcome));
  if (!program.timers.empty() && !welcome.timers) {
    return absl::FailedPreconditionError(StrCat("the program handles timers (\"", program.timers.begin()->first,
                                                "\"), and the manifest has none; add timers: {} under spec"));
  }
  MS_RETURN_IF_ERROR(
      CheckNames(program.closings, welcome, "handles closing windows or sessions", "with emit: Final", IsFinal));
  return CheckNames(program.merges, welcome, "merges sessions", "of type Session",
                    [](const protocol::StoreInfo& store) { return store.type == "Session"; });
}

}  // namespace millstream::worker
