#include "common/base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millstream {
namespace {

TEST(MetricsRegistry, SameNameAndLabelsIsTheSameMetric) {
  const auto registry = NewMetricsRegistry();
  Counter* records = registry->GetCounter("millstream_records_total", "records", {{"task", "1"}});
  records->Add(2);
  EXPECT_EQ(registry->GetCounter("millstream_records_total", "records", {{"task", "1"}}), records);
  EXPECT_NE(registry->GetCounter("millstream_records_total", "records", {{"task", "2"}}), records);
  EXPECT_THAT(registry->Expose(), testing::HasSubstr("millstream_records_total{task=\"1\"} 2"));
}

TEST(MetricsRegistry, ExposesGaugesAndHistograms) {
  const auto registry = NewMetricsRegistry();
  registry->GetGauge("millstream_lag_records", "lag", {})->Set(7);
  registry->GetHistogram("millstream_commit_seconds", "commit", {}, {0.1, 1})->Observe(0.5);
  const std::string text = registry->Expose();
  EXPECT_THAT(text, testing::HasSubstr("millstream_lag_records 7"));
  EXPECT_THAT(text, testing::HasSubstr("millstream_commit_seconds_bucket{le=\"1\"} 1"));
}

}  // namespace
}  // namespace millstream
