#ifndef MILLSTREAM_OPERATOR_MODEL_TESTING_WORKLOAD_H_
#define MILLSTREAM_OPERATOR_MODEL_TESTING_WORKLOAD_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/quantity.h"
#include "operator/model/children.h"
#include "operator/model/json_path.h"
#include "operator/model/next_steps.h"
#include "operator/model/orders.h"
#include "operator/model/pod_template.h"
#include "operator/model/testing/sample.h"

namespace millstream::model {

// A workload as it was seen, in its steady state: every pod up to date and ready for an hour, with its orders, and its
// sidecar heard a second ago. Tests spoil what they are about and ask what is to be done.
struct SeenWorkload {
  static constexpr int64_t kNowSeconds = 1'700'000'000;
  const absl::Time now = absl::FromUnixSeconds(kNowSeconds);

  Processor processor;
  Json set;  // wanted
  Observation observed;
  RollLimits limits;

  // `spec` is more of the spec, as in Sample; as many pods as its replicas.
  explicit SeenWorkload(std::string_view spec, std::string_view worker_image = "registry.example.com/totals:1")
      : processor(Make(spec, worker_image)), set(Set(processor)) {
    SetSeen seen;
    seen.uid = "set-1";
    seen.generation = seen.observed_generation = 3;
    seen.replicas = processor.replicas;
    seen.template_hash = TemplateHash();
    seen.spec = set.at("spec");
    observed.set = seen;
    for (int ordinal = 0; ordinal < processor.replicas; ++ordinal) AddPod(ordinal);
  }

  static Processor Make(std::string_view spec, std::string_view worker_image) {
    absl::StatusOr<Processor> made =
        TryProcessor(StrCat(kMinimal, "  container: {image: \"", worker_image, "\"}\n", spec));
    MS_CHECK_OK(made);
    return *std::move(made);
  }
  static Json Set(const Processor& processor) {
    absl::StatusOr<Json> set = StatefulSetOf(processor, SampleOptions());
    MS_CHECK_OK(set);
    return *std::move(set);
  }

  std::string Annotation(std::string_view name) const {
    return TextAt(set, {"spec", "template", "metadata", "annotations", name});
  }
  std::string TemplateHash() const { return Annotation(kTemplateHashAnnotation); }

  // The user says something else now; pods and StatefulSet are as they were.
  void Edit(std::string_view spec, std::string_view worker_image = "registry.example.com/totals:1") {
    processor = Make(spec, worker_image);
    set = Set(processor);
  }
  // And the StatefulSet's controller has seen it.
  void Settle() {
    observed.set->template_hash = TemplateHash();
    observed.set->spec = set.at("spec");
    observed.set->generation = observed.set->observed_generation = observed.set->generation + 1;
  }

  PodSeen& AddPod(int ordinal) {
    PodSeen pod;
    pod.ordinal = ordinal;
    pod.name = PodNameOf(processor, ordinal);
    pod.uid = StrCat("uid-", ordinal);
    pod.template_hash = TemplateHash();
    pod.spec_hash = Annotation(kSpecHashAnnotation);
    pod.created = now - absl::Hours(1);
    pod.ready = pod.ever_ready = true;
    pod.ready_changed = now - absl::Hours(1);
    pod.orders = OrdersOf(processor, false);
    pod.on_volume = set.at("spec").contains("volumeClaimTemplates");
    SidecarReport report;
    report.heard = now - absl::Seconds(1);
    report.pod_uid = pod.uid;
    report.state = "Running";
    report.workers = 1;
    observed.reports[pod.name] = report;
    observed.pods.push_back(pod);
    std::sort(observed.pods.begin(), observed.pods.end(),
              [](const PodSeen& a, const PodSeen& b) { return a.ordinal < b.ordinal; });
    return Pod(ordinal);
  }
  PodSeen& Pod(int ordinal) {
    for (PodSeen& pod : observed.pods) {
      if (pod.ordinal == ordinal) return pod;
    }
    MS_CHECK(false);
  }
  void RemovePod(int ordinal) {
    std::erase_if(observed.pods, [ordinal](const PodSeen& pod) { return pod.ordinal == ordinal; });
  }
  SidecarReport& Report(int ordinal) { return observed.reports.at(PodNameOf(processor, ordinal)); }
  void Silence(int ordinal) { observed.reports.erase(PodNameOf(processor, ordinal)); }
  void Holds(int ordinal, int task, TaskSeen::State state) {
    TaskSeen seen;
    seen.task = task;
    seen.state = state;
    Report(ordinal).tasks.push_back(seen);
  }
  // One active task on each pod, and its copy on the pod after it.
  void HoldTasks(bool warm_copies) {
    for (int task = 0; task < processor.replicas; ++task) {
      Holds(task, task, TaskSeen::State::kActive);
      if (warm_copies) Holds((task + 1) % processor.replicas, task, TaskSeen::State::kStandby);
    }
  }
  void TellToDrain(int ordinal, absl::Duration ago) {
    Pod(ordinal).orders = OrdersOf(processor, true);
    Pod(ordinal).drain_since = now - ago;
  }
  void NotReady(int ordinal, absl::Duration since, bool ever = true) {
    PodSeen& pod = Pod(ordinal);
    pod.ready = false;
    pod.ever_ready = ever;
    pod.ready_changed = now - since;
  }
  ClaimSeen& AddClaim(int ordinal, std::string size) {
    ClaimSeen claim;
    claim.ordinal = ordinal;
    claim.name = ClaimNameOf(processor, ordinal);
    claim.uid = StrCat("claim-", ordinal);
    claim.asked_text = size;
    claim.asked = claim.granted = spec::ParseQuantity(size).value_or(0);
    observed.claims.push_back(claim);
    return observed.claims.back();
  }

  Decision Next() const { return NextSteps(processor, set, observed, limits, now); }
};

// "evict totals-2", "orders totals-1 drain", ...: steps in one word each, as tests compare them.
inline std::string TextOf(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kSetAnnotations: {
      const std::string orders = TextAt(step.annotations, {kOrdersAnnotation});
      return StrCat("orders ", step.object, SaysDrain(orders) ? " drain" : "");
    }
    case Step::Kind::kDeletePod:
      return StrCat("delete ", step.object);
    case Step::Kind::kEvictPod:
      return StrCat("evict ", step.object);
    case Step::Kind::kGrowClaim:
      return StrCat("grow ", step.object, " ", step.size);
    case Step::Kind::kDeleteClaim:
      return StrCat("delete ", step.object);
    case Step::Kind::kRecreateSet:
      return StrCat("recreate ", step.object);
  }
  return "";
}
inline std::string TextOf(const std::vector<Step>& steps) {
  std::string text;
  for (const Step& step : steps) StrAppend(&text, text.empty() ? "" : ", ", TextOf(step));
  return text;
}

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_TESTING_WORKLOAD_H_
