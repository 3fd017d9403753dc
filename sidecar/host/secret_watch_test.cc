#include "sidecar/host/secret_watch.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/host/cluster_access.h"

namespace millstream::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A folder as the kubelet keeps it: NAME is a link into ..data, and ..data one to a folder that is never changed.
class SecretWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/rotated-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    kafka_.bootstrap_servers = "kafka:9092";
    kafka_.sasl.emplace();
    kafka_.sasl->username = "me";
    kafka_.sasl->password = {"user", "password"};
    Mount("first");
    const absl::StatusOr<kafka::ClusterAccess> access = Read();
    ASSERT_TRUE(access.ok()) << access.status();
    live_ = std::make_shared<kafka::LiveAccess>(*access);
    watch_ = NewWatch({});
  }
  void TearDown() override {
    watch_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<SecretWatch> NewWatch(const SecretWatchOptions& options) {
    return std::make_unique<SecretWatch>(
        options, live_, [this] { return Read(); },
        [this](const kafka::ClusterAccess& access) {
          tried_.push_back(access.sasl->password);
          return broker_;
        },
        &clock_, metrics_.get());
  }
  absl::StatusOr<kafka::ClusterAccess> Read() { return ResolveClusterAccess(kafka_, {"", folder_}); }
  void Mount(const std::string& password) {
    namespace fs = std::filesystem;
    const fs::path root(folder_), version = StrCat("..", ++versions_);
    fs::create_directories(root / version / "user");
    std::ofstream(root / version / "user" / "password", std::ios::binary) << password;
    fs::create_symlink(version, root / "..data_tmp");
    fs::rename(root / "..data_tmp", root / "..data");
    if (versions_ == 1) fs::create_symlink("..data/user", root / "user");
  }
  void Look(int times) {
    for (int i = 0; i < times; ++i) {
      watch_->Look();
      clock_.Advance(absl::Seconds(5));
    }
  }
  std::string InForce() const { return live_->Now()->access.sasl->password; }
  std::string Reason() const {
    const std::vector<Condition> conditions = watch_->Conditions();
    return conditions.empty() ? "" : conditions.front().reason;
  }
  double Waiting() { return metrics_->GetGauge("millstream_secrets_waiting", "", {})->Value(); }
  double Taken() { return metrics_->GetCounter("millstream_secrets_taken_total", "", {})->Value(); }

  std::string folder_;
  int versions_ = 0;
  spec::KafkaSpec kafka_;
  FakeClock clock_;
  const std::unique_ptr<MetricsRegistry> metrics_ = NewMetricsRegistry();
  std::shared_ptr<kafka::LiveAccess> live_;
  absl::Status broker_;  // what it says to whoever tries
  std::vector<std::string> tried_;
  std::unique_ptr<SecretWatch> watch_;
};

TEST_F(SecretWatchTest, WhatDoesNotChangeIsNotTried) {
  Mount("first");  // another folder with the same in it
  Look(5);
  EXPECT_THAT(tried_, IsEmpty());
  EXPECT_EQ(live_->version(), 1u);
  EXPECT_THAT(watch_->Conditions(), IsEmpty());
}

TEST_F(SecretWatchTest, ARotatedSecretIsTriedAndThenInForce) {
  Mount("second");
  Look(1);
  EXPECT_EQ(InForce(), "first");  // it might be half of what comes
  Look(1);
  EXPECT_EQ(InForce(), "second");
  EXPECT_EQ(live_->version(), 2u);
  Look(3);
  EXPECT_THAT(tried_, ElementsAre("second"));
  EXPECT_EQ(live_->version(), 2u);
  EXPECT_EQ(Taken(), 1);
  EXPECT_EQ(Waiting(), 0);
}

TEST_F(SecretWatchTest, WhatChangesBetweenTwoLooksIsNotTried) {
  for (const char* password : {"second", "third", "fourth"}) {
    Mount(password);
    Look(1);
  }
  EXPECT_THAT(tried_, IsEmpty());
  Look(1);
  EXPECT_THAT(tried_, ElementsAre("fourth"));
  EXPECT_EQ(InForce(), "fourth");
}

TEST_F(SecretWatchTest, WhatBrokersRefuseKeepsTheOneBeforeUntilTheyTakeIt) {
  broker_ = absl::UnauthenticatedError("kafka:9092: SASL SCRAM-SHA-512 (Authentication failed)");
  Mount("second");
  Look(2);
  ASSERT_EQ(Reason(), "SecretRefused");
  EXPECT_THAT(watch_->Conditions().front().message, HasSubstr("Authentication failed"));
  EXPECT_EQ(InForce(), "first");
  EXPECT_EQ(Waiting(), 1);
  broker_ = absl::OkStatus();
  Look(13);  // 65 s: longer than the longest pause
  EXPECT_EQ(InForce(), "second");
  EXPECT_EQ(Reason(), "");
  EXPECT_EQ(Waiting(), 0);
}

TEST_F(SecretWatchTest, ARefusedSecretIsTriedLessAndLessOften) {
  broker_ = absl::UnauthenticatedError("no");
  Mount("second");
  Look(2 + 12 * 10);  // ten minutes
  EXPECT_GE(tried_.size(), 10u);
  EXPECT_LE(tried_.size(), 15u);
  // Another one is not made to wait for it.
  broker_ = absl::OkStatus();
  Mount("third");
  Look(2);
  EXPECT_EQ(InForce(), "third");
}

TEST_F(SecretWatchTest, TheOneBeforeMayComeBack) {
  broker_ = absl::UnauthenticatedError("no");
  Mount("second");
  Look(2);
  EXPECT_EQ(Reason(), "SecretRefused");
  Mount("first");
  Look(1);
  EXPECT_EQ(Reason(), "");
  EXPECT_EQ(live_->version(), 1u);
}

TEST_F(SecretWatchTest, AFileThatCannotBeReadIsNamed) {
  Mount("");
  Look(1);
  EXPECT_EQ(Reason(), "");  // it might be written just now
  Look(1);
  ASSERT_EQ(Reason(), "SecretUnreadable");
  const std::string message = watch_->Conditions().front().message;
  EXPECT_THAT(message, HasSubstr("kafka.sasl.passwordSecretRef: Secret user, key password"));
  EXPECT_THAT(message, HasSubstr(folder_ + "/user/password is empty"));
  EXPECT_EQ(InForce(), "first");
  EXPECT_THAT(tried_, IsEmpty());
  Mount("second");
  Look(2);
  EXPECT_EQ(Reason(), "");
  EXPECT_EQ(InForce(), "second");
}

TEST_F(SecretWatchTest, ACertificateThatCannotBeUsedIsNoMatterOfTheBrokers) {
  broker_ = absl::InvalidArgumentError("Kafka admin: ssl.key.pem: key values mismatch");
  Mount("second");
  Look(2);
  ASSERT_EQ(Reason(), "SecretUnreadable");
  EXPECT_THAT(watch_->Conditions().front().message, HasSubstr("key values mismatch"));
}

TEST_F(SecretWatchTest, ItLooksByItself) {
  watch_ = NewWatch({.interval = absl::Milliseconds(1), .first_retry = {}, .longest_retry = {}});
  Mount("second");
  watch_->Start();
  const absl::Duration deadline = SystemClock().Monotonic() + absl::Seconds(30);
  while (InForce() != "second" && SystemClock().Monotonic() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(InForce(), "second");
  watch_->Stop();
  EXPECT_THAT(tried_, ElementsAre("second"));
}

}  // namespace
}  // namespace millstream::host
