#include "operator/runtime/controller.h"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "operator/kube/api_error.h"
#include "operator/kube/time_limit.h"

namespace millstream::runtime {
namespace {

using ::testing::HasSubstr;

class ControllerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Controller> Make(Reconcile reconcile) {
    ControllerOptions options;
    options.name = "processors";
    return std::make_unique<Controller>(options, std::move(reconcile), &clock_, metrics_.get());
  }
  FakeClock clock_;
  std::unique_ptr<MetricsRegistry> metrics_ = NewMetricsRegistry();
};

TEST_F(ControllerTest, SuccessComesAgainWhenItAsksTo) {
  absl::Duration again = absl::ZeroDuration();
  const auto controller = Make([&](const std::string&, const std::string&) { return Pass{again}; });
  controller->queue().Add("a/b");
  EXPECT_TRUE(controller->ProcessOne());
  EXPECT_FALSE(controller->ProcessOne());
  EXPECT_EQ(controller->queue().delayed(), 0u);
  again = absl::Seconds(30);
  controller->queue().Add("a/b");
  EXPECT_TRUE(controller->ProcessOne());
  EXPECT_EQ(controller->queue().until_next(), absl::Seconds(30));
}

TEST_F(ControllerTest, ErrorsComeAgainLaterAndLater) {
  int passes = 0;
  const auto controller = Make([&](const std::string&, const std::string&) -> absl::StatusOr<Pass> {
    ++passes;
    return absl::UnavailableError("no API server");
  });
  controller->queue().Add("a/b");
  absl::Duration before = absl::ZeroDuration();
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(controller->ProcessOne());
    const absl::Duration delay = controller->queue().until_next();
    EXPECT_GT(delay, before);
    before = delay;
    clock_.Advance(delay);
  }
  EXPECT_EQ(passes, 10);
}

TEST_F(ControllerTest, HopelessErrorsDoNotLoop) {
  const auto controller = Make(
      [](const std::string&, const std::string&) -> absl::StatusOr<Pass> { return absl::InvalidArgumentError("422"); });
  controller->queue().Add("a/b");
  EXPECT_TRUE(controller->ProcessOne());
  EXPECT_EQ(controller->queue().until_next(), absl::Minutes(10));
  // A change brings it back at once.
  controller->queue().Add("a/b");
  EXPECT_TRUE(controller->ProcessOne());
}

TEST_F(ControllerTest, TheServersWishToBeLeftAloneIsGranted) {
  const auto controller = Make([](const std::string&, const std::string&) -> absl::StatusOr<Pass> {
    return kube::ToStatus(kube::ReadApiError(429, "{}", "20"), "apply");
  });
  controller->queue().Add("a/b");
  EXPECT_TRUE(controller->ProcessOne());
  EXPECT_GE(controller->queue().until_next(), absl::Seconds(20));
}

TEST_F(ControllerTest, APassThatThrowsStopsNoOther) {
  std::string seen;
  const auto controller = Make([&](const std::string& key, const std::string&) -> absl::StatusOr<Pass> {
    if (key == "bad") throw std::runtime_error("bug");
    seen += key;
    return Pass();
  });
  controller->queue().Add("bad");
  controller->queue().Add("good");
  EXPECT_TRUE(controller->ProcessOne());
  EXPECT_TRUE(controller->ProcessOne());
  EXPECT_EQ(seen, "good");
  EXPECT_EQ(controller->queue().delayed(), 1u);
}

TEST_F(ControllerTest, APassHasALimitAndIsSeenWhileItTakesLong) {
  absl::Duration left, seen;
  std::unique_ptr<Controller> controller;
  controller = Make([&](const std::string&, const std::string&) -> absl::StatusOr<Pass> {
    left = kube::TimeLimit::Left();
    clock_.Advance(absl::Minutes(7));
    seen = controller->longest_pass();
    EXPECT_LT(kube::TimeLimit::Left(), absl::ZeroDuration());
    return absl::DeadlineExceededError("not begun");
  });
  controller->queue().Add("a/b");
  EXPECT_TRUE(controller->ProcessOne());
  EXPECT_EQ(left, absl::Seconds(90));
  EXPECT_EQ(seen, absl::Minutes(7));
  EXPECT_EQ(controller->longest_pass(), absl::ZeroDuration());
  EXPECT_EQ(kube::TimeLimit::Left(), absl::InfiniteDuration());
  EXPECT_EQ(controller->queue().delayed(), 1u);
}

TEST_F(ControllerTest, CountsAndNamesPasses) {
  std::string first, second;
  const auto controller = Make([&](const std::string& key, const std::string& id) -> absl::StatusOr<Pass> {
    (key == "a" ? first : second) = id;
    if (key == "b") return absl::AbortedError("conflict");
    return Pass();
  });
  controller->queue().Add("a");
  controller->queue().Add("b");
  controller->ProcessOne();
  controller->ProcessOne();
  controller->UpdateGauges();
  EXPECT_NE(first, second);
  const std::string text = metrics_->Expose();
  EXPECT_THAT(text, HasSubstr(R"(millstream_operator_reconcile_total{controller="processors",result="success"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(millstream_operator_reconcile_total{controller="processors",result="conflict"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(millstream_operator_queue_delayed{controller="processors"} 1)"));
}

TEST_F(ControllerTest, ThreadsDoTheWorkUntilStopped) {
  std::atomic<int> passes{0};
  ControllerOptions options;
  options.name = "processors";
  Controller controller(
      options,
      [&](const std::string&, const std::string&) -> absl::StatusOr<Pass> {
        ++passes;
        return Pass();
      },
      &SystemClock(), metrics_.get());
  controller.Start();
  for (int i = 0; i < 100; ++i) controller.queue().Add(StrCat(i));
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (passes < 100 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  controller.Stop();
  EXPECT_EQ(passes, 100);
}

}  // namespace
}  // namespace millstream::runtime
