// The whole operator, step by step, on an API server in memory: what becomes of a processor.
#include "operator/reconcile/operator.h"

#include <algorithm>
#include <string>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "operator/reconcile/testing/small_cluster.h"

namespace millstream::reconcile {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// A sidecar that has `active` tasks and nothing to restore.
Json Answer(int active, int64_t lag = 0) {
  Json tasks = Json::array();
  for (int i = 0; i < active; ++i) {
    Json task = {{"task", i}, {"state", "active"}, {"records", 10}};
    task["inputs"] = Json::array();
    task["inputs"].push_back(Json{{"name", "payments"}, {"lag", i == 0 ? lag : 0}});
    tasks.push_back(std::move(task));
  }
  return {{"processor", "orders/totals"},
          {"group", "orders.totals"},
          {"version", "0.1.0"},
          {"guarantee", "ExactlyOnce"},
          {"state", "Running"},
          {"ready", true},
          {"workers", 1},
          {"inGroup", true},
          {"partitions", active},
          {"summary", {{"total", active}, {"active", active}, {"restoring", 0}, {"standby", 0}, {"stopped", 0}}},
          {"lag", {{"records", lag}, {"seconds", 1.0}}},
          {"tasks", tasks},
          {"conditions", Json::array()}};
}

std::optional<kube::FakeApiServer::Fault> Refuse(int status) {
  kube::FakeApiServer::Fault fault;
  fault.status = status;
  return fault;
}

class OperatorTest : public ::testing::Test {
 protected:
  // A processor that runs, with nothing to do.
  void MakeRunning(std::string_view more = "") {
    cluster_.Apply("totals", more);
    cluster_.Settle();
    cluster_.EndJobWell();
    cluster_.Settle();
    cluster_.sidecars.answers["totals-0"] = Answer(4);
    cluster_.RunPods("totals");
    cluster_.Pass(absl::Seconds(40));
    ASSERT_THAT(cluster_.Condition("totals", "Ready"), StartsWith("True Processing"))
        << cluster_.Status("totals").dump(1);
  }
  std::string Ready() const { return cluster_.Condition("totals", "Ready"); }
  // No second of the next two minutes sees a write.
  void ExpectQuiet() {
    cluster_.Pass(absl::Seconds(35));
    const int before = cluster_.write_calls;
    cluster_.Pass(absl::Minutes(2));
    EXPECT_EQ(cluster_.write_calls, before);
  }

  SmallCluster cluster_;
};

TEST_F(OperatorTest, AManifestBecomesTopicsThenAWorkload) {
  cluster_.Apply("totals");
  cluster_.Settle();
  EXPECT_THAT(cluster_.Names(kube::kServiceAccounts), ElementsAre("totals"));
  EXPECT_THAT(cluster_.Names(kube::kConfigMaps), ElementsAre("totals"));
  EXPECT_THAT(cluster_.Names(kube::kServices), ElementsAre("totals"));
  EXPECT_THAT(cluster_.Names(kube::kPodDisruptionBudgets), ElementsAre("totals"));
  EXPECT_THAT(cluster_.Names(kube::kJobs), ElementsAre(StartsWith("totals-t-")));
  EXPECT_THAT(cluster_.Names(kube::kStatefulSets), IsEmpty());
  EXPECT_THAT(Ready(), StartsWith("False TopicsPending"));
  EXPECT_THAT(cluster_.Condition("totals", "TopicsReady"), StartsWith("False TopicsPending"));
  EXPECT_THAT(cluster_.Condition("totals", "WorkloadReady"), StartsWith("False NotCreated"));
  EXPECT_THAT(cluster_.Condition("totals", "Reconciling"), StartsWith("True TopicsPending"));
  EXPECT_EQ(cluster_.Condition("totals", "Stalled"), "");

  cluster_.EndJobWell();
  cluster_.Settle();
  EXPECT_EQ(cluster_.Condition("totals", "TopicsReady"), "True TopicsReady: 3 topics");
  ASSERT_THAT(cluster_.Names(kube::kStatefulSets), ElementsAre("totals"));
  EXPECT_THAT(Ready(), StartsWith("False UpdatingStatefulSet"));

  cluster_.sidecars.answers["totals-0"] = Answer(4, 17);
  cluster_.RunPods("totals");
  cluster_.Pass(absl::Seconds(40));
  EXPECT_THAT(Ready(), StartsWith("True Processing"));
  EXPECT_THAT(cluster_.Condition("totals", "WorkloadReady"), StartsWith("True PodsReady"));
  EXPECT_THAT(cluster_.Condition("totals", "Restored"), StartsWith("True Restored"));
  EXPECT_EQ(cluster_.Condition("totals", "Reconciling"), "");
  const Json status = cluster_.Status("totals");
  EXPECT_EQ(status.at("observedGeneration"), 1);
  EXPECT_EQ(status.at("replicas"), 1);
  EXPECT_EQ(status.at("readyReplicas"), 1);
  EXPECT_EQ(status.at("group"), "orders.totals");
  EXPECT_EQ(status.at("guarantee"), "ExactlyOnce");
  EXPECT_EQ(status.at("tasks").at("running"), 4);
  EXPECT_EQ(status.at("lag").at("records"), 17);
  EXPECT_THAT(status.at("selector").get<std::string>(), HasSubstr("app.kubernetes.io/instance=totals"));
  EXPECT_THAT(cluster_.Events(), Contains(StartsWith("Processing: ")));
}

TEST_F(OperatorTest, NothingIsDecidedBeforeEverythingIsKnown) {
  cluster_.faults = [](const kube::HttpCall& call) -> std::optional<kube::FakeApiServer::Fault> {
    if (call.target.find("/persistentvolumeclaims") == std::string::npos) return std::nullopt;
    return Refuse(503);
  };
  cluster_.Apply("totals");
  cluster_.Settle();
  EXPECT_THAT(cluster_.Names(kube::kConfigMaps), IsEmpty());
  EXPECT_FALSE(cluster_.the_operator->synced());
  EXPECT_THAT(std::string(cluster_.the_operator->health().message()), HasSubstr("persistentvolumeclaims"));
  cluster_.faults = nullptr;
  cluster_.Settle();
  EXPECT_THAT(cluster_.Names(kube::kConfigMaps), ElementsAre("totals"));
}

TEST_F(OperatorTest, AMissingDefinitionIsWaitedForAndSaid) {
  cluster_.faults = [](const kube::HttpCall& call) -> std::optional<kube::FakeApiServer::Fault> {
    if (call.target.find("/streamprocessors") == std::string::npos) return std::nullopt;
    return Refuse(404);
  };
  cluster_.Settle();
  EXPECT_THAT(std::string(cluster_.the_operator->health().message()),
              HasSubstr("streamprocessors.millstream.dev is not installed"));
  cluster_.faults = nullptr;
  cluster_.Settle();
  EXPECT_TRUE(cluster_.the_operator->synced());
}

TEST_F(OperatorTest, AReadyPodThatProcessesNothingIsNotReadyToPeople) {
  MakeRunning();
  Json away = Answer(4);
  away["conditions"] = Json::array({{{"reason", "NotInGroup"}, {"message", "group orders.totals: no broker answers"}},
                                    {{"reason", "BrokersUnreachable"}, {"message", "no answer for 40s: refused"}}});
  cluster_.sidecars.answers["totals-0"] = away;
  cluster_.Pass(absl::Seconds(40));
  EXPECT_EQ(Ready(), "False BrokersUnreachable: no answer for 40s: refused");
  EXPECT_THAT(cluster_.Condition("totals", "WorkloadReady"), StartsWith("True"));
  // The number in it goes on, and is not written.
  away["conditions"][1]["message"] = "no answer for 70s: refused";
  cluster_.sidecars.answers["totals-0"] = away;
  ExpectQuiet();
  cluster_.sidecars.answers["totals-0"] = Answer(4);
  cluster_.Pass(absl::Seconds(11));
  EXPECT_THAT(Ready(), StartsWith("True Processing"));
  // What does not keep it from processing is said behind the good news.
  Json warns = Answer(4);
  warns["conditions"] = Json::array({{{"reason", "PartitionerMismatch"}, {"message", "keys lie elsewhere"}}});
  cluster_.sidecars.answers["totals-0"] = warns;
  cluster_.Pass(absl::Seconds(40));
  EXPECT_THAT(Ready(), HasSubstr("True Processing"));
  EXPECT_THAT(Ready(), HasSubstr("; PartitionerMismatch: keys lie elsewhere"));
}

TEST_F(OperatorTest, ASteadyProcessorCostsNoWrites) {
  MakeRunning();
  ExpectQuiet();
  // Nor does another operator that finds everything as it should be.
  const int before = cluster_.write_calls;
  cluster_.RestartOperator();
  cluster_.Pass(absl::Minutes(1));
  EXPECT_EQ(cluster_.write_calls, before);
}

TEST_F(OperatorTest, NumbersAreWrittenSeldomAndOnlyWhenTheyMove) {
  MakeRunning();
  cluster_.Pass(absl::Seconds(35));
  const int before = cluster_.Writes();
  for (int i = 0; i < 60; ++i) {
    cluster_.sidecars.answers["totals-0"] = Answer(4, 1000 + i * 1000);
    cluster_.Pass(absl::Seconds(1));
  }
  EXPECT_LE(cluster_.Writes() - before, 3);
  EXPECT_GE(cluster_.Writes() - before, 1);
  const int moved = cluster_.Writes();
  for (int i = 0; i < 60; ++i) {
    cluster_.sidecars.answers["totals-0"] = Answer(4, 60000 + i);
    cluster_.Pass(absl::Seconds(1));
  }
  EXPECT_LE(cluster_.Writes() - moved, 1);
}

TEST_F(OperatorTest, EditsOfOthersArePutBackAndTheirAnnotationsLeft) {
  MakeRunning();
  cluster_.Edit(kube::kConfigMaps, "totals", [](Json* object) {
    (*object)["data"]["processor.yaml"] = "{}";
    (*object)["metadata"]["annotations"]["example.com/mine"] = "yes";
  });
  cluster_.Edit(kube::kStatefulSets, "totals", [](Json* object) { (*object)["spec"]["replicas"] = 7; });
  cluster_.Edit(kube::kServices, "totals", [](Json* object) { *object = Json(); });
  cluster_.Settle();
  const Json map = cluster_.Read(kube::kConfigMaps, "totals");
  EXPECT_THAT(map.at("data").at("processor.yaml").get<std::string>(), HasSubstr("payments"));
  EXPECT_EQ(map.at("metadata").at("annotations").at("example.com/mine"), "yes");
  EXPECT_EQ(cluster_.Read(kube::kStatefulSets, "totals").at("spec").at("replicas"), 1);
  EXPECT_TRUE(cluster_.Has(kube::kServices, "totals"));
  ExpectQuiet();
}

TEST_F(OperatorTest, ANameThatIsTakenIsNotTouched) {
  cluster_.Edit(kube::kConfigMaps, "totals", [](Json* object) { (*object)["data"]["mine"] = "yes"; });
  cluster_.Apply("totals");
  cluster_.Settle();
  EXPECT_THAT(Ready(), StartsWith("False NameTaken: a ConfigMap totals is there already"));
  EXPECT_THAT(cluster_.Condition("totals", "Stalled"), StartsWith("True NameTaken"));
  EXPECT_EQ(cluster_.Read(kube::kConfigMaps, "totals").at("data").at("mine"), "yes");
  EXPECT_THAT(cluster_.Names(kube::kJobs), IsEmpty());
  const int before = cluster_.Writes();
  cluster_.Pass(absl::Minutes(1));
  EXPECT_EQ(cluster_.Writes(), before);

  cluster_.Remove(kube::kConfigMaps, "totals");
  cluster_.Pass(absl::Seconds(10));
  EXPECT_THAT(Ready(), StartsWith("False TopicsPending"));
  EXPECT_EQ(cluster_.Condition("totals", "Stalled"), "");
}

TEST_F(OperatorTest, ChildrenOfAFormerProcessorOfTheNameAreNotAdopted) {
  MakeRunning();
  const std::string old_uid = kube::UidOf(cluster_.Read(kube::kStreamProcessors, "totals"));
  cluster_.Remove(kube::kStreamProcessors, "totals");
  cluster_.Apply("totals");
  cluster_.Settle();
  EXPECT_THAT(Ready(), StartsWith("False AwaitingDeletion"));
  EXPECT_EQ(kube::ControllerUidOf(cluster_.Read(kube::kConfigMaps, "totals")), old_uid);
  while (cluster_.server.CollectGarbage() > 0) {
  }
  cluster_.Pass(absl::Seconds(10));
  EXPECT_THAT(Ready(), StartsWith("False TopicsPending"));
  EXPECT_EQ(kube::ControllerUidOf(cluster_.Read(kube::kConfigMaps, "totals")),
            kube::UidOf(cluster_.Read(kube::kStreamProcessors, "totals")));
}

TEST_F(OperatorTest, AnInvalidManifestLeavesTheWorkloadAsItIs) {
  MakeRunning();
  const Json before = cluster_.Read(kube::kStatefulSets, "totals");
  cluster_.Edit(kube::kStreamProcessors, "totals",
                [](Json* object) { (*object)["spec"]["inputs"][0]["topic"] = "a b"; });
  cluster_.Settle();
  EXPECT_THAT(Ready(), StartsWith("False InvalidSpec: spec.inputs[0].topic: "));
  EXPECT_THAT(cluster_.Condition("totals", "Stalled"), StartsWith("True InvalidSpec"));
  EXPECT_THAT(cluster_.Condition("totals", "WorkloadReady"), StartsWith("True PodsReady"));
  EXPECT_THAT(cluster_.Condition("totals", "TopicsReady"), StartsWith("True"));
  EXPECT_EQ(cluster_.Status("totals").at("observedGeneration"), 2);
  EXPECT_EQ(cluster_.Read(kube::kStatefulSets, "totals"), before);
  cluster_.Edit(kube::kStreamProcessors, "totals",
                [](Json* object) { (*object)["spec"]["inputs"][0]["topic"] = "payments"; });
  cluster_.Pass(absl::Seconds(1));
  EXPECT_THAT(Ready(), StartsWith("True Processing"));
  EXPECT_EQ(cluster_.Condition("totals", "Stalled"), "");
}

TEST_F(OperatorTest, OneInvalidProcessorDoesNotStopTheOthers) {
  cluster_.Apply("broken");
  cluster_.Edit(kube::kStreamProcessors, "broken", [](Json* object) { (*object)["spec"] = "nonsense"; });
  cluster_.Apply("totals");
  cluster_.Settle();
  EXPECT_THAT(cluster_.Condition("broken", "Ready"), StartsWith("False InvalidSpec"));
  EXPECT_THAT(Ready(), StartsWith("False TopicsPending"));
}

TEST_F(OperatorTest, OfTwoWithOneGroupTheOlderKeepsIt) {
  cluster_.Apply("totals", "  group: shared\n");
  cluster_.clock.Advance(absl::Seconds(10));
  cluster_.Apply("younger", "  group: shared\n");
  cluster_.Settle();
  EXPECT_THAT(Ready(), StartsWith("False TopicsPending"));
  const std::string younger = cluster_.Condition("younger", "Ready");
  EXPECT_THAT(younger, StartsWith("False GroupOwnedByAnother: group shared"));
  EXPECT_THAT(younger, HasSubstr("orders/totals"));
  EXPECT_THAT(younger, HasSubstr("orders/younger"));
  EXPECT_THAT(cluster_.Names(kube::kConfigMaps), ElementsAre("totals"));
  cluster_.Remove(kube::kStreamProcessors, "totals");
  cluster_.Settle();
  EXPECT_THAT(cluster_.Condition("younger", "Ready"), StartsWith("False TopicsPending"));
}

TEST_F(OperatorTest, OfTwoWithOneGroupTheOlderKeepsItThoughItsManifestIsInvalid) {
  cluster_.Apply("totals", "  group: shared\n");
  cluster_.Settle();
  cluster_.EndJobWell();
  cluster_.Settle();
  cluster_.clock.Advance(absl::Seconds(2));
  cluster_.Apply("zz-younger", "  group: shared\n");
  cluster_.Settle();
  // As an old definition would have let in. Its workload goes on, in its group.
  const auto set_partitioner = [this](const char* value) {
    cluster_.Edit(kube::kStreamProcessors, "totals",
                  [value](Json* object) { (*object)["spec"]["inputs"][0]["partitioner"] = value; });
  };
  set_partitioner("Sometimes");
  cluster_.Settle();
  EXPECT_THAT(Ready(), StartsWith("False InvalidSpec"));
  cluster_.RestartOperator();
  cluster_.Pass(absl::Minutes(2));
  EXPECT_THAT(cluster_.Condition("zz-younger", "Ready"), StartsWith("False GroupOwnedByAnother: group shared"));
  EXPECT_FALSE(cluster_.Has(kube::kConfigMaps, "zz-younger"));
  cluster_.Remove(kube::kStreamProcessors, "totals");
  cluster_.Pass(absl::Minutes(2));
  EXPECT_TRUE(cluster_.Has(kube::kConfigMaps, "zz-younger"));
}

TEST_F(OperatorTest, InternalTopicsOfTwoDoNotOverlap) {
  cluster_.Apply("totals", "  group: a\n  stores: [{name: b-x}]\n");
  cluster_.clock.Advance(absl::Seconds(10));
  cluster_.Apply("younger", "  group: a-b\n  stores: [{name: x}]\n");
  cluster_.Settle();
  const std::string younger = cluster_.Condition("younger", "Ready");
  EXPECT_THAT(younger, StartsWith("False TopicsOverlap: topic a-b-x-changelog"));
  EXPECT_THAT(younger, HasSubstr("the changelog of store b-x of the older processor orders/totals"));
}

TEST_F(OperatorTest, OtherBrokersAreAnotherKafka) {
  cluster_.Apply("totals", "  group: shared\n");
  cluster_.clock.Advance(absl::Seconds(10));
  cluster_.Apply("younger", "  group: shared\n");
  cluster_.Edit(kube::kStreamProcessors, "younger",
                [](Json* object) { (*object)["spec"]["kafka"]["bootstrapServers"] = "elsewhere:9092"; });
  cluster_.Settle();
  EXPECT_THAT(cluster_.Condition("younger", "Ready"), StartsWith("False TopicsPending"));
}

TEST_F(OperatorTest, ATopicsJobThatFailedIsMadeAnewAndTheReasonIsReady) {
  cluster_.Apply("totals");
  cluster_.Settle();
  const std::string first = kube::UidOf(cluster_.server.All(kube::kJobs).front());
  cluster_.EndJob(false,
                  R"({"ok":false,"reason":"TopicMissing","message":"topic payments does not exist","retry":false})");
  cluster_.Settle();
  EXPECT_EQ(Ready(), "False TopicMissing: topic payments does not exist");
  EXPECT_THAT(cluster_.Condition("totals", "Stalled"), StartsWith("True TopicMissing"));
  EXPECT_EQ(kube::UidOf(cluster_.server.All(kube::kJobs).front()), first);
  cluster_.Pass(absl::Seconds(7));
  const Json second = cluster_.server.All(kube::kJobs).front();
  EXPECT_NE(kube::UidOf(second), first);
  EXPECT_EQ(second.at("metadata").at("annotations").at("millstream.dev/attempt"), "2");
  // What was wrong stays to be read while it is tried again.
  cluster_.Pass(absl::Seconds(10));
  EXPECT_EQ(Ready(), "False TopicMissing: topic payments does not exist");
  EXPECT_THAT(cluster_.Condition("totals", "Stalled"), StartsWith("True TopicMissing"));
  cluster_.EndJobWell();
  cluster_.Settle();
  EXPECT_THAT(cluster_.Condition("totals", "TopicsReady"), StartsWith("True TopicsReady"));
  EXPECT_EQ(cluster_.Condition("totals", "Stalled"), "");
  EXPECT_TRUE(cluster_.Has(kube::kStatefulSets, "totals"));
}

TEST_F(OperatorTest, ANewManifestIsCheckedBeforeTheWorkloadFollows) {
  MakeRunning();
  const std::string first = cluster_.Names(kube::kJobs).front();
  const Json workload = cluster_.Read(kube::kStatefulSets, "totals").at("spec");
  cluster_.Apply("totals", "  stores: [{name: sums}]\n");
  cluster_.Settle();
  ASSERT_EQ(cluster_.Names(kube::kJobs).size(), 1u);
  EXPECT_NE(cluster_.Names(kube::kJobs).front(), first);
  EXPECT_THAT(Ready(), StartsWith("False TopicsPending"));
  EXPECT_EQ(cluster_.Read(kube::kStatefulSets, "totals").at("spec"), workload);
  cluster_.Remove(kube::kPods, first + "-abcde");
  cluster_.EndJobWell();
  cluster_.Settle();
  EXPECT_NE(cluster_.Read(kube::kStatefulSets, "totals").at("spec").at("template"), workload.at("template"));
}

TEST_F(OperatorTest, AJobThatIsGoneAfterItsHourIsNotRunAgain) {
  MakeRunning();
  cluster_.Remove(kube::kJobs, cluster_.Names(kube::kJobs).front());
  cluster_.Pass(absl::Minutes(1));
  EXPECT_THAT(cluster_.Names(kube::kJobs), IsEmpty());
  EXPECT_EQ(cluster_.Condition("totals", "TopicsReady"), "True TopicsReady: 3 topics");
  cluster_.RestartOperator();
  cluster_.Pass(absl::Minutes(1));
  EXPECT_THAT(cluster_.Names(kube::kJobs), IsEmpty());
  EXPECT_EQ(cluster_.Condition("totals", "TopicsReady"), "True TopicsReady: 3 topics");
}

TEST_F(OperatorTest, AMissingSecretIsReadFromThePod) {
  cluster_.Apply("totals");
  cluster_.Settle();
  const Json job = cluster_.server.All(kube::kJobs).front();
  const std::string pod = kube::KeyOf(job).name + "-abcde";
  cluster_.EditPod(pod, [&](Json* object) {
    (*object)["metadata"]["labels"] = job.at("spec").at("template").at("metadata").at("labels");
    (*object)["metadata"]["creationTimestamp"] = "2023-11-14T22:13:20Z";
    (*object)["metadata"]["ownerReferences"] = Json::array();
    (*object)["metadata"]["ownerReferences"].push_back(Json{{"uid", kube::UidOf(job)}, {"controller", true}});
    const Json waiting = {{"reason", "ContainerCreating"}};
    (*object)["status"]["containerStatuses"] = Json::array();
    (*object)["status"]["containerStatuses"].push_back(Json{{"name", "topics"}, {"state", {{"waiting", waiting}}}});
  });
  const std::string uid = kube::UidOf(cluster_.Read(kube::kPods, pod));
  cluster_.Edit(kube::Resource{"", "v1", "events", "Event"}, "mount", [&](Json* event) {
    (*event)["involvedObject"]["uid"] = uid;
    (*event)["reason"] = "FailedMount";
    (*event)["lastTimestamp"] = "2023-11-14T22:13:30Z";
    (*event)["message"] =
        "MountVolume.SetUp failed for volume \"millstream-secrets\" : secret \"kafka-user\" not found";
  });
  cluster_.Pass(absl::Seconds(20));
  EXPECT_THAT(Ready(), StartsWith("False SecretNotFound: "));
  EXPECT_THAT(Ready(), HasSubstr("secret \"kafka-user\" not found"));
}

TEST_F(OperatorTest, WhatAContainerWaitsForIsWhyItIsNotReady) {
  cluster_.Apply("totals");
  cluster_.Settle();
  cluster_.EndJobWell();
  cluster_.Settle();
  cluster_.RunPods("totals", false);
  const auto wait = [&](const std::string& reason, const std::string& message, const Json& last = Json()) {
    cluster_.EditPod("totals-0", [&](Json* pod) {
      Json status = {{"name", "worker"}, {"image", "registry.example.com/totals:1"}};
      status["state"]["waiting"] = {{"reason", reason}, {"message", message}};
      if (!last.is_null()) status["lastState"]["terminated"] = last;
      (*pod)["status"]["containerStatuses"] = Json::array();
      (*pod)["status"]["containerStatuses"].push_back(std::move(status));
    });
    cluster_.Settle();
    return Ready();
  };
  EXPECT_EQ(wait("ErrImagePull", "not found"),
            "False ErrImagePull: pod totals-0: container worker: not found (image registry.example.com/totals:1)");
  EXPECT_EQ(wait("CreateContainerConfigError", "secret \"db\" not found"),
            "False SecretNotFound: pod totals-0: container worker: secret \"db\" not found");
  const Json crashed = {{"exitCode", 3}, {"reason", "Error"}, {"message", "ImportError: no module named orders\n"}};
  EXPECT_EQ(wait("CrashLoopBackOff", "back-off 40s restarting", crashed),
            "False CrashLoopBackOff: pod totals-0: container worker ended with exit code 3: ImportError: no module "
            "named orders");
  const Json killed = {{"exitCode", 137}, {"reason", "OOMKilled"}};
  EXPECT_THAT(wait("CrashLoopBackOff", "back-off 40s restarting", killed),
              StartsWith("False OOMKilled: pod totals-0: container worker was killed at its memory limit"));
}

TEST_F(OperatorTest, WhatASidecarLacksIsWhyItIsNotReady) {
  cluster_.Apply("totals");
  cluster_.Settle();
  cluster_.EndJobWell();
  cluster_.Settle();
  Json answer = Answer(0);
  answer["workers"] = 0;
  answer["conditions"].push_back(Json{{"reason", "WorkerNotConnected"}, {"message", "no worker for 1m"}});
  cluster_.sidecars.answers["totals-0"] = answer;
  cluster_.RunPods("totals", false);
  cluster_.Pass(absl::Seconds(40));
  EXPECT_EQ(Ready(), "False WorkerNotConnected: no worker for 1m");
  EXPECT_THAT(cluster_.Condition("totals", "Reconciling"), StartsWith("True StartingPods"));
}

TEST_F(OperatorTest, APausedReconciliationChangesNothing) {
  MakeRunning();
  cluster_.Edit(kube::kStreamProcessors, "totals", [](Json* object) {
    (*object)["metadata"]["annotations"]["millstream.dev/pause-reconciliation"] = "true";
    (*object)["spec"]["replicas"] = 3;
  });
  cluster_.Settle();
  EXPECT_THAT(cluster_.Condition("totals", "Reconciling"), StartsWith("True ReconciliationPaused"));
  EXPECT_EQ(cluster_.Status("totals").at("observedGeneration"), 1);
  EXPECT_EQ(cluster_.Read(kube::kStatefulSets, "totals").at("spec").at("replicas"), 1);
  cluster_.Edit(kube::kStreamProcessors, "totals", [](Json* object) {
    (*object)["metadata"]["annotations"].erase("millstream.dev/pause-reconciliation");
  });
  cluster_.Settle();
  EXPECT_EQ(cluster_.Read(kube::kStatefulSets, "totals").at("spec").at("replicas"), 3);
  EXPECT_EQ(cluster_.Status("totals").at("observedGeneration"), 2);
}

TEST_F(OperatorTest, APodTemplateThatTheServerRefusesIsTold) {
  MakeRunning();
  cluster_.Edit(kube::kStreamProcessors, "totals",
                [](Json* object) { (*object)["spec"]["podTemplate"]["spec"]["nodeSelektor"]["disk"] = "fast"; });
  cluster_.faults = [](const kube::HttpCall& call) -> std::optional<kube::FakeApiServer::Fault> {
    if (call.method != "PATCH" || call.target.find("/statefulsets/") == std::string::npos) return std::nullopt;
    return Refuse(422);
  };
  cluster_.Settle();
  EXPECT_THAT(Ready(), StartsWith("False InvalidPodTemplate: the API server refuses StatefulSet totals"));
  EXPECT_THAT(cluster_.Condition("totals", "Stalled"), StartsWith("True InvalidPodTemplate"));
  EXPECT_THAT(cluster_.Condition("totals", "WorkloadReady"), StartsWith("True"));
  cluster_.faults = nullptr;
  cluster_.Edit(kube::kStreamProcessors, "totals", [](Json* object) { (*object)["spec"].erase("podTemplate"); });
  cluster_.Settle();
  EXPECT_THAT(Ready(), StartsWith("True Processing"));
}

TEST_F(OperatorTest, PodsOfAStatefulSetThatIsMadeAnewGoWithTheirProcessor) {
  MakeRunning();
  const std::string pod_uid = kube::UidOf(cluster_.Read(kube::kPods, "totals-0"));
  cluster_.Apply("totals", "  storage: {size: 1Gi}\n");
  cluster_.Settle();
  // No controller has adopted the pod yet.
  const Json owners = cluster_.Read(kube::kPods, "totals-0").at("metadata").at("ownerReferences");
  ASSERT_EQ(owners.size(), 1u);
  EXPECT_EQ(owners.at(0).at("uid"), kube::UidOf(cluster_.Read(kube::kStreamProcessors, "totals")));
  EXPECT_FALSE(owners.at(0).contains("controller"));
  EXPECT_EQ(kube::UidOf(cluster_.Read(kube::kPods, "totals-0")), pod_uid);
  EXPECT_TRUE(cluster_.Read(kube::kStatefulSets, "totals").at("spec").contains("volumeClaimTemplates"));
}

TEST_F(OperatorTest, TopicsGoWithAProcessorThatSaysSo) {
  MakeRunning("  internalTopics: {whenDeleted: Delete}\n  stores: [{name: sums}]\n");
  EXPECT_EQ(cluster_.Read(kube::kStreamProcessors, "totals").at("metadata").at("finalizers").at(0),
            "millstream.dev/topics");
  cluster_.Edit(kube::kStreamProcessors, "totals",
                [](Json* object) { (*object)["metadata"]["deletionTimestamp"] = "2023-11-14T22:14:00Z"; });
  cluster_.Settle();
  EXPECT_FALSE(cluster_.Has(kube::kStatefulSets, "totals"));
  EXPECT_THAT(Ready(), StartsWith("False Deleting"));
  for (const std::string& job : cluster_.Names(kube::kJobs)) EXPECT_THAT(job, StartsWith("totals-t-"));
  cluster_.Remove(kube::kPods, "totals-0");
  cluster_.Settle();
  ASSERT_THAT(cluster_.Names(kube::kJobs), Contains(StartsWith("totals-d-")));
  for (const std::string& job : cluster_.Names(kube::kJobs)) {
    if (job.starts_with("totals-t-")) cluster_.Remove(kube::kJobs, job);
  }
  const Json args =
      cluster_.server.All(kube::kJobs).front().at("spec").at("template").at("spec").at("containers").at(0).at("args");
  EXPECT_EQ(args.back(), "--delete");
  EXPECT_TRUE(cluster_.Has(kube::kStreamProcessors, "totals"));
  cluster_.EndJob(true, R"({"ok":true,"reason":"TopicsDeleted","message":"1 topic"})");
  cluster_.Settle();
  EXPECT_FALSE(cluster_.Has(kube::kStreamProcessors, "totals"));
}

TEST_F(OperatorTest, AProcessorIsNotHeldForEverByItsTopics) {
  MakeRunning("  internalTopics: {whenDeleted: Delete}\n  stores: [{name: sums}]\n");
  cluster_.Edit(kube::kStreamProcessors, "totals", [this](Json* object) {
    (*object)["metadata"]["deletionTimestamp"] =
        absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", cluster_.clock.WallTime(), absl::UTCTimeZone());
  });
  cluster_.Settle();
  cluster_.Remove(kube::kPods, "totals-0");
  cluster_.Pass(absl::Minutes(9));
  EXPECT_TRUE(cluster_.Has(kube::kStreamProcessors, "totals"));
  cluster_.Pass(absl::Minutes(2));
  EXPECT_FALSE(cluster_.Has(kube::kStreamProcessors, "totals"));
  EXPECT_THAT(cluster_.Events(), Contains(HasSubstr("orders.totals-sums-changelog")));
}

TEST_F(OperatorTest, ANamespaceThatGoesIsNotHeldUp) {
  MakeRunning("  internalTopics: {whenDeleted: Delete}\n  stores: [{name: sums}]\n");
  cluster_.Edit(kube::kStreamProcessors, "totals", [this](Json* object) {
    (*object)["metadata"]["deletionTimestamp"] =
        absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", cluster_.clock.WallTime(), absl::UTCTimeZone());
  });
  cluster_.Remove(kube::kPods, "totals-0");
  cluster_.terminating = true;
  cluster_.Pass(absl::Seconds(10));
  EXPECT_FALSE(cluster_.Has(kube::kStreamProcessors, "totals"));
}

TEST_F(OperatorTest, NothingIsSaidOfANamespaceThatGoes) {
  cluster_.terminating = true;
  cluster_.Apply("totals");
  cluster_.Pass(absl::Seconds(10));
  EXPECT_EQ(Ready(), "");
  EXPECT_THAT(cluster_.Events(), IsEmpty());
}

TEST_F(OperatorTest, WhatIsNoLongerWantedGoes) {
  OperatorOptions with = SmallCluster::DefaultOptions();
  with.model.network_policies = true;
  cluster_.RestartOperator(with);
  cluster_.Apply("totals");
  cluster_.Settle();
  EXPECT_TRUE(cluster_.Has(kube::kNetworkPolicies, "totals"));
  cluster_.RestartOperator();
  cluster_.Settle();
  EXPECT_FALSE(cluster_.Has(kube::kNetworkPolicies, "totals"));
}

TEST_F(OperatorTest, PodMonitorsAreMadeOnRequest) {
  OperatorOptions with = SmallCluster::DefaultOptions();
  with.model.pod_monitors = true;
  cluster_.RestartOperator(with);
  cluster_.Apply("totals");
  cluster_.Settle();
  EXPECT_TRUE(cluster_.Has(kube::kPodMonitors, "totals"));
}

TEST_F(OperatorTest, AClusterWithoutPodMonitorsIsNoObstacle) {
  cluster_.faults = [](const kube::HttpCall& call) -> std::optional<kube::FakeApiServer::Fault> {
    if (call.target.find("/podmonitors") == std::string::npos) return std::nullopt;
    return Refuse(404);
  };
  OperatorOptions with = SmallCluster::DefaultOptions();
  with.model.pod_monitors = true;
  cluster_.RestartOperator(with);
  cluster_.Apply("totals");
  cluster_.Settle();
  EXPECT_THAT(Ready(), StartsWith("False TopicsPending"));
}

TEST_F(OperatorTest, NewPodsAreAskedBeforeTheStatusIsTakenForComplete) {
  cluster_.Apply("totals");
  cluster_.Settle();
  cluster_.EndJobWell();
  cluster_.Settle();
  cluster_.RunPods("totals");
  cluster_.Pass(absl::Seconds(20));
  EXPECT_THAT(cluster_.Condition("totals", "Reconciling"), StartsWith("True"));
  EXPECT_THAT(cluster_.Condition("totals", "Restored"), StartsWith("Unknown NotReported"));
  // One that cannot be reached is not waited for without end.
  cluster_.Pass(absl::Minutes(2));
  EXPECT_EQ(cluster_.Condition("totals", "Reconciling"), "");
  EXPECT_THAT(Ready(), StartsWith("True Processing"));
}

TEST_F(OperatorTest, AQuotaThatIsFullIsTriedAgainSoon) {
  cluster_.faults = [](const kube::HttpCall& call) -> std::optional<kube::FakeApiServer::Fault> {
    if (call.method != "PATCH" || call.target.find("/services/") == std::string::npos) return std::nullopt;
    return Refuse(403);
  };
  cluster_.Apply("totals");
  cluster_.Pass(absl::Minutes(10));
  EXPECT_THAT(Ready(), StartsWith("False Forbidden"));
  cluster_.faults = nullptr;
  cluster_.Pass(absl::Seconds(35));
  EXPECT_THAT(Ready(), StartsWith("False TopicsPending"));
}

TEST_F(OperatorTest, TroubleOfTheApiServerIsNotTheProcessors) {
  MakeRunning();
  const Json before = cluster_.Status("totals");
  cluster_.faults = [](const kube::HttpCall& call) -> std::optional<kube::FakeApiServer::Fault> {
    if (call.method == "GET") return std::nullopt;
    return Refuse(503);
  };
  cluster_.Edit(kube::kServices, "totals", [](Json* object) { *object = Json(); });
  cluster_.Pass(absl::Minutes(1));
  EXPECT_EQ(cluster_.Status("totals"), before);
  cluster_.faults = nullptr;
  cluster_.Pass(absl::Minutes(3));
  EXPECT_TRUE(cluster_.Has(kube::kServices, "totals"));
  EXPECT_THAT(Ready(), StartsWith("True Processing"));
}

TEST_F(OperatorTest, AutoscalingGoesOnWhereItStood) {
  MakeRunning("  autoscale: {minReplicas: 1, maxReplicas: 4, targetLag: 20s}\n");
  EXPECT_EQ(cluster_.Status("totals").at("autoscale").at("desiredReplicas"), 1);
  EXPECT_NE(cluster_.Status("totals").at("autoscale").at("reason"), "");
  // As if it had scaled out.
  cluster_.Edit(kube::kStreamProcessors, "totals",
                [](Json* object) { (*object)["status"]["autoscale"]["desiredReplicas"] = 3; });
  cluster_.Edit(kube::kStreamProcessors, "totals",
                [](Json* object) { (*object)["spec"]["inputs"][0]["topic"] = "a b"; });
  cluster_.Pass(absl::Seconds(1));
  EXPECT_THAT(Ready(), StartsWith("False InvalidSpec"));
  EXPECT_EQ(cluster_.Status("totals").at("autoscale").at("desiredReplicas"), 3);
  cluster_.Edit(kube::kStreamProcessors, "totals",
                [](Json* object) { (*object)["spec"]["inputs"][0]["topic"] = "payments"; });
  cluster_.Pass(absl::Seconds(1));
  EXPECT_EQ(cluster_.Read(kube::kStatefulSets, "totals").at("spec").at("replicas"), 3);
  // spec.replicas is only where it starts.
  EXPECT_EQ(cluster_.Read(kube::kStreamProcessors, "totals").at("spec").value("replicas", 1), 1);
}

TEST_F(OperatorTest, WhoDoesNotLeadWritesNothing) {
  cluster_.the_operator->Follow();
  cluster_.Apply("totals");
  cluster_.Settle();
  EXPECT_THAT(cluster_.Names(kube::kConfigMaps), IsEmpty());
  cluster_.the_operator->Lead();
  cluster_.Settle();
  EXPECT_THAT(cluster_.Names(kube::kConfigMaps), ElementsAre("totals"));
}

TEST_F(OperatorTest, GaugesCountProcessorsByCondition) {
  MakeRunning();
  cluster_.the_operator->UpdateGauges();
  const std::string text = cluster_.metrics->Expose();
  EXPECT_THAT(text, HasSubstr("millstream_operator_processors{condition=\"Ready\",status=\"True\"} 1"));
  EXPECT_THAT(text, HasSubstr("millstream_operator_processors{condition=\"Ready\",status=\"False\"} 0"));
  EXPECT_THAT(text, HasSubstr("millstream_operator_api_calls_total{"));
}

}  // namespace
}  // namespace millstream::reconcile
