#include "cli/kubernetes/tool_job.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::cli {
namespace {

using ::testing::HasSubstr;

const Json& Processor() {
  static const Json* const processor = new Json(Json::parse(R"({
    "metadata": {"name": "totals", "namespace": "shop", "uid": "u-1"},
    "spec": {"kafka": {"bootstrapServers": "kafka:9093"}}})"));
  return *processor;
}

// As operator/model makes it, in the parts that matter here.
Json StatefulSet() {
  return Json::parse(R"({"spec": {"template": {"spec": {
    "serviceAccountName": "totals", "securityContext": {"runAsNonRoot": true, "fsGroup": 65532},
    "imagePullSecrets": [{"name": "registry"}],
    "initContainers": [{"name": "millstream", "image": "millstream/sidecar:1", "restartPolicy": "Always",
      "args": ["--manifest", "/etc/millstream/processor.yaml", "--state", "/var/lib/millstream", "--cluster", "east",
               "--secrets", "/etc/millstream-secrets"],
      "env": [{"name": "MILLSTREAM_MEMBER"}], "resources": {"limits": {"memory": "8Gi"}},
      "securityContext": {"readOnlyRootFilesystem": true},
      "volumeMounts": [{"name": "millstream-manifest", "mountPath": "/etc/millstream"},
                       {"name": "millstream-sidecar-tmp", "mountPath": "/tmp"},
                       {"name": "millstream-secrets", "mountPath": "/etc/millstream-secrets"},
                       {"name": "millstream-socket", "mountPath": "/run/millstream"},
                       {"name": "state", "mountPath": "/var/lib/millstream"}]}],
    "containers": [{"name": "worker", "image": "shop/totals:1"}],
    "volumes": [{"name": "millstream-manifest", "configMap": {"name": "totals"}}, {"name": "millstream-sidecar-tmp", "emptyDir": {}},
                {"name": "millstream-secrets", "projected": {}}, {"name": "millstream-socket", "emptyDir": {}}]}}}})");
}

TEST(ToolJobTest, ItReachesKafkaAsTheSidecarsDo) {
  const auto job = ToolJobOf(Processor(), StatefulSet(), "totals-1", {"reset", "--to", "earliest"});
  ASSERT_TRUE(job.ok()) << job.status();
  const Json& pod = (*job)["spec"]["template"]["spec"];
  const Json& container = pod["containers"][0];
  EXPECT_EQ(container["image"], "millstream/sidecar:1");
  EXPECT_EQ(container["command"].dump(),
            R"(["millstream","reset","--to","earliest","--manifest","/etc/millstream/processor.yaml",)"
            R"("--kafka","kafka:9093","--secrets","/etc/millstream-secrets","--cluster","east"])");
  EXPECT_EQ(container["volumeMounts"].size(), 3u);
  EXPECT_EQ(pod["volumes"].size(), 3u);
  EXPECT_EQ(pod["serviceAccountName"], "totals");
  EXPECT_EQ(pod["imagePullSecrets"][0]["name"], "registry");
  EXPECT_EQ(pod["securityContext"]["fsGroup"], 65532);
  EXPECT_EQ(container["securityContext"]["readOnlyRootFilesystem"], true);
  EXPECT_FALSE(container.contains("resources"));  // those of a sidecar with its state
  EXPECT_FALSE(container.contains("env"));        // it is no member
  EXPECT_EQ(pod["restartPolicy"], "Never");
  EXPECT_EQ((*job)["spec"]["backoffLimit"], 0);
  EXPECT_EQ((*job)["metadata"]["ownerReferences"][0]["uid"], "u-1");
  // No pod of the processor: neither its Service nor its budget select it.
  EXPECT_EQ(pod.dump().find("component"), std::string::npos);
  EXPECT_EQ((*job)["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"], "tool");
}

TEST(ToolJobTest, AStatefulSetOfSomebodyElseIsRefused) {
  Json set = StatefulSet();
  set["spec"]["template"]["spec"].erase("initContainers");
  const auto job = ToolJobOf(Processor(), set, "totals-1", {"reset"});
  EXPECT_TRUE(absl::IsFailedPrecondition(job.status()));
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("shop/totals has no container `millstream`"));
}

}  // namespace
}  // namespace millstream::cli
