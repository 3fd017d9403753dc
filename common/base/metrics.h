#ifndef MILLSTREAM_COMMON_BASE_METRICS_H_
#define MILLSTREAM_COMMON_BASE_METRICS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace millstream {

using MetricLabels = std::map<std::string, std::string>;

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void Add(double amount = 1) = 0;
  virtual double Value() const = 0;
};

class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void Set(double value) = 0;
  virtual double Value() const = 0;
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void Observe(double value) = 0;
};

// The metrics of one process or one test. Thread-safe. Asking twice for the same name and labels gives the same object,
// which lives as long as the registry. Names follow Prometheus: millstream_<what>_<unit>[_total], seconds and bytes.
class MetricsRegistry {
 public:
  virtual ~MetricsRegistry() = default;
  virtual Counter* GetCounter(const std::string& name, const std::string& help, const MetricLabels& labels) = 0;
  virtual Gauge* GetGauge(const std::string& name, const std::string& help, const MetricLabels& labels) = 0;
  // `bounds` are the upper bounds of the buckets, ascending.
  virtual Histogram* GetHistogram(const std::string& name, const std::string& help, const MetricLabels& labels,
                                  const std::vector<double>& bounds) = 0;
  // The Prometheus text exposition format, version 0.0.4.
  virtual std::string Expose() const = 0;
};

std::unique_ptr<MetricsRegistry> NewMetricsRegistry();

}  // namespace millstream

#endif  // MILLSTREAM_COMMON_BASE_METRICS_H_
