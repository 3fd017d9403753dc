// The client's calls as they leave it, against a scripted transport.
#include "operator/kube/client.h"

#include <vector>

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "operator/kube/api_error.h"
#include "operator/kube/event_recorder.h"
#include "operator/kube/lease.h"
#include "operator/kube/testing/scripted_transport.h"
#include "operator/kube/time_limit.h"

namespace millstream::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() : ClientTest(ClientOptions()) {}
  explicit ClientTest(ClientOptions options) {
    auto transport = std::make_unique<ScriptedTransport>();
    transport_ = transport.get();
    options.write_allowance = [this] { return allowance_; };
    client_ = std::make_unique<Client>(std::move(transport), std::move(options));
  }

  ScriptedTransport* transport_;
  absl::Duration allowance_ = absl::InfiniteDuration();
  std::unique_ptr<Client> client_;
};

TEST_F(ClientTest, ListsPageByPage) {
  transport_->Answer(200,
                     R"({"metadata":{"resourceVersion":"7","continue":"c/1"},"items":[{"metadata":{"name":"a"}}]})");
  transport_->Answer(200, R"({"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"b"}}]})");
  const auto list = client_->List(kStatefulSets, {"orders", "app=x", ""});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->resource_version, "7");
  ASSERT_EQ(list->items.size(), 2u);
  EXPECT_TRUE(IsOfKind(list->items[1], kStatefulSets));
  EXPECT_EQ(KeyOf(list->items[1]).name, "b");
  EXPECT_EQ(transport_->calls()[0].target,
            "/apis/apps/v1/namespaces/orders/statefulsets?limit=500&labelSelector=app%3Dx");
  EXPECT_EQ(transport_->calls()[1].target,
            "/apis/apps/v1/namespaces/orders/statefulsets?limit=500&continue=c%2F1&labelSelector=app%3Dx");
}

TEST_F(ClientTest, AnExpiredContinueTokenSaysSo) {
  transport_->Answer(200, R"({"metadata":{"resourceVersion":"7","continue":"c"},"items":null})");
  transport_->Answer(410, R"({"kind":"Status","reason":"Expired","code":410})");
  EXPECT_TRUE(IsExpired(client_->List(kPods, {}).status()));
}

TEST_F(ClientTest, AnAnswerThatIsNoListIsNotTakenForAnEmptyOne) {
  transport_->Answer(200, "{}");
  EXPECT_TRUE(absl::IsUnavailable(client_->List(kPods, {}).status()));
  transport_->Answer(200, "<html>login</html>");
  EXPECT_TRUE(absl::IsUnavailable(client_->List(kPods, {}).status()));
}

TEST_F(ClientTest, WatchesFromAVersion) {
  transport_->Pieces({R"({"type":"ADDED","object":{"metadata":{"na)", "me\":\"a\",\"resourceVersion\":\"8\"}}}\n"});
  std::vector<std::string> seen;
  WatchOptions options;
  options.resource_version = "7";
  const absl::Status status = client_->Watch(kPods, {}, options, http::Interruption(), [&](WatchEvent event) {
    seen.push_back(event.resource_version);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(seen, ElementsAre("8"));
  EXPECT_EQ(transport_->last_call().target,
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=300");
  EXPECT_GT(transport_->last_call().deadline, options.timeout);
}

TEST_F(ClientTest, AWatchThatIsRefusedOrCut) {
  transport_->Answer(410, R"({"kind":"Status","reason":"Gone","code":410})");
  const auto sink = [](WatchEvent) { return absl::OkStatus(); };
  EXPECT_TRUE(IsExpired(client_->Watch(kPods, {}, {}, http::Interruption(), sink)));
  transport_->Pieces({"{\"type\":"});
  EXPECT_TRUE(absl::IsDataLoss(client_->Watch(kPods, {}, {}, http::Interruption(), sink)));
}

TEST_F(ClientTest, AppliesAsItsManager) {
  transport_->Answer(200, R"({"metadata":{"name":"b","namespace":"a","resourceVersion":"9"}})");
  const Json object = {{"apiVersion", "v1"}, {"kind", "Service"}, {"metadata", {{"name", "b"}, {"namespace", "a"}}}};
  const auto applied = client_->Apply(kServices, object);
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_EQ(ResourceVersionOf(*applied), "9");
  const HttpCall call = transport_->last_call();
  EXPECT_EQ(call.method, "PATCH");
  EXPECT_EQ(call.target, "/api/v1/namespaces/a/services/b?fieldManager=millstream-operator&force=true");
  EXPECT_EQ(call.content_type, "application/apply-patch+yaml");
  EXPECT_EQ(Json::parse(call.body), object);
  EXPECT_TRUE(call.repeatable);
}

TEST_F(ClientTest, DeletesOnlyTheUidItMeans) {
  transport_->Answer(200, R"({"kind":"Status","status":"Success"})");
  DeleteOptions options;
  options.uid = "u1";
  options.dependents = DeleteOptions::Dependents::kOrphan;
  EXPECT_TRUE(client_->Delete(kStatefulSets, {"a", "b"}, options).ok());
  const Json body = Json::parse(transport_->last_call().body);
  EXPECT_EQ(TextAt(body, {"preconditions", "uid"}), "u1");
  EXPECT_EQ(TextAt(body, {"propagationPolicy"}), "Orphan");
  transport_->Answer(404, R"({"kind":"Status","reason":"NotFound","code":404})");
  EXPECT_TRUE(client_->Delete(kStatefulSets, {"a", "b"}, options).ok());
  transport_->Answer(409, R"({"kind":"Status","reason":"Conflict","code":409})");
  EXPECT_TRUE(absl::IsAborted(client_->Delete(kStatefulSets, {"a", "b"}, options)));
}

TEST_F(ClientTest, EvictsThroughTheEvictionApi) {
  transport_->Answer(429, R"({"kind":"Status","reason":"TooManyRequests","code":429})", "10");
  const absl::Status status = client_->Evict({"a", "p-0"}, "u");
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(RetryAfterOf(status), absl::Seconds(10));
  EXPECT_EQ(transport_->last_call().target, "/api/v1/namespaces/a/pods/p-0/eviction");
}

TEST_F(ClientTest, WritesNothingWithoutAllowance) {
  allowance_ = absl::ZeroDuration();
  const Json object = {{"metadata", {{"name", "b"}, {"namespace", "a"}}}, {"kind", "Pod"}};
  EXPECT_TRUE(absl::IsFailedPrecondition(client_->Apply(kPods, object).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(client_->Create(kPods, object).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(client_->Replace(kPods, object).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(client_->ReplaceStatus(kPods, object).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(client_->Patch(kPods, {"a", "b"}, object).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(client_->Delete(kPods, {"a", "b"}, {})));
  EXPECT_TRUE(absl::IsFailedPrecondition(client_->Evict({"a", "b"}, "")));
  EXPECT_TRUE(transport_->calls().empty());
  allowance_ = absl::Seconds(3);
  transport_->Answer(200, "{}");
  EXPECT_TRUE(client_->Apply(kPods, object).ok());
  EXPECT_EQ(transport_->last_call().deadline, absl::Seconds(3));
}

TEST_F(ClientTest, AllCallsOfAPieceOfWorkEndByItsLimit) {
  FakeClock clock;
  {
    const TimeLimit limit(&clock, absl::Seconds(40));
    transport_->Answer(200, "{}");
    EXPECT_TRUE(client_->Get(kPods, {"a", "b"}).ok());
    EXPECT_EQ(transport_->last_call().deadline, absl::Seconds(30));
    clock.Advance(absl::Seconds(35));
    transport_->Answer(200, "{}");
    EXPECT_TRUE(client_->Delete(kPods, {"a", "b"}, {}).ok());
    EXPECT_EQ(transport_->last_call().deadline, absl::Seconds(5));
    clock.Advance(absl::Seconds(5));
    const size_t calls = transport_->calls().size();
    const absl::Status late = client_->Get(kPods, {"a", "b"}).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(late));
    EXPECT_THAT(std::string(late.message()), HasSubstr("get pods a/b: not begun"));
    EXPECT_EQ(transport_->calls().size(), calls);
  }
  transport_->Answer(200, "{}");
  EXPECT_TRUE(client_->Get(kPods, {"a", "b"}).ok());
}

TEST_F(ClientTest, ErrorsNameCallAndObject) {
  transport_->Answer(404, R"({"kind":"Status","reason":"NotFound","message":"no such thing","code":404})");
  EXPECT_THAT(std::string(client_->Get(kStatefulSets, {"a", "b"}).status().message()),
              HasSubstr("get apps/statefulsets a/b: 404 NotFound: no such thing"));
}

TEST_F(ClientTest, LeasesThereAndBack) {
  Lease lease;
  lease.holder = "pod-1";
  lease.renewed = absl::FromUnixMicros(1'700'000'000'123'456);
  lease.acquired = lease.renewed - absl::Seconds(5);
  lease.transitions = 3;
  lease.resource_version = "12";
  const Json object = LeaseToJson(lease, {"a", "operator"});
  EXPECT_EQ(TextAt(object, {"spec", "renewTime"}), "2023-11-14T22:13:20.123456Z");
  const auto back = LeaseFromJson(object);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->holder, "pod-1");
  EXPECT_EQ(back->renewed, lease.renewed);
  EXPECT_EQ(back->acquired, lease.acquired);
  EXPECT_EQ(back->transitions, 3);
  EXPECT_EQ(back->resource_version, "12");
  Json broken = object;
  broken["spec"]["renewTime"] = "yesterday";
  EXPECT_THAT(std::string(LeaseFromJson(broken).status().message()), HasSubstr("a/operator: spec.renewTime"));

  const auto store = NewApiLeaseStore(client_.get(), {"a", "operator"});
  transport_->Answer(404, R"({"kind":"Status","reason":"NotFound","code":404})");
  EXPECT_TRUE(absl::IsNotFound(store->Read().status()));
  transport_->Answer(201, object.dump());
  EXPECT_TRUE(store->Write(Lease()).ok());
  EXPECT_EQ(transport_->last_call().method, "POST");
  transport_->Answer(409, R"({"kind":"Status","reason":"Conflict","code":409})");
  EXPECT_TRUE(absl::IsAborted(store->Write(lease).status()));
  EXPECT_EQ(transport_->last_call().method, "PUT");
}

TEST_F(ClientTest, EventsOnChangeOnly) {
  FakeClock clock;
  EventRecorder recorder(client_.get(), &clock, "millstream.dev/operator", "pod-1");
  const Json about = {{"apiVersion", "millstream.dev/v1alpha1"},
                      {"kind", "StreamProcessor"},
                      {"metadata", {{"name", "b"}, {"namespace", "a"}, {"uid", "u"}}}};
  for (int i = 0; i < 10; ++i) transport_->Answer(201, "{}");
  recorder.Record(about, {true, "TopicMissing", "CheckTopics", "orders is missing"});
  recorder.Record(about, {true, "TopicMissing", "CheckTopics", "orders is missing"});
  EXPECT_EQ(transport_->calls().size(), 1u);
  const Json event = Json::parse(transport_->last_call().body);
  EXPECT_EQ(TextAt(event, {"regarding", "uid"}), "u");
  EXPECT_EQ(TextAt(event, {"type"}), "Warning");
  EXPECT_EQ(TextAt(event, {"metadata", "namespace"}), "a");
  recorder.Record(about, {true, "TopicMissing", "CheckTopics", "payments is missing"});
  EXPECT_EQ(transport_->calls().size(), 2u);
  recorder.Forget("u");
  recorder.Record(about, {true, "TopicMissing", "CheckTopics", "payments is missing"});
  EXPECT_EQ(transport_->calls().size(), 3u);
}

TEST(CutTextTest, NotWithinACharacter) {
  EXPECT_EQ(CutText("abc", 3), "abc");
  EXPECT_EQ(CutText("ab\xc3\xa9", 3), "ab");
  EXPECT_EQ(CutText("\xf0\x9f\x98\x80", 3), "");
}

}  // namespace
}  // namespace millstream::kube
