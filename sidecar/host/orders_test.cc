#include "sidecar/host/orders.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::host {
namespace {

using ::testing::HasSubstr;

TEST(OrdersTest, WhatTheOperatorWritesIsRead) {
  const auto orders = ParseOrders(R"({"drain":true,"standbyReplicas":2,"state":"Paused"})");
  ASSERT_TRUE(orders.ok()) << orders.status();
  EXPECT_EQ(*orders, (Orders{.drain = true, .standby_replicas = 2, .state = spec::DesiredState::kPaused}));
  EXPECT_EQ(ToJson(*orders), R"({"drain":true,"standbyReplicas":2,"state":"Paused"})");
}

TEST(OrdersTest, WhatIsNotSaidIsAsTheManifestSaysAndWhatIsNewerIsIgnored) {
  const auto orders = ParseOrders(R"({"of a later release":[1]})");
  ASSERT_TRUE(orders.ok()) << orders.status();
  EXPECT_EQ(*orders, Orders());
  EXPECT_EQ(ToJson(*orders), R"({"drain":false})");
}

TEST(OrdersTest, ErrorsNameTheFieldAndWhatWasExpected) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"drain":"yes"})", R"(drain is "yes", expected true or false)"},
      {R"({"standbyReplicas":-1})", "standbyReplicas is -1, expected a number from 0"},
      {R"({"standbyReplicas":1.5})", "standbyReplicas is 1.5"},
      {R"({"state":"Stopped"})", R"(state is "Stopped", expected "Running" or "Paused")"},
      {"[]", "not a JSON object"},
      {"{\"drain\":tru", "not a JSON object"},
      {"\xff\xfe", "not a JSON object"}};
  for (const auto& [text, message] : cases) {
    const auto orders = ParseOrders(text);
    ASSERT_FALSE(orders.ok()) << text;
    EXPECT_THAT(std::string(orders.status().message()), HasSubstr(message));
  }
}

// The file as the kubelet projects it: orders -> ..data/orders, ..data -> a folder with a time in its name.
class OrdersFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/ms-orders-XXXXXX";
    root_ = mkdtemp(pattern.data());
    std::filesystem::create_symlink("..data/orders", root_ + "/orders");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Project(const std::string& content) {
    const std::string folder = StrCat("..2026_", ++projections_);
    std::filesystem::create_directory(root_ + "/" + folder);
    std::ofstream(root_ + "/" + folder + "/orders") << content;
    std::filesystem::create_symlink(folder, root_ + "/..data_tmp");
    std::filesystem::rename(root_ + "/..data_tmp", root_ + "/..data");
    if (!last_.empty()) std::filesystem::remove_all(root_ + "/" + last_);
    last_ = folder;
  }

  std::string root_, last_;
  int projections_ = 0;
};

TEST_F(OrdersFileTest, FollowsTheFolderThatIsReplaced) {
  OrdersFile file(root_ + "/orders");
  EXPECT_FALSE(file.Look());  // not there yet
  EXPECT_FALSE(file.orders().has_value());
  Project("");  // the pod has no such annotation
  EXPECT_FALSE(file.Look());
  Project(R"({"drain":true})");
  EXPECT_TRUE(file.Look());
  EXPECT_EQ(file.orders(), Orders{.drain = true});
  EXPECT_FALSE(file.Look());
  Project(R"({"drain" : true})");
  EXPECT_FALSE(file.Look());  // says the same
  Project(R"({"drain":false})");
  EXPECT_TRUE(file.Look());
  EXPECT_EQ(file.orders(), Orders());
  Project("\n");
  EXPECT_TRUE(file.Look());
  EXPECT_FALSE(file.orders().has_value());
}

TEST_F(OrdersFileTest, WhatCannotBeUnderstoodKeepsTheLastGoodOrdersAndSaysSoOnce) {
  OrdersFile file(root_ + "/orders");
  Project(R"({"drain":true})");
  EXPECT_TRUE(file.Look());
  Project(R"({"drain":1})");
  EXPECT_TRUE(file.Look());
  EXPECT_EQ(file.orders(), Orders{.drain = true});
  EXPECT_THAT(std::string(file.problem().message()), HasSubstr(root_ + "/orders: drain is 1, expected true or false"));
  EXPECT_FALSE(file.Look());
  Project(std::string(20'000, ' '));
  EXPECT_TRUE(file.Look());
  EXPECT_THAT(std::string(file.problem().message()), HasSubstr("more than 16384 bytes"));
  EXPECT_FALSE(file.Look());
  EXPECT_EQ(file.orders(), Orders{.drain = true});
  Project(R"({"drain":true})");
  EXPECT_TRUE(file.Look());
  EXPECT_TRUE(file.problem().ok());
}

TEST_F(OrdersFileTest, AFolderInItsPlaceIsAProblemAndNotTheEnd) {
  OrdersFile file(root_);
  EXPECT_TRUE(file.Look());
  EXPECT_FALSE(file.problem().ok());
  EXPECT_FALSE(file.orders().has_value());
}

}  // namespace
}  // namespace millstream::host
