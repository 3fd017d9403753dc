#include "operator/model/children.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "operator/model/orders.h"
#include "operator/model/pod_template.h"
#include "operator/model/testing/sample.h"

namespace millstream::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json Template(const Processor& processor, const ModelOptions& options = SampleOptions()) {
  absl::StatusOr<Json> pod = PodTemplateOf(processor, options);
  MS_CHECK_OK(pod);
  return *std::move(pod);
}

std::vector<Json> Children(const Processor& processor, const ModelOptions& options = SampleOptions()) {
  absl::StatusOr<std::vector<Json>> children = ChildrenOf(processor, options);
  MS_CHECK_OK(children);
  return *std::move(children);
}

Json StatefulSet(const Processor& processor) {
  absl::StatusOr<Json> set = StatefulSetOf(processor, SampleOptions());
  MS_CHECK_OK(set);
  return *std::move(set);
}

std::vector<std::string> Names(const Json& list, const char* key = "name") {
  std::vector<std::string> names;
  for (const Json& item : list) names.push_back(item.at(key));
  return names;
}

TEST(ChildrenTest, KindsInTheOrderOfApplying) {
  std::vector<std::string> kinds;
  for (const Json& child : Children(Sample())) kinds.push_back(child.at("kind"));
  EXPECT_THAT(kinds, ElementsAre("ServiceAccount", "ConfigMap", "Service", "PodDisruptionBudget", "StatefulSet"));
  ModelOptions options = SampleOptions();
  options.network_policies = options.pod_monitors = true;
  kinds.clear();
  for (const Json& child : Children(Sample(), options)) kinds.push_back(child.at("kind"));
  EXPECT_THAT(kinds, ElementsAre("ServiceAccount", "ConfigMap", "NetworkPolicy", "Service", "PodDisruptionBudget",
                                 "StatefulSet", "PodMonitor"));
}

TEST(ChildrenTest, AllBelongToTheProcessor) {
  ModelOptions options = SampleOptions();
  options.network_policies = options.pod_monitors = true;
  std::vector<Json> children = Children(Sample(), options);
  children.push_back(*TopicsJobOf(Sample(), options));
  for (const Json& child : children) {
    const Json& metadata = child.at("metadata");
    EXPECT_EQ(metadata.at("namespace"), "orders") << child;
    ASSERT_EQ(metadata.at("ownerReferences").size(), 1u) << child;
    const Json& owner = metadata.at("ownerReferences")[0];
    EXPECT_EQ(owner.at("uid"), "uid-1");
    EXPECT_EQ(owner.at("controller"), true);
    EXPECT_EQ(owner.at("blockOwnerDeletion"), true);
    for (const char* label : {"name", "instance", "component", "part-of", "managed-by", "version"}) {
      EXPECT_TRUE(metadata.at("labels").contains(std::string("app.kubernetes.io/") + label)) << child;
    }
  }
}

TEST(ChildrenTest, TheSameInputGivesTheSameObjects) {
  EXPECT_EQ(Children(Sample("  stores: [{name: s}]\n")), Children(Sample("  stores: [{name: s}]\n")));
}

TEST(ChildrenTest, TheConfigMapHoldsTheCanonicalManifest) {
  const Processor processor = Sample();
  const std::string text = ConfigMapOf(processor, SampleOptions()).at("data").at("processor.yaml");
  const spec::ParseResult read = spec::ParseManifests(text, "configmap");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.manifests.at(0).canonical_json, processor.manifest.canonical_json);
}

TEST(ChildrenTest, NamesAtTheirLimit) {
  const Processor processor = Sample("", std::string(52, 'n'));
  EXPECT_LE(TopicsJobNameOf(processor).size(), 63u);
  EXPECT_LE(PodNameOf(processor, 999).size(), 63u);
  // The label controller-revision-hash: NAME-HASH of ten characters.
  EXPECT_LE(processor.typed().name.size() + 11, 63u);
  EXPECT_EQ(ClaimNameOf(Sample(), 2), "state-totals-2");
}

TEST(StatefulSetTest, TheOperatorRolls) {
  const Json spec = StatefulSet(Sample("  replicas: 3\n")).at("spec");
  EXPECT_EQ(spec.at("replicas"), 3);
  EXPECT_EQ(spec.at("podManagementPolicy"), "Parallel");
  EXPECT_EQ(spec.at("updateStrategy").at("type"), "OnDelete");
  const Json& labels = spec.at("template").at("metadata").at("labels");
  for (const auto& [label, value] : spec.at("selector").at("matchLabels").items()) EXPECT_EQ(labels.at(label), value);
  EXPECT_EQ(labels.at("app.kubernetes.io/managed-by"), "millstream-operator");
  EXPECT_FALSE(labels.contains("app.kubernetes.io/version"));
}

TEST(StatefulSetTest, StateInAnEmptyDirOrAVolume) {
  const Json without = StatefulSet(Sample()).at("spec");
  EXPECT_FALSE(without.contains("volumeClaimTemplates"));
  EXPECT_THAT(Names(without.at("template").at("spec").at("volumes")), ::testing::Contains("state"));

  const Json with =
      StatefulSet(Sample("  storage: {size: 10Gi, storageClassName: fast, whenDeleted: Delete}\n")).at("spec");
  const Json& claim = with.at("volumeClaimTemplates").at(0);
  EXPECT_EQ(claim.at("metadata").at("name"), "state");
  EXPECT_EQ(claim.at("spec").at("storageClassName"), "fast");
  EXPECT_EQ(claim.at("spec").at("resources").at("requests").at("storage"), "10Gi");
  EXPECT_THAT(claim.at("spec").at("accessModes"), ElementsAre("ReadWriteOnce"));
  EXPECT_EQ(with.at("persistentVolumeClaimRetentionPolicy").at("whenDeleted"), "Delete");
  EXPECT_EQ(with.at("persistentVolumeClaimRetentionPolicy").at("whenScaled"), "Retain");
  EXPECT_THAT(Names(with.at("template").at("spec").at("volumes")), ::testing::Not(::testing::Contains("state")));
}

TEST(PodTemplateTest, OnlyTheSidecarHasStateSecretsAndManifest) {
  const Json pod = Template(Sample("  storage: {size: 1Gi}\n")).at("spec");
  ASSERT_EQ(pod.at("containers").size(), 1u);
  ASSERT_EQ(pod.at("initContainers").size(), 1u);
  EXPECT_EQ(pod.at("initContainers")[0].at("restartPolicy"), "Always");
  EXPECT_THAT(Names(pod.at("containers")[0].at("volumeMounts")), ElementsAre("millstream-socket", "millstream-tmp"));
  EXPECT_THAT(Names(pod.at("containers")[0].at("env")), ElementsAre("HOME", "MILLSTREAM_SOCKET"));
}

TEST(PodTemplateTest, Restricted) {
  const Json pod = Template(Sample("  podTemplate: {spec: {containers: [{name: extra, image: x}]}}\n")).at("spec");
  EXPECT_EQ(pod.at("automountServiceAccountToken"), false);
  EXPECT_EQ(pod.at("securityContext").at("runAsNonRoot"), true);
  EXPECT_EQ(pod.at("securityContext").at("seccompProfile").at("type"), "RuntimeDefault");
  for (const char* list : {"containers", "initContainers"}) {
    for (const Json& container : pod.at(list)) {
      if (container.at("name") == "extra") continue;  // the user's
      EXPECT_EQ(container.at("securityContext").at("allowPrivilegeEscalation"), false);
      EXPECT_EQ(container.at("securityContext").at("readOnlyRootFilesystem"), true);
      EXPECT_THAT(container.at("securityContext").at("capabilities").at("drop"), ElementsAre("ALL"));
    }
  }
  ModelOptions openshift = SampleOptions();
  openshift.openshift = true;
  const Json security = Template(Sample(), openshift).at("spec").at("securityContext");
  EXPECT_FALSE(security.contains("runAsUser"));
  EXPECT_FALSE(security.contains("fsGroup"));
}

TEST(PodTemplateTest, WhatTakesEffectInRunningPodsRollsNothing) {
  const Json before = Template(Sample());
  for (const char* change : {"  replicas: 5\n", "  standbyReplicas: 1\n", "  desiredState: Paused\n",
                             "  autoscale: {maxReplicas: 4}\n", "  internalTopics: {whenDeleted: Delete}\n"}) {
    EXPECT_EQ(Template(Sample(change)), before) << change;
  }
  for (const char* change : {"  batch: {maxRecords: 7}\n", "  sidecar: {image: other}\n",
                             "  sidecar: {logLevel: Debug}\n", "  stores: [{name: s}]\n"}) {
    EXPECT_NE(Template(Sample(change)), before) << change;
  }
  Processor restarted = Sample();
  restarted.restarted_at = "2026-01-01T00:00:00Z";
  EXPECT_NE(Template(restarted), before);
  // The image is in the template: it need not be in the hash.
  EXPECT_EQ(ManifestHash(Sample("  sidecar: {image: other}\n")), ManifestHash(Sample()));
}

TEST(PodTemplateTest, SecretsLieWhereTheSidecarLooks) {
  const auto processor =
      TryProcessor(StrCat(kWorker,
                          "  inputs: [{topic: a}]\n"
                          "  kafka:\n"
                          "    bootstrapServers: \"kafka:9093\"\n"
                          "    tls: {caConfigMapRef: {name: roots, key: ca.pem}}\n"
                          "    sasl: {mechanism: SCRAM-SHA-512, usernameSecretRef: {name: user, key: name},"
                          " passwordSecretRef: {name: user, key: password}}\n"));
  ASSERT_TRUE(processor.ok()) << processor.status();
  const Json pod = Template(*processor).at("spec");
  std::set<std::string> paths;
  for (const Json& volume : pod.at("volumes")) {
    if (volume.at("name") != "millstream-secrets") continue;
    for (const Json& source : volume.at("projected").at("sources")) {
      for (const auto& [kind, from] : source.items()) {
        for (const Json& item : from.at("items")) paths.insert(StrCat(kind, ":", item.at("path").get<std::string>()));
      }
    }
  }
  for (const Json& mount : pod.at("initContainers")[0].at("volumeMounts")) {
    EXPECT_FALSE(mount.at("name") == "millstream-secrets" && mount.contains("subPath"));  // would not follow rotation
  }
  EXPECT_THAT(paths, ElementsAre("configMap:roots/ca.pem", "secret:user/name", "secret:user/password"));
  EXPECT_THAT(pod.at("initContainers")[0].at("args"), ::testing::Contains("--secrets"));
  EXPECT_THAT(Template(Sample()).at("spec").at("initContainers")[0].at("args"),
              ::testing::Not(::testing::Contains("--secrets")));
}

TEST(PodTemplateTest, ASecretAndAConfigMapOfOneNameAndKey) {
  const auto processor =
      TryProcessor(StrCat(kWorker,
                          "  inputs: [{topic: a}]\n"
                          "  kafka:\n"
                          "    bootstrapServers: \"kafka:9093\"\n"
                          "    tls: {caConfigMapRef: {name: x, key: k}, certSecretRef: {name: x, key: k},"
                          " keySecretRef: {name: x, key: l}}\n"));
  ASSERT_TRUE(processor.ok()) << processor.status();
  const absl::Status status = PodTemplateOf(*processor, SampleOptions()).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("both a Secret and a ConfigMap named x"));
}

TEST(PodTemplateTest, AViewHasNoWorker) {
  const auto view = TryProcessor("  kafka: {bootstrapServers: \"kafka:9092\"}\n  lookups: [{topic: rates}]\n");
  ASSERT_TRUE(view.ok()) << view.status();
  const Json pod = Template(*view).at("spec");
  EXPECT_FALSE(pod.contains("initContainers"));
  ASSERT_EQ(pod.at("containers").size(), 1u);
  EXPECT_EQ(pod.at("containers")[0].at("name"), "millstream");
  EXPECT_FALSE(pod.at("containers")[0].contains("restartPolicy"));
}

TEST(PodTemplateTest, TheWorkersOwnWordsCount) {
  const auto processor = TryProcessor(StrCat(
      kMinimal,
      "  container: {image: x, env: [{name: HOME, value: /srv/app}], volumeMounts: [{name: mine, mountPath: /tmp}],"
      " securityContext: {readOnlyRootFilesystem: false}}\n"
      "  podTemplate: {spec: {volumes: [{name: mine, emptyDir: {}}]}}\n"));
  ASSERT_TRUE(processor.ok()) << processor.status();
  const Json worker = Template(*processor).at("spec").at("containers")[0];
  EXPECT_EQ(worker.at("env")[0].at("value"), "/srv/app");
  EXPECT_THAT(Names(worker.at("volumeMounts")), ElementsAre("mine", "millstream-socket"));
  EXPECT_EQ(worker.at("securityContext").at("readOnlyRootFilesystem"), false);
  EXPECT_EQ(worker.at("securityContext").at("allowPrivilegeEscalation"), false);
}

TEST(MakeProcessorTest, WhatAClusterNeeds) {
  EXPECT_THAT(std::string(TryProcessor(kMinimal).status().message()), HasSubstr("spec.container.image"));
  EXPECT_THAT(std::string(TryProcessor(StrCat(kWorker, "  inputs: [{topic: a}]\n")).status().message()),
              HasSubstr("spec.kafka.bootstrapServers"));
}

TEST(TopicsJobTest, AnotherManifestIsAnotherJob) {
  EXPECT_NE(TopicsJobNameOf(Sample()), TopicsJobNameOf(Sample("  stores: [{name: s}]\n")));
  EXPECT_EQ(TopicsJobNameOf(Sample()), TopicsJobNameOf(Sample("  replicas: 3\n")));
  const Json job = *TopicsJobOf(Sample(), SampleOptions());
  const Json& pod = job.at("spec").at("template");
  // Not selected by Service, budget or StatefulSet.
  EXPECT_NE(pod.at("metadata").at("labels").at("app.kubernetes.io/component"),
            SelectorOf(Sample()).at("app.kubernetes.io/component"));
  EXPECT_EQ(pod.at("spec").at("restartPolicy"), "Never");
}

TEST(TopicsJobTest, RunsWhereAndAsWhomThePodsRun) {
  const Processor processor = Sample(
      "  podTemplate:\n"
      "    metadata: {labels: {kafka: client}}\n"
      "    spec: {serviceAccountName: shop, imagePullSecrets: [{name: registry}], containers: [{name: proxy, image: "
      "p}]}\n");
  EXPECT_NE(TopicsJobNameOf(processor), TopicsJobNameOf(Sample()));
  const Json job = *TopicsJobOf(processor, SampleOptions());
  const Json& pod = job.at("spec").at("template");
  EXPECT_EQ(pod.at("metadata").at("labels").at("kafka"), "client");
  EXPECT_EQ(pod.at("metadata").at("labels").at("app.kubernetes.io/component"), "topics");
  EXPECT_EQ(pod.at("spec").at("serviceAccountName"), "shop");
  EXPECT_EQ(pod.at("spec").at("imagePullSecrets").at(0).at("name"), "registry");
  EXPECT_EQ(pod.at("spec").at("containers").size(), 1u);
  EXPECT_FALSE(job.at("metadata").at("labels").contains("kafka"));
}

TEST(TopicsJobTest, TheClusterIsNamedWhereItHasAName) {
  ModelOptions options = SampleOptions();
  options.cluster_name = "east";
  for (const Json& args :
       {TopicsJobOf(Sample(), options)->at("spec").at("template").at("spec").at("containers")[0]["args"],
        StatefulSetOf(Sample(), options)->at("spec").at("template").at("spec").at("initContainers")[0]["args"]}) {
    const auto option = std::find(args.begin(), args.end(), "--cluster");
    ASSERT_NE(option, args.end()) << args;
    EXPECT_EQ(*(option + 1), "east");
  }
}

TEST(NetworkPolicyTest, WhoMayAsk) {
  ModelOptions options = SampleOptions();
  options.network_peers.push_back(Json{{"ipBlock", {{"cidr", "10.0.0.0/24"}}}});
  const Json rule = NetworkPolicyOf(Sample(), options).at("spec").at("ingress").at(0);
  ASSERT_EQ(rule.at("from").size(), 3u);
  EXPECT_EQ(rule.at("from")[1].at("namespaceSelector").at("matchLabels").at("kubernetes.io/metadata.name"),
            "millstream-system");
  EXPECT_EQ(rule.at("from")[2].at("ipBlock").at("cidr"), "10.0.0.0/24");
}

TEST(OrdersTest, WhatAPodIsTold) {
  EXPECT_EQ(OrdersOf(Sample("  desiredState: Paused\n  standbyReplicas: 2\n"), true),
            R"({"drain":true,"standbyReplicas":2,"state":"Paused"})");
}

}  // namespace
}  // namespace millstream::model
