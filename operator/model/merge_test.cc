#include "operator/model/merge.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "operator/model/testing/sample.h"

namespace millstream::model {
namespace {

using ::testing::HasSubstr;

Json Merged(const char* base, const char* overrides) {
  return MergePodTemplate(Json::parse(base), Json::parse(overrides));
}

TEST(MergeTest, MapsByKey) {
  EXPECT_EQ(Merged(R"({"spec":{"a":1,"m":{"x":1,"y":2}}})", R"({"spec":{"b":2,"m":{"y":3}}})"),
            Json::parse(R"({"spec":{"a":1,"b":2,"m":{"x":1,"y":3}}})"));
}

TEST(MergeTest, ANullTakesAway) {
  EXPECT_EQ(Merged(R"({"spec":{"a":1,"b":2}})", R"({"spec":{"a":null}})"), Json::parse(R"({"spec":{"b":2}})"));
}

TEST(MergeTest, ContainersAndVariablesByName) {
  EXPECT_EQ(Merged(R"({"spec":{"containers":[{"name":"worker","image":"i","env":[{"name":"A","value":"1"}]}]}})",
                   R"({"spec":{"containers":[{"name":"extra","image":"e"},
                      {"name":"worker","env":[{"name":"A","valueFrom":{"fieldRef":{}}},{"name":"B","value":"2"}]}]}})"),
            Json::parse(R"({"spec":{"containers":[
                {"name":"worker","image":"i","env":[{"name":"A","valueFrom":{"fieldRef":{}}},{"name":"B","value":"2"}]},
                {"name":"extra","image":"e"}]}})"));
}

TEST(MergeTest, MountsByPath) {
  EXPECT_EQ(Merged(R"({"volumeMounts":[{"name":"a","mountPath":"/a"}]})",
                   R"({"volumeMounts":[{"name":"b","mountPath":"/a"},{"name":"c","mountPath":"/c"}]})"),
            Json::parse(R"({"volumeMounts":[{"name":"b","mountPath":"/a"},{"name":"c","mountPath":"/c"}]})"));
}

TEST(MergeTest, OtherListsAreReplaced) {
  EXPECT_EQ(Merged(R"({"spec":{"topologySpreadConstraints":[1,2]}})", R"({"spec":{"topologySpreadConstraints":[]}})"),
            Json::parse(R"({"spec":{"topologySpreadConstraints":[]}})"));
}

TEST(MergeTest, OddOverridesDoNoHarm) {
  EXPECT_EQ(Merged(R"({"spec":{"containers":[{"name":"a"}]}})", R"({"spec":{"containers":[5,"x"]}})"),
            Json::parse(R"({"spec":{"containers":[{"name":"a"},5,"x"]}})"));
  EXPECT_EQ(Merged(R"({"a":1})", "null"), Json::parse(R"({"a":1})"));
}

TEST(CheckPodTemplateTest, WhatBelongsToMillstream) {
  const Processor processor = Sample();
  const auto refusal = [&](const char* overrides) {
    return std::string(CheckPodTemplate(processor, Json::parse(overrides)).message());
  };
  EXPECT_THAT(refusal(R"({"metadata":{"labels":{"app.kubernetes.io/name":"x"}}})"),
              HasSubstr("spec.podTemplate.metadata.labels[app.kubernetes.io/name]"));
  EXPECT_THAT(refusal(R"({"metadata":{"annotations":{"millstream.dev/orders":"x"}}})"), HasSubstr("another prefix"));
  EXPECT_THAT(refusal(R"({"spec":{"restartPolicy":"Never"}})"), HasSubstr("spec.restartPolicy"));
  EXPECT_THAT(refusal(R"({"spec":{"volumes":[{"name":"state"}]}})"), HasSubstr("spec.storage"));
  EXPECT_THAT(refusal(R"({"spec":{"initContainers":[{"name":"millstream","command":["x"]}]}})"),
              HasSubstr("spec.initContainers[millstream].command"));
  EXPECT_THAT(refusal(R"({"spec":{"initContainers":[{"name":"millstream","image":"x"}]}})"),
              HasSubstr("use spec.sidecar.image"));
  EXPECT_THAT(refusal(R"({"spec":{"containers":[{"name":"worker","env":[{"name":"MILLSTREAM_SOCKET"}]}]}})"),
              HasSubstr("env[MILLSTREAM_SOCKET]"));
  EXPECT_THAT(refusal(R"({"spec":{"containers":[{"image":"x"}]}})"), HasSubstr("has no name"));
  EXPECT_THAT(refusal(R"({"spec":{"containers":{}}})"), HasSubstr("must be a list"));
  EXPECT_EQ(refusal(R"({"metadata":{"labels":{"team":"a"}},"spec":{"nodeSelector":{"d":"s"},
      "containers":[{"name":"worker","resources":{}}],"initContainers":[{"name":"millstream","resources":{}}]}})"),
            "");
}

TEST(CheckMountsTest, TheWorkerGetsNoSecrets) {
  for (const char* volume : {"state", "millstream-secrets", "millstream-manifest"}) {
    Json pod = {{"spec", Json::object()}};
    Json container = {{"name", "worker"}};
    container["volumeMounts"] = Json::array();
    container["volumeMounts"].push_back(Json{{"name", volume}, {"mountPath", "/x"}});
    pod["spec"]["containers"] = Json::array();
    pod["spec"]["containers"].push_back(container);
    EXPECT_THAT(std::string(CheckMounts(pod).message()), HasSubstr(StrCat("container worker mounts ", volume)));
    pod["spec"]["containers"][0]["name"] = "millstream";
    EXPECT_TRUE(CheckMounts(pod).ok());
  }
}

}  // namespace
}  // namespace millstream::model
