#include "sidecar/host/status_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace millstream::host {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(StatusMetricsTest, AConditionIsOneWhileItHoldsAndZeroAfterwards) {
  const std::unique_ptr<MetricsRegistry> registry = NewMetricsRegistry();
  StatusMetrics metrics(registry.get(), "totals");
  EXPECT_THAT(registry->Expose(), Not(HasSubstr("millstream_condition")));
  metrics.Update(2, 1, 1, {{"TaskStopped", "task 1: ..."}, {"TaskStopped", "task 3: ..."}, {"Paused", "by hand"}});
  std::string text = registry->Expose();
  EXPECT_THAT(text, HasSubstr("millstream_tasks{processor=\"totals\",state=\"running\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("millstream_tasks{processor=\"totals\",state=\"restoring\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("millstream_tasks{processor=\"totals\",state=\"stopped\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("millstream_condition{processor=\"totals\",reason=\"TaskStopped\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("millstream_condition{processor=\"totals\",reason=\"Paused\"} 1\n"));
  metrics.Update(4, 0, 0, {{"Paused", "by hand"}});
  text = registry->Expose();
  EXPECT_THAT(text, HasSubstr("millstream_tasks{processor=\"totals\",state=\"stopped\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("millstream_condition{processor=\"totals\",reason=\"TaskStopped\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("millstream_condition{processor=\"totals\",reason=\"Paused\"} 1\n"));
}

}  // namespace
}  // namespace millstream::host
