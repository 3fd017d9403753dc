#include "cli/kubernetes/cluster_state.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "operator/kube/json.h"

namespace millstream::cli {
namespace {

class ClusterState : public ProcessorBackend {
 public:
  explicit ClusterState(std::vector<StateHolder> holders) : holders_(std::move(holders)) {}

  absl::StatusOr<std::vector<StateRow>> GetState(const StateQuery& query) override {
    absl::Status last = Nobody();
    for (const StateHolder& holder : holders_) {
      auto rows = NewHttpState(holder.ask, holder.name)->GetState(query);
      // UNAVAILABLE: the key's task is elsewhere, or not open yet.
      if (rows.ok() || !absl::IsUnavailable(rows.status())) return rows;
      last = rows.status();
    }
    return last;
  }

  absl::StatusOr<std::vector<StateRow>> ScanState(const StateQuery& query) override {
    MS_RETURN_IF_ERROR(EveryTaskIsOpen());
    std::vector<StateRow> all;
    for (const StateHolder& holder : holders_) {
      MS_ASSIGN_OR_RETURN(std::vector<StateRow> rows, NewHttpState(holder.ask, holder.name)->ScanState(query));
      std::move(rows.begin(), rows.end(), std::back_inserter(all));
    }
    std::stable_sort(all.begin(), all.end(), [&query](const StateRow& a, const StateRow& b) {
      return query.reverse ? b.key < a.key : a.key < b.key;
    });
    // A lookup is whole in every pod.
    all.erase(std::unique(all.begin(), all.end(),
                          [](const StateRow& a, const StateRow& b) {
                            const bool same_window = a.window.has_value() == b.window.has_value() &&
                                                     (!a.window || a.window->start_ms == b.window->start_ms);
                            return a.task == b.task && a.key == b.key && same_window;
                          }),
              all.end());
    if (all.size() > query.limit) all.resize(query.limit);
    return all;
  }

  absl::StatusOr<std::vector<TaskRow>> ListTasks(const std::string&) override { return StateOnly(); }
  absl::StatusOr<std::vector<int32_t>> RestartTasks(const std::string&, const std::vector<int32_t>&) override {
    return StateOnly();
  }

 private:
  static absl::Status StateOnly() { return absl::UnimplementedError("only state is read here"); }
  static absl::Status Nobody() {
    return absl::UnavailableError("the processor has no pods; kubectl millstream status tells why");
  }

  // Of a view every task may be somewhere, and lookups are whole everywhere: what is asked for is what is there.
  absl::Status EveryTaskIsOpen() const {
    if (holders_.empty()) return Nobody();
    std::set<int64_t> known, open;
    for (const StateHolder& holder : holders_) {
      const absl::StatusOr<std::string> answer = holder.ask("/v1/tasks");
      if (!answer.ok()) return Annotate(answer.status(), holder.name);
      MS_ASSIGN_OR_RETURN(const kube::Json report, kube::ParseJson(*answer, StrCat("/v1/tasks of ", holder.name)));
      const kube::Json* tasks = kube::Find(report, {"tasks"});
      if (tasks == nullptr || !tasks->is_array()) continue;
      for (const kube::Json& task : *tasks) {
        const int64_t number = kube::IntAt(task, {"task"});
        const std::string state = kube::TextAt(task, {"state"});
        known.insert(number);
        if (state == "active" || state == "stopped") open.insert(number);
      }
    }
    std::string missing;
    for (const int64_t task : known) {
      if (open.count(task) == 0) StrAppend(&missing, missing.empty() ? "" : ", ", task);
    }
    if (missing.empty()) return absl::OkStatus();
    return absl::UnavailableError(StrCat(
        "task ", missing, " is open in no pod now (restoring or moving): ask again; kubectl millstream tasks tells"));
  }

  const std::vector<StateHolder> holders_;
};

}  // namespace

std::unique_ptr<ProcessorBackend> NewClusterState(std::vector<StateHolder> holders) {
  return std::make_unique<ClusterState>(std::move(holders));
}

}  // namespace millstream::cli
