#include "operator/model/autoscale.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/strings.h"
#include "common/spec/duration.h"
#include "operator/model/json_path.h"

namespace millstream::model {
namespace {

constexpr double kNewestCounts = 0.3;       // of an average that follows
constexpr double kUnknownMoveSeconds = 30;  // before one was measured: a pod's start and a rebalance
constexpr double kMaxMoveSeconds = 3600;    // one that never ends is no measure
constexpr double kNever = 1e12;

std::string Seconds(double seconds) {
  if (seconds >= kNever) return "never";
  return seconds < 10 ? StrCat(std::round(seconds * 10) / 10, " s") : StrCat(std::llround(seconds), " s");
}

std::string Rate(double records) { return StrCat(std::llround(records), " records/s"); }

bool Continuous(const LoadSample& a, const LoadSample& b) {
  return a.steady && b.steady && a.replicas == b.replicas && a.replicas > 0 && b.time > a.time &&
         b.records >= a.records && a.lag_records && b.lag_records;
}

// Decides for one sample; the parts of the decision in the order in which they are asked.
class Autoscaler {
 public:
  Autoscaler(const AutoscaleBounds& bounds, int current, absl::Time last_change, const LoadSample& sample,
             AutoscaleMemory* memory)
      : bounds_(bounds), current_(current), last_change_(last_change), now_(sample), memory_(*memory) {}

  AutoscaleDecision Decide() {
    Remember();
    Limit();
    if (current_ < lower_) return Change(lower_, StrCat("minReplicas is ", bounds_.min_replicas, Tasks()));
    if (current_ > upper_) return Change(upper_, StrCat("maxReplicas is ", bounds_.max_replicas, Tasks()));
    if (!now_.steady || now_.replicas != current_) return Keep("pods are starting, moving or restoring tasks");
    lag_ = Lag(now_);
    if (!lag_) return Keep("the lag is not known yet");
    if (*lag_ > Target()) return Behind();
    return InTime();
  }

 private:
  double Target() const { return absl::ToDoubleSeconds(bounds_.target_lag); }
  int Working() const { return memory_.tasks > 0 ? std::min(current_, memory_.tasks) : current_; }
  double MoveSeconds() const { return memory_.move_seconds.value_or(kUnknownMoveSeconds); }
  std::string Tasks() const { return memory_.tasks > 0 ? StrCat(" and there are ", memory_.tasks, " tasks") : ""; }

  void Remember() {
    if (now_.tasks > 0) memory_.tasks = now_.tasks;
    Learn();
    if (memory_.moving_since && now_.steady && now_.replicas == current_) {
      const double took = absl::ToDoubleSeconds(now_.time - *memory_.moving_since);
      if (took <= kMaxMoveSeconds) memory_.move_seconds = took;
      memory_.moving_since.reset();
    }
    memory_.samples.push_back(now_);
    while (memory_.samples.size() > kMaxSamples) memory_.samples.pop_front();
    while (memory_.samples.size() > 2 && now_.time - memory_.samples[1].time >= kInWindow) memory_.samples.pop_front();
  }

  // What a pod does that has enough to do: while the processor is behind.
  void Learn() {
    if (memory_.samples.empty() || !Continuous(memory_.samples.back(), now_)) return;
    const LoadSample& before = memory_.samples.back();
    const std::optional<double> lag = Lag(now_), lag_before = Lag(before);
    if (!lag || !lag_before || std::min(*lag, *lag_before) < Target() / 2) return;
    const double seconds = absl::ToDoubleSeconds(now_.time - before.time);
    const int working = memory_.tasks > 0 ? std::min(now_.replicas, memory_.tasks) : now_.replicas;
    const double rate = static_cast<double>(now_.records - before.records) / seconds / working;
    if (rate <= 0) return;
    memory_.pod_rate = memory_.pod_rate ? *memory_.pod_rate * (1 - kNewestCounts) + rate * kNewestCounts : rate;
  }

  void Limit() {
    upper_ = bounds_.max_replicas;
    if (memory_.tasks > 0) upper_ = std::min(upper_, memory_.tasks);
    lower_ = std::min(bounds_.min_replicas, upper_);
  }

  // As said, or the records over what the pods do.
  std::optional<double> Lag(const LoadSample& sample) const {
    if (sample.lag) return absl::ToDoubleSeconds(*sample.lag);
    if (sample.lag_records == 0) return 0;
    if (!sample.lag_records || !memory_.pod_rate || sample.replicas == 0) return std::nullopt;
    return static_cast<double>(*sample.lag_records) / (*memory_.pod_rate * sample.replicas);
  }

  // Samples of the last `window`, oldest first; empty when they do not reach back so far, or something moved.
  std::vector<const LoadSample*> Within(absl::Duration window) const {
    std::vector<const LoadSample*> samples;
    for (auto sample = memory_.samples.rbegin(); sample != memory_.samples.rend(); ++sample) {
      if (!sample->steady || sample->replicas != now_.replicas) return {};
      samples.push_back(&*sample);
      if (now_.time - sample->time >= window) return {samples.rbegin(), samples.rend()};
    }
    return {};
  }

  // Records a second that arrive; what was processed and what the lag grew by.
  static std::optional<double> Arriving(const std::vector<const LoadSample*>& samples) {
    double records = 0, seconds = 0;
    for (size_t i = 1; i < samples.size(); ++i) {
      const LoadSample &a = *samples[i - 1], &b = *samples[i];
      if (!Continuous(a, b)) continue;
      records += static_cast<double>(b.records - a.records + *b.lag_records - *a.lag_records);
      seconds += absl::ToDoubleSeconds(b.time - a.time);
    }
    if (seconds <= 0) return std::nullopt;
    return std::max(0.0, records / seconds);
  }

  AutoscaleDecision Behind() {
    const std::string behind = StrCat("the lag is ", Seconds(*lag_), ", above the target of ", Seconds(Target()));
    const std::vector<const LoadSample*> window = Within(kOutWindow);
    for (const LoadSample* sample : window) {
      if (Lag(*sample).value_or(0) <= Target()) return Keep(StrCat(behind, ", but not for long"));
    }
    if (window.empty()) return Keep(StrCat(behind, ", but not for long"));
    if (current_ >= upper_) return Keep(StrCat(behind, "; maxReplicas is ", bounds_.max_replicas, Tasks()));
    const double since_change = absl::ToDoubleSeconds(now_.time - last_change_);
    if (since_change < MoveSeconds()) {
      return Keep(StrCat(behind, "; the last change was ", Seconds(since_change), " ago and takes ",
                         Seconds(MoveSeconds()), " to help"));
    }
    const std::optional<double> arriving = Arriving(window);
    if (!arriving || !memory_.pod_rate || *memory_.pod_rate <= 0) {
      return Change(current_ + 1, StrCat(behind, "; what a pod can do is not known yet"));
    }
    return OutByRate(behind, *arriving, *memory_.pod_rate);
  }

  AutoscaleDecision OutByRate(const std::string& behind, double arriving, double pod_rate) {
    const double records = static_cast<double>(now_.lag_records.value_or(0));
    const double excess = std::max(0.0, records - arriving * Target());
    const double gaining = Working() * pod_rate - arriving;
    const double alone = gaining > 0 ? excess / gaining : kNever;
    if (alone <= MoveSeconds()) {
      return Keep(StrCat(behind, ", but is made up in ", Seconds(alone), "; more pods need ", Seconds(MoveSeconds()),
                         " until they help"));
    }
    const double needed = (arriving + excess / absl::ToDoubleSeconds(kCatchUp)) / pod_rate;
    // Growing, however slowly, is a pod too few.
    int wanted = static_cast<int>(std::ceil(std::min(needed, 1e6)));
    wanted = std::clamp(wanted, current_ + 1, std::max(current_ + 1, 2 * current_));
    return Change(std::min(wanted, upper_),
                  StrCat(behind, ": ", Rate(arriving), " arrive and a pod does ", Rate(pod_rate)));
  }

  AutoscaleDecision InTime() {
    const std::string in_time = StrCat("the lag is ", Seconds(*lag_), ", within the target of ", Seconds(Target()));
    if (current_ <= lower_) return Keep(in_time);
    if (now_.time - last_change_ < std::max(kInWindow, absl::Seconds(2 * MoveSeconds()))) {
      return Keep(StrCat(in_time, "; the last change was too lately to take pods away"));
    }
    const std::vector<const LoadSample*> window = Within(kInWindow);
    if (window.empty()) return Keep(in_time);
    for (const LoadSample* sample : window) {
      if (Lag(*sample).value_or(kNever) > Target() / 2) return Keep(in_time);
    }
    const std::optional<double> arriving = Arriving(window);
    if (!arriving) return Keep(in_time);
    if (!memory_.pod_rate) {
      return Change(current_ - 1, StrCat("the lag was below ", Seconds(Target() / 2), " for ",
                                         absl::ToInt64Minutes(kInWindow), " minutes"));
    }
    const double busy = *arriving / (*memory_.pod_rate * (current_ - 1));
    if (busy > kBusy) return Keep(in_time);
    return Change(current_ - 1,
                  StrCat("the lag was below ", Seconds(Target() / 2), " for ", absl::ToInt64Minutes(kInWindow),
                         " minutes, and ", current_ - 1, current_ == 2 ? " pod" : " pods", " would be busy for ",
                         std::llround(busy * 100), " % of the time"));
  }

  AutoscaleDecision Keep(std::string reason) const { return {current_, std::move(reason), false}; }

  AutoscaleDecision Change(int replicas, const std::string& why) {
    memory_.moving_since = now_.time;
    return {replicas, StrCat("from ", current_, " to ", replicas, " pods: ", why), true};
  }

  const AutoscaleBounds& bounds_;
  const int current_;
  const absl::Time last_change_;
  const LoadSample& now_;
  AutoscaleMemory& memory_;
  int lower_ = 1, upper_ = 1;
  std::optional<double> lag_;
};

}  // namespace

std::optional<AutoscaleBounds> AutoscaleBoundsOf(const Processor& processor) {
  const Json* autoscale = Find(processor.spec, {"autoscale"});
  if (autoscale == nullptr || !autoscale->is_object()) return std::nullopt;
  AutoscaleBounds bounds;
  bounds.min_replicas = static_cast<int>(IntAt(*autoscale, {"minReplicas"}, 1));
  bounds.max_replicas = static_cast<int>(IntAt(*autoscale, {"maxReplicas"}, bounds.min_replicas));
  if (const auto lag = spec::ParseDuration(TextAt(*autoscale, {"targetLag"})); lag) bounds.target_lag = *lag;
  return bounds;
}

LoadSample SampleOf(const TaskTotals& totals, int ready_replicas, bool steady, absl::Time now) {
  LoadSample sample;
  sample.time = now;
  sample.replicas = ready_replicas;
  sample.tasks = totals.total;
  sample.steady = steady && totals.restoring == 0;
  sample.lag_records = totals.lag_records;
  sample.lag = totals.lag;
  sample.records = totals.records;
  sample.bytes_left = totals.bytes_left;
  return sample;
}

AutoscaleDecision Autoscale(const AutoscaleBounds& bounds, int current, absl::Time last_change,
                            const LoadSample& sample, AutoscaleMemory* memory) {
  return Autoscaler(bounds, current, last_change, sample, memory).Decide();
}

}  // namespace millstream::model
