#include "common/base/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace millstream {
namespace {

class PrometheusCounter : public Counter {
 public:
  explicit PrometheusCounter(prometheus::Counter* counter) : counter_(counter) {}
  void Add(double amount) override { counter_->Increment(amount); }
  double Value() const override { return counter_->Value(); }

 private:
  prometheus::Counter* counter_;
};

class PrometheusGauge : public Gauge {
 public:
  explicit PrometheusGauge(prometheus::Gauge* gauge) : gauge_(gauge) {}
  void Set(double value) override { gauge_->Set(value); }
  double Value() const override { return gauge_->Value(); }

 private:
  prometheus::Gauge* gauge_;
};

class PrometheusHistogram : public Histogram {
 public:
  explicit PrometheusHistogram(prometheus::Histogram* histogram) : histogram_(histogram) {}
  void Observe(double value) override { histogram_->Observe(value); }

 private:
  prometheus::Histogram* histogram_;
};

class PrometheusMetrics : public MetricsRegistry {
 public:
  Counter* GetCounter(const std::string& name, const std::string& help, const MetricLabels& labels) override {
    absl::MutexLock lock(&mutex_);
    auto& slot = counters_[{name, labels}];
    if (slot == nullptr) {
      slot = std::make_unique<PrometheusCounter>(
          &prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(labels));
    }
    return slot.get();
  }

  Gauge* GetGauge(const std::string& name, const std::string& help, const MetricLabels& labels) override {
    absl::MutexLock lock(&mutex_);
    auto& slot = gauges_[{name, labels}];
    if (slot == nullptr) {
      slot = std::make_unique<PrometheusGauge>(
          &prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels));
    }
    return slot.get();
  }

  Histogram* GetHistogram(const std::string& name, const std::string& help, const MetricLabels& labels,
                          const std::vector<double>& bounds) override {
    absl::MutexLock lock(&mutex_);
    auto& slot = histograms_[{name, labels}];
    if (slot == nullptr) {
      slot = std::make_unique<PrometheusHistogram>(
          &prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(labels, bounds));
    }
    return slot.get();
  }

  std::string Expose() const override { return prometheus::TextSerializer().Serialize(registry_.Collect()); }

 private:
  using Key = std::pair<std::string, MetricLabels>;

  mutable absl::Mutex mutex_;
  prometheus::Registry registry_;
  std::map<Key, std::unique_ptr<Counter>> counters_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, std::unique_ptr<Gauge>> gauges_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, std::unique_ptr<Histogram>> histograms_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<MetricsRegistry> NewMetricsRegistry() { return std::make_unique<PrometheusMetrics>(); }

}  // namespace millstream
