#include "operator/reconcile/difference.h"

#include "gtest/gtest.h"

namespace millstream::reconcile {
namespace {

using kube::Json;

bool Same(const char* wanted, const char* live) { return IsAsWanted(Json::parse(wanted), Json::parse(live)); }

TEST(DifferenceTest, WhatOthersAddIsNoDifference) {
  EXPECT_TRUE(Same(R"({"a":1})", R"({"a":1,"b":2})"));
  EXPECT_FALSE(Same(R"({"a":1,"b":2})", R"({"a":1})"));
  EXPECT_FALSE(Same(R"({"a":1})", R"({"a":2})"));
  EXPECT_TRUE(Same(R"({"a":{"b":"x"}})", R"({"a":{"b":"x","default":true},"c":[]})"));
}

TEST(DifferenceTest, ItemsOfListsAreFoundByName) {
  EXPECT_TRUE(Same(R"([{"name":"b","value":"2"}])", R"([{"name":"a"},{"name":"b","value":"2","more":1}])"));
  EXPECT_FALSE(Same(R"([{"name":"b","value":"2"}])", R"([{"name":"a","value":"2"}])"));
  EXPECT_TRUE(Same(R"([{"mountPath":"/tmp","name":"t"}])", R"([{"mountPath":"/tmp","name":"t"}])"));
  // Others go by their place, and none may be there besides.
  EXPECT_TRUE(Same(R"(["a","b"])", R"(["a","b"])"));
  EXPECT_FALSE(Same(R"(["a","b"])", R"(["b","a"])"));
  EXPECT_FALSE(Same(R"(["a"])", R"(["a","b"])"));
}

TEST(DifferenceTest, QuantitiesAreComparedByWhatTheyAre) {
  EXPECT_TRUE(Same(R"("1024Mi")", R"("1Gi")"));
  EXPECT_TRUE(Same(R"("0.5")", R"("500m")"));
  EXPECT_TRUE(Same(R"(1)", R"("1")"));
  EXPECT_TRUE(Same(R"("1000m")", R"("1")"));
  EXPECT_FALSE(Same(R"("1500m")", R"("2")"));
  EXPECT_FALSE(Same(R"("1Gi")", R"("1G")"));
  EXPECT_FALSE(Same(R"("abc")", R"("abd")"));
  EXPECT_FALSE(Same(R"(true)", R"("true")"));
}

TEST(DifferenceTest, WhatIsEmptyMayBeMissing) {
  EXPECT_TRUE(Same(R"({"a":{},"b":[],"c":null})", R"({})"));
  EXPECT_TRUE(Same(R"({"a":{}})", R"({"a":{"b":1}})"));
  EXPECT_TRUE(Same(R"({"name":"A","value":""})", R"({"name":"A"})"));
  EXPECT_FALSE(Same(R"({"a":""})", R"({"a":"b"})"));
  EXPECT_FALSE(Same(R"({"a":false})", R"({})"));
  EXPECT_FALSE(Same(R"({"a":0})", R"({})"));
}

TEST(DifferenceTest, AListThatShouldBeEmptyIsNotWhatIsFull) { EXPECT_FALSE(Same(R"({"a":[]})", R"({"a":[1]})")); }

TEST(DifferenceTest, APartIsWhatIsAtThePlacesOfTheWanted) {
  const Json wanted = Json::parse(R"({"a":1,"l":[{"name":"x","v":1}],"m":{"k":"1"}})");
  const Json live = Json::parse(R"({"a":2,"l":[{"name":"w"},{"name":"x","v":3,"d":1}],"m":{"k":"2","o":1},"z":1})");
  EXPECT_EQ(PartOf(wanted, live), Json::parse(R"({"a":2,"l":[{"name":"x","v":3}],"m":{"k":"2"}})"));
}

}  // namespace
}  // namespace millstream::reconcile
