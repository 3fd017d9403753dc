#include "operator/model/observation.h"

#include <string>

#include "gtest/gtest.h"

namespace millstream::model {
namespace {

const absl::Time kStart = absl::FromCivil(absl::CivilSecond(2026, 11, 30, 12, 0, 0), absl::UTCTimeZone());

Json PodJson(const std::string& status) {
  Json pod = Json::parse(R"({"metadata":{"name":"totals-1","uid":"u","creationTimestamp":"2026-11-30T11:59:58Z",
      "annotations":{"millstream.dev/template-hash":"t","millstream.dev/spec-hash":"s","millstream.dev/orders":"{}",
                     "millstream.dev/drain-since":"2026-11-30T12:01:02.500Z"}},
      "spec":{"nodeName":"node-1","volumes":[{"name":"state","persistentVolumeClaim":{"claimName":"state-totals-1"}}]}})");
  pod["status"] = Json::parse(status);
  return pod;
}

TEST(ReadPodTest, AReadyOne) {
  const PodSeen pod = ReadPod(PodJson(R"({"phase":"Running","podIP":"10.0.0.7","startTime":"2026-11-30T12:00:00Z",
      "conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-11-30T12:00:09Z"}],
      "containerStatuses":[{"name":"worker","restartCount":2,"state":{"running":{}}}]})"),
                              "totals");
  EXPECT_EQ(pod.name, "totals-1");
  EXPECT_EQ(pod.ordinal, 1);
  EXPECT_EQ(pod.template_hash, "t");
  EXPECT_EQ(pod.spec_hash, "s");
  EXPECT_EQ(pod.orders, "{}");
  EXPECT_EQ(pod.drain_since, kStart + absl::Seconds(62.5));
  EXPECT_EQ(pod.created, kStart - absl::Seconds(2));
  EXPECT_TRUE(pod.ready);
  EXPECT_TRUE(pod.ever_ready);
  EXPECT_EQ(pod.ready_changed, kStart + absl::Seconds(9));
  EXPECT_FALSE(pod.terminating);
  EXPECT_TRUE(pod.on_volume);
  EXPECT_EQ(pod.node, "node-1");
  EXPECT_EQ(pod.ip, "10.0.0.7");
  EXPECT_EQ(pod.waiting_reason, "");
}

TEST(ReadPodTest, NeverReadyIsNotReadySinceItStarted) {
  const auto at = [](const char* changed) {
    return ReadPod(PodJson(std::string(R"({"startTime":"2026-11-30T12:00:00Z","conditions":
        [{"type":"Ready","status":"False","lastTransitionTime":")") +
                           changed + R"("}]})"),
                   "totals");
  };
  EXPECT_FALSE(at("2026-11-30T12:00:00Z").ever_ready);
  EXPECT_FALSE(at("2026-11-30T12:00:05Z").ever_ready);
  EXPECT_TRUE(at("2026-11-30T12:00:06Z").ever_ready);
  EXPECT_FALSE(ReadPod(PodJson("{}"), "totals").ever_ready);
}

TEST(ReadPodTest, WhatItWaitsFor) {
  struct Case {
    const char* status;
    const char *container, *reason, *message;
  };
  for (
      const Case& one : {
          Case{
              R"({"containerStatuses":[{"name":"worker","state":{"waiting":{"reason":"ErrImagePull","message":"no"}}}]})",
              "worker", "ErrImagePull", "no"},
          Case{R"({"containerStatuses":[{"name":"worker","state":{"waiting":{"reason":"PodInitializing"}}}]})", "", "",
               ""},
          Case{
              R"({"containerStatuses":[{"name":"worker","state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off"}},
                    "lastState":{"terminated":{"reason":"Error","exitCode":3,"message":"no such table"}}}]})",
              "worker", "CrashLoopBackOff", "back-off; it ended with Error, exit code 3: no such table"},
          Case{
              R"({"containerStatuses":[{"name":"worker","state":{"terminated":{"reason":"OOMKilled","exitCode":137}}}]})",
              "worker", "OOMKilled", "exit code 137"},
          Case{
              R"({"initContainerStatuses":[{"name":"setup","state":{"terminated":{"reason":"Completed","exitCode":0}}}]})",
              "", "", ""},
          Case{
              R"({"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3 nodes"}]})",
              "", "Unschedulable", "0/3 nodes"},
      }) {
    const PodSeen pod = ReadPod(PodJson(one.status), "totals");
    EXPECT_EQ(pod.waiting_container, one.container) << one.status;
    EXPECT_EQ(pod.waiting_reason, one.reason) << one.status;
    EXPECT_EQ(pod.waiting_message, one.message) << one.status;
  }
}

TEST(ReadPodTest, OrdinalsAreTheSetsOwnNames) {
  for (const char* name : {"totals", "totals-", "totals-x", "totals-01", "totals--1", "totals-+1", "totals-1-2",
                           "other-1", "totals-99999999999"}) {
    EXPECT_EQ(ReadPod(Json{{"metadata", {{"name", name}}}}, "totals").ordinal, -1) << name;
  }
  EXPECT_EQ(ReadPod(Json{{"metadata", {{"name", "totals-12"}}}}, "totals").ordinal, 12);
}

TEST(ReadTest, WhatIsReadMayBeAnything) {
  for (const char* text : {"null", "5", "[]", "{}", R"({"metadata":5,"status":[],"spec":"x"})",
                           R"({"metadata":{"annotations":[],"generation":"x"},"status":{"conditions":{}}})",
                           R"({"status":{"conditions":[5,{"type":5}],"containerStatuses":[null,{"state":5}]}})"}) {
    const Json json = Json::parse(text);
    EXPECT_EQ(ReadPod(json, "totals").ordinal, -1) << text;
    EXPECT_EQ(ReadClaim(json, "totals").ordinal, -1) << text;
    EXPECT_EQ(ReadSet(json).generation, 0) << text;
    EXPECT_TRUE(ReadObservation("totals", &json, {json}, {json}).pods.empty()) << text;
  }
}

TEST(ReadClaimTest, SizesAndConditions) {
  const ClaimSeen claim = ReadClaim(Json::parse(R"({"metadata":{"name":"state-totals-3","uid":"c"},
      "spec":{"storageClassName":"fast","resources":{"requests":{"storage":"20Gi"}}},
      "status":{"phase":"Bound","capacity":{"storage":"10Gi"},"conditions":[
        {"type":"FileSystemResizePending","status":"True","lastTransitionTime":"2026-11-30T12:00:00Z"},
        {"type":"ControllerResizeError","status":"True","message":"quota"},
        {"type":"NodeResizeError","status":"False","message":"x"}]}})"),
                                    "totals");
  EXPECT_EQ(claim.ordinal, 3);
  EXPECT_EQ(claim.asked_text, "20Gi");
  EXPECT_EQ(claim.asked, int64_t{20} << 30);
  EXPECT_EQ(claim.granted, int64_t{10} << 30);
  EXPECT_EQ(claim.storage_class, "fast");
  EXPECT_EQ(claim.file_system_waits_since, kStart);
  EXPECT_EQ(claim.resize_error, "quota");
  EXPECT_FALSE(claim.lost);
  EXPECT_TRUE(ReadClaim(Json::parse(R"({"status":{"phase":"Lost"}})"), "totals").lost);
}

TEST(ReadObservationTest, InOrderAndWithoutStrangers) {
  const auto named = [](const char* name) { return Json{{"metadata", {{"name", name}}}}; };
  const Observation observation = ReadObservation(
      "totals", nullptr, {named("totals-10"), named("totals-2"), named("stranger-0")}, {named("state-totals-0")});
  EXPECT_FALSE(observation.set.has_value());
  ASSERT_EQ(observation.pods.size(), 2u);
  EXPECT_EQ(observation.pods[0].ordinal, 2);
  EXPECT_NE(observation.FindPod(10), nullptr);
  EXPECT_EQ(observation.FindPod(0), nullptr);
  EXPECT_NE(observation.FindClaim(0), nullptr);
}

constexpr char kAnswer[] = R"({"processor":"shop/totals","group":"shop.totals","member":"totals-0","version":"0.1.0",
  "guarantee":"ExactlyOnce","state":"Running","drain":"Drained","inGroup":true,"ready":true,"workers":1,
  "summary":{"total":12,"active":2,"restoring":1,"standby":1,"stopped":1},"lag":{"records":120,"seconds":1.5},
  "firstError":{"task":3,"input":"orders","topic":"orders","partition":3,"offset":17,"message":"no such column"},
  "tasks":[{"task":0,"state":"active","inputs":[{"lag":5},{"lag":null},{"lag":7}],"records":100},
           {"task":1,"state":"active","inputs":[{"lag":null}],"records":50},
           {"task":2,"state":"restoring","inputs":[],"restore":{"bytesLeft":2097152,"etaSeconds":9},"records":0},
           {"task":3,"state":"stopped","error":"no such column","inputs":[],"records":0},
           {"task":4,"state":"standby","inputs":[],"records":0}],
  "conditions":[{"reason":"BrokersUnreachable","message":"kafka:9092 does not answer"},{"reason":"Other","message":"x"}]})";

TEST(SidecarReportTest, AnAnswer) {
  const absl::StatusOr<SidecarReport> report = ReadSidecarReport(Json::parse(kAnswer), kStart, "u");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->heard, kStart);
  EXPECT_EQ(report->version, "0.1.0");
  EXPECT_EQ(report->state, "Running");
  EXPECT_TRUE(report->drained);
  EXPECT_TRUE(report->ready);
  EXPECT_EQ(report->workers, 1);
  EXPECT_EQ(report->partitions, 12);
  EXPECT_EQ(report->lag, absl::Seconds(1.5));
  EXPECT_EQ(report->Count(TaskSeen::State::kActive), 2);
  EXPECT_TRUE(report->Holds(4, TaskSeen::State::kStandby));
  EXPECT_FALSE(report->Holds(4, TaskSeen::State::kActive));
  EXPECT_EQ(report->tasks[0].lag, 12);
  EXPECT_EQ(report->tasks[1].lag, std::nullopt);
  EXPECT_EQ(report->first_error->offset, 17);
  EXPECT_EQ(report->problem->reason, "BrokersUnreachable");
}

TEST(SidecarReportTest, LessOrOtherThingsAreNoHarm) {
  EXPECT_FALSE(ReadSidecarReport(Json::parse("{}"), kStart, "u").ok());
  EXPECT_FALSE(ReadSidecarReport(Json::parse("[]"), kStart, "u").ok());
  const absl::StatusOr<SidecarReport> report = ReadSidecarReport(
      Json::parse(R"({"tasks":[5,{"task":"x"},{"task":1,"state":"whatever","records":-3}],"drain":true,"lag":[],
                      "summary":{"total":99999999999},"firstError":null,"conditions":[7]})"),
      kStart, "u");
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->tasks.size(), 1u);
  EXPECT_EQ(report->tasks[0].state, TaskSeen::State::kIdle);
  EXPECT_EQ(report->tasks[0].records, 0);
  EXPECT_FALSE(report->drained);
  EXPECT_EQ(report->partitions, 1'000'000);
  EXPECT_FALSE(report->first_error.has_value());
}

TEST(TaskTotalsTest, EachTaskOnce) {
  SidecarReport a = *ReadSidecarReport(Json::parse(kAnswer), kStart, "a");
  SidecarReport b;
  b.lag = absl::Seconds(9);
  const auto task = [](int number, TaskSeen::State state) {
    TaskSeen seen;
    seen.task = number;
    seen.state = state;
    return seen;
  };
  b.tasks = {task(4, TaskSeen::State::kActive), task(2, TaskSeen::State::kIdle), task(0, TaskSeen::State::kStandby)};
  b.tasks[0].lag = 30;
  b.tasks[0].records = 10;
  const TaskTotals totals = TotalsOf({&a, &b});
  EXPECT_EQ(totals.total, 12);
  EXPECT_EQ(totals.running, 3);  // 0, 1, 4
  EXPECT_EQ(totals.restoring, 1);
  EXPECT_EQ(totals.standby, 2);
  EXPECT_EQ(totals.stopped, 1);
  EXPECT_EQ(totals.lag_records, 42);
  EXPECT_EQ(totals.lag, absl::Seconds(9));
  EXPECT_EQ(totals.bytes_left, 2 << 20);
  EXPECT_EQ(totals.time_left, absl::Seconds(9));
  EXPECT_EQ(totals.records, 160);
  EXPECT_EQ(totals.first_error->task, 3);
  EXPECT_EQ(TotalsOf({}).total, 0);
  EXPECT_EQ(TotalsOf({}).lag_records, std::nullopt);
}

}  // namespace
}  // namespace millstream::model
