// The API server of simulations does what the client relies on.
#include "operator/kube/testing/fake_api_server.h"

#include <string>
#include <vector>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "operator/kube/api_error.h"
#include "operator/kube/client.h"

namespace millstream::kube {
namespace {

using ::testing::ElementsAre;

Json Map(const std::string& name, const std::string& value) {
  Json object = {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", name}, {"namespace", "s"}}}};
  object["data"] = Json::object();
  object["data"]["k"] = value;
  return object;
}

class FakeApiServerTest : public ::testing::Test {
 protected:
  FakeApiServer server_;
  Client client_{server_.Connect(), ClientOptions()};
};

TEST_F(FakeApiServerTest, ApplyMakesChangesAndCostsNothingWhenNothingChanges) {
  const auto made = client_.Apply(kConfigMaps, Map("a", "1"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(IntAt(*made, {"metadata", "generation"}), 1);
  const auto same = client_.Apply(kConfigMaps, Map("a", "1"));
  EXPECT_EQ(ResourceVersionOf(*same), ResourceVersionOf(*made));
  const auto changed = client_.Apply(kConfigMaps, Map("a", "2"));
  EXPECT_EQ(IntAt(*changed, {"metadata", "generation"}), 2);
  EXPECT_EQ(UidOf(*changed), UidOf(*made));
  EXPECT_EQ(server_.writes().at("apply v1/configmaps"), 2);
}

TEST_F(FakeApiServerTest, ApplyDropsWhatIsNoLongerApplied) {
  Json object = Map("a", "1");
  object["data"]["gone"] = "x";
  ASSERT_TRUE(client_.Apply(kConfigMaps, object).ok());
  server_.Edit(kConfigMaps, {"s", "a"}, [](Json* stored) { (*stored)["data"]["foreign"] = "y"; });
  ASSERT_TRUE(client_.Apply(kConfigMaps, Map("a", "1")).ok());
  EXPECT_EQ(server_.Read(kConfigMaps, {"s", "a"}).at("data"), Json::parse(R"({"k":"1","foreign":"y"})"));
}

TEST_F(FakeApiServerTest, ReplaceKnowsVersions) {
  const auto made = client_.Create(kConfigMaps, Map("a", "1"));
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(absl::IsAlreadyExists(client_.Create(kConfigMaps, Map("a", "1")).status()));
  Json next = *made;
  next["data"]["k"] = "2";
  ASSERT_TRUE(client_.Replace(kConfigMaps, next).ok());
  next["data"]["k"] = "3";
  EXPECT_TRUE(absl::IsAborted(client_.Replace(kConfigMaps, next).status()));
}

TEST_F(FakeApiServerTest, StatusAndSpecAreWrittenApart) {
  const auto made = client_.Apply(kConfigMaps, Map("a", "1"));
  Json with_status = *made;
  with_status["data"]["k"] = "ignored";
  with_status["status"] = Json{{"phase", "x"}};
  const auto written = client_.ReplaceStatus(kConfigMaps, with_status);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(TextAt(*written, {"data", "k"}), "1");
  EXPECT_EQ(IntAt(*written, {"metadata", "generation"}), 1);
}

TEST_F(FakeApiServerTest, DeletesByUidAndCollectsWhatWasOwned) {
  const auto owner = client_.Apply(kConfigMaps, Map("owner", "1"));
  Json child = Map("child", "1");
  const Json reference = {{"uid", UidOf(*owner)}, {"controller", true}};
  child["metadata"]["ownerReferences"] = Json::array({reference});
  ASSERT_TRUE(client_.Apply(kConfigMaps, child).ok());
  EXPECT_EQ(server_.CollectGarbage(), 0);
  DeleteOptions options;
  options.uid = "another";
  EXPECT_TRUE(absl::IsAborted(client_.Delete(kConfigMaps, {"s", "owner"}, options)));
  options.uid = UidOf(*owner);
  EXPECT_TRUE(client_.Delete(kConfigMaps, {"s", "owner"}, options).ok());
  EXPECT_TRUE(client_.Delete(kConfigMaps, {"s", "owner"}, options).ok());
  EXPECT_EQ(server_.CollectGarbage(), 1);
  EXPECT_TRUE(server_.All(kConfigMaps).empty());
}

TEST_F(FakeApiServerTest, AFinalizerHoldsAnObject) {
  Json object = Map("a", "1");
  object["metadata"]["finalizers"] = Json::array({"millstream.dev/topics"});
  ASSERT_TRUE(client_.Apply(kConfigMaps, object).ok());
  ASSERT_TRUE(client_.Delete(kConfigMaps, {"s", "a"}, {}).ok());
  EXPECT_NE(TextAt(server_.Read(kConfigMaps, {"s", "a"}), {"metadata", "deletionTimestamp"}), "");
  const Json without = Json::parse(R"({"metadata":{"finalizers":[]}})");
  ASSERT_TRUE(client_.Patch(kConfigMaps, {"s", "a"}, without).ok());
  EXPECT_TRUE(server_.Read(kConfigMaps, {"s", "a"}).is_null());
}

TEST_F(FakeApiServerTest, ListsByPagesAndWatches) {
  for (int i = 0; i < Client::kPageSize + 20; ++i) {
    ASSERT_TRUE(client_.Create(kConfigMaps, Map(StrCat("m", i), "1")).ok());
  }
  const auto list = client_.List(kConfigMaps, {});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->items.size(), static_cast<size_t>(Client::kPageSize + 20));
  ASSERT_TRUE(client_.Apply(kConfigMaps, Map("m1", "2")).ok());
  ASSERT_TRUE(client_.Delete(kConfigMaps, {"s", "m2"}, {}).ok());
  std::vector<std::string> seen;
  WatchOptions options;
  options.resource_version = list->resource_version;
  const auto sink = [&seen](WatchEvent event) {
    seen.push_back(StrCat(static_cast<int>(event.type), KeyOf(event.object).name));
    return absl::OkStatus();
  };
  EXPECT_TRUE(client_.Watch(kConfigMaps, {}, options, http::Interruption(), sink).ok());
  EXPECT_THAT(seen, ElementsAre("1m1", "2m2", "3"));
  server_.ForgetHistory();
  EXPECT_TRUE(IsExpired(client_.Watch(kConfigMaps, {}, options, http::Interruption(), sink)));
}

TEST_F(FakeApiServerTest, Faults) {
  FakeApiServer::Fault fault;
  fault.kind = FakeApiServer::Fault::Kind::kLostAnswer;
  Client broken(server_.Connect([&](const HttpCall&) { return fault; }), ClientOptions());
  EXPECT_TRUE(absl::IsUnavailable(broken.Apply(kConfigMaps, Map("a", "1")).status()));
  EXPECT_FALSE(server_.Read(kConfigMaps, {"s", "a"}).is_null());  // carried out all the same
  fault.kind = FakeApiServer::Fault::Kind::kNoConnection;
  EXPECT_TRUE(absl::IsUnavailable(broken.Apply(kConfigMaps, Map("b", "1")).status()));
  EXPECT_TRUE(server_.Read(kConfigMaps, {"s", "b"}).is_null());
  fault.kind = FakeApiServer::Fault::Kind::kRefuse;
  fault.status = 429;
  EXPECT_TRUE(absl::IsResourceExhausted(broken.Apply(kConfigMaps, Map("b", "1")).status()));
}

}  // namespace
}  // namespace millstream::kube
