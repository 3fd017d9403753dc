#include "operator/kube/api_error.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "operator/kube/resource.h"

namespace millstream::kube {
namespace {

using ::testing::HasSubstr;

constexpr char kConflict[] =
    R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":"the object has been modified","reason":"Conflict","code":409})";

TEST(ApiErrorTest, CodesByReason) {
  const auto code = [](int http, std::string_view body) {
    return ToStatus(ReadApiError(http, body, ""), "get").code();
  };
  EXPECT_EQ(code(409, kConflict), absl::StatusCode::kAborted);
  EXPECT_EQ(code(409, R"({"kind":"Status","reason":"AlreadyExists","code":409})"), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(code(404, "{}"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(422, "{}"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(400, "{}"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(401, "{}"), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(code(403, "{}"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(410, "{}"), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code(429, "{}"), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(500, "{}"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(503, "<html>"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(302, ""), absl::StatusCode::kUnavailable);
  // How a server-side apply answers a typing error below preserve-unknown-fields.
  EXPECT_EQ(code(500, R"({"kind":"Status","message":".spec.containerz: field not declared in schema","code":500})"),
            absl::StatusCode::kInvalidArgument);
}

TEST(ApiErrorTest, TravelsWithTheStatus) {
  const absl::Status status = ToStatus(
      ReadApiError(422,
                   R"({"kind":"Status","message":"too small","reason":"Invalid","code":422,"details":{"causes":[
                       {"reason":"FieldValueInvalid","message":"must be greater than 0","field":"spec.replicas"}]}})",
                   ""),
      "apply apps/statefulsets a/b");
  EXPECT_THAT(std::string(status.message()), HasSubstr("apply apps/statefulsets a/b: 422 Invalid: too small"));
  const auto error = ApiErrorOf(status);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, 422);
  EXPECT_EQ(error->reason, "Invalid");
  EXPECT_EQ(error->cause, "spec.replicas: must be greater than 0");
  EXPECT_FALSE(ApiErrorOf(absl::UnavailableError("no connection")).has_value());
}

TEST(ApiErrorTest, WhatMayBeTriedAgain) {
  EXPECT_TRUE(IsRetryable(absl::UnavailableError("no connection")));
  EXPECT_TRUE(IsRetryable(ToStatus(ReadApiError(429, "{}", "3"), "get")));
  EXPECT_TRUE(IsRetryable(ToStatus(ReadApiError(409, kConflict, ""), "get")));
  EXPECT_FALSE(IsRetryable(ToStatus(ReadApiError(422, "{}", ""), "get")));
  EXPECT_TRUE(IsExpired(ToStatus(ReadApiError(0, R"({"kind":"Status","reason":"Expired","code":410})", ""), "watch")));
}

TEST(ApiErrorTest, RetryAfter) {
  const auto after = [](std::string_view header, std::string_view body) {
    return RetryAfterOf(ToStatus(ReadApiError(429, body, header), "get"));
  };
  EXPECT_EQ(after("7", "{}"), absl::Seconds(7));
  EXPECT_EQ(after("", R"({"kind":"Status","details":{"retryAfterSeconds":2}})"), absl::Seconds(2));
  EXPECT_EQ(after("99999999", "{}"), absl::Minutes(10));
  EXPECT_EQ(after("-1", "{}"), std::nullopt);
  EXPECT_EQ(after("soon", "{}"), std::nullopt);
}

TEST(ApiErrorTest, TerminatingNamespace) {
  const absl::Status status =
      ToStatus(ReadApiError(403, R"({"kind":"Status","reason":"Forbidden","code":403,"details":{"causes":[
          {"reason":"NamespaceTerminating","message":"namespace a is being terminated","field":"metadata.namespace"}]}})",
                            ""),
               "create pods a/b");
  EXPECT_TRUE(IsNamespaceTerminating(status));
  EXPECT_FALSE(IsNamespaceTerminating(ToStatus(ReadApiError(403, "{}", ""), "create pods a/b")));
}

TEST(ApiErrorTest, BytesThatAreNoText) {
  const absl::Status status = ToStatus(ReadApiError(502, std::string(5000, '\xff'), ""), "get");
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_LT(status.message().size(), 2000u);
  EXPECT_TRUE(ApiErrorOf(status).has_value());
}

TEST(ResourceTest, Paths) {
  EXPECT_EQ(CollectionPath(kPods, ""), "/api/v1/pods");
  EXPECT_EQ(CollectionPath(kStatefulSets, "orders"), "/apis/apps/v1/namespaces/orders/statefulsets");
  EXPECT_EQ(ObjectPath(kStreamProcessors, {"a", "b"}, "status"),
            "/apis/millstream.dev/v1alpha1/namespaces/a/streamprocessors/b/status");
  EXPECT_EQ(ObjectPath(kPods, {"../x", "a?b"}), "/api/v1/namespaces/..%2Fx/pods/a%3Fb");
  EXPECT_EQ(Query({{"limit", "5"}, {"continue", ""}, {"labelSelector", "a=b,c"}}), "?limit=5&labelSelector=a%3Db%2Cc");
  EXPECT_EQ(Query({{"continue", ""}}), "");
}

TEST(ResourceTest, WhatObjectsSay) {
  const Json object =
      Json::parse(R"({"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"n","namespace":"s",
      "uid":"u","resourceVersion":"5","ownerReferences":[{"uid":"x"},{"uid":"y","controller":true}]}})");
  EXPECT_EQ(KeyOf(object).Text(), "s/n");
  EXPECT_EQ(UidOf(object), "u");
  EXPECT_EQ(ResourceVersionOf(object), "5");
  EXPECT_EQ(ControllerUidOf(object), "y");
  EXPECT_TRUE(IsOfKind(object, kStatefulSets));
  EXPECT_FALSE(IsOfKind(object, kPods));
  EXPECT_EQ(ControllerUidOf(Json::array()), "");
  EXPECT_EQ(KeyOf(Json(5)).name, "");
}

}  // namespace
}  // namespace millstream::kube
