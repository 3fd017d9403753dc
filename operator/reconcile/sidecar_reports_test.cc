#include "operator/reconcile/sidecar_reports.h"

#include <atomic>
#include <string>

#include "absl/time/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/http/server.h"
#include "gtest/gtest.h"

namespace millstream::reconcile {
namespace {

// One sidecar on a free port of 127.0.0.1; all pods of a test have that address.
class SidecarReportsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    http::ServerOptions options;
    options.address = "127.0.0.1";
    auto server = http::Server::Start(options, [this](http::Request, http::Responder respond) {
      respond({status_,
               "application/json",
               StrCat(R"({"processor":"orders/totals","tasks":[],"version":")", version_.load(), "\"}"),
               {}});
    });
    MS_CHECK_OK(server);
    server_ = *std::move(server);
    reports_ = NewHttpSidecarReports(&clock_, metrics_.get(), server_->port());
  }

  // What the pod's sidecar said, asked until there is a report of that version: a machine under load may answer later
  // than a pass waits.
  model::SidecarReport Await(const std::string& version) {
    for (int i = 0; i < 3000; ++i) {
      const auto said = reports_->Of({pod_}, absl::Seconds(2));
      if (const auto found = said.find("totals-0"); found != said.end() && found->second.version == version) {
        return found->second;
      }
      absl::SleepFor(absl::Milliseconds(10));
    }
    ADD_FAILURE() << "no report of version " << version;
    return {};
  }

  const SidecarReports::Pod pod_{"totals-0", "uid-1", "127.0.0.1"};
  std::atomic<int> version_{1};
  std::atomic<int> status_{200};
  FakeClock clock_;
  std::unique_ptr<MetricsRegistry> metrics_ = NewMetricsRegistry();
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<SidecarReports> reports_;
};

TEST_F(SidecarReportsTest, WhatASidecarSaysIsKeptForAWhile) {
  const model::SidecarReport first = Await("1");
  EXPECT_EQ(first.pod_uid, "uid-1");
  EXPECT_EQ(first.heard, clock_.WallTime());
  version_ = 2;
  EXPECT_EQ(reports_->Of({pod_}, absl::Seconds(2)).at("totals-0").version, "1");
  clock_.Advance(absl::Seconds(3));
  Await("2");
}

TEST_F(SidecarReportsTest, APodWithoutAnAddressIsNotAsked) {
  EXPECT_TRUE(reports_->Of({{"totals-0", "uid-1", ""}}, absl::Seconds(2)).empty());
}

TEST_F(SidecarReportsTest, WhatWasSaidStaysWhenNobodyAnswersAnyMore) {
  const absl::Time heard = Await("1").heard;
  status_ = 503;
  clock_.Advance(absl::Seconds(60));
  const model::SidecarReport old = reports_->Of({pod_}, absl::Seconds(2)).at("totals-0");
  EXPECT_EQ(old.version, "1");
  EXPECT_EQ(old.heard, heard);
}

}  // namespace
}  // namespace millstream::reconcile
