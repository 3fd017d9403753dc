#ifndef MILLSTREAM_OPERATOR_RECONCILE_SIDECAR_REPORTS_H_
#define MILLSTREAM_OPERATOR_RECONCILE_SIDECAR_REPORTS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "operator/model/sidecar_report.h"

namespace millstream::reconcile {

// What the sidecars of pods say of themselves: GET http://POD_IP:7979/v1/tasks (docs/reference/http.md). Thread-safe.
class SidecarReports {
 public:
  struct Pod {
    std::string name, uid, ip;  // an empty address: it has none yet and is not asked
  };
  virtual ~SidecarReports() = default;

  // The last report of each of these pods, by name. Those that were heard longer than `max_age` ago are asked again,
  // and waited for, all of them together, for at most kPatience. Who does not answer is left out, or is there with what
  // it said before (SidecarReport::heard tells when).
  virtual std::map<std::string, model::SidecarReport> Of(const std::vector<Pod>& pods, absl::Duration max_age) = 0;

  static constexpr absl::Duration kPatience = absl::Seconds(2);
};

// The real one: a few threads of its own ask, so that a pod that does not answer costs one pass 2 s, and the next
// ones nothing. Pods that
// nobody asked about for ten minutes are forgotten. `clock` and `metrics` outlive it.
std::unique_ptr<SidecarReports> NewHttpSidecarReports(const Clock* clock, MetricsRegistry* metrics,
                                                      int port = model::kHttpPort);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_SIDECAR_REPORTS_H_
