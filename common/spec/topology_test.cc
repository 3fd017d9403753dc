#include "common/spec/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/spec/manifest.h"

namespace millstream::spec {
namespace {

constexpr std::string_view kPipeline = R"(
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {name: totals}
spec:
  inputs: [{topic: orders}, {topic: prod.payments, name: payments, startFrom: {type: Latest}}]
  stores: [{name: totals}, {name: seen, backend: Memory, changelog: {enabled: false}}]
  outputs: [{topic: totals, create: {partitions: 4, replicationFactor: 3}}]
  errors: {onFailure: DeadLetter}
---
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {name: ranking}
spec:
  guarantee: AtLeastOnce
  inputs: [{topic: totals}]
  stores: [{name: ranking}]
  outputs: [{topic: ranking}]
)";

std::vector<StreamProcessorSpec> Pipeline() {
  ParseResult result = ParseManifests(kPipeline, "pipeline.yaml");
  EXPECT_TRUE(result.ok()) << ToText(result.diagnostics);
  std::vector<StreamProcessorSpec> processors;
  for (Manifest& manifest : result.manifests) processors.push_back(std::move(manifest.processor));
  return processors;
}

TEST(Topology, AsText) {
  EXPECT_EQ(ExplainText(Pipeline()), R"(processor default/totals  (group default.totals, ExactlyOnce)
  reads     orders, from the earliest record; keys by Murmur2
  reads     payments (topic prod.payments), from the latest record; keys by Murmur2
  keeps     totals, key-value, on disk, changelog default.totals-totals-changelog
  keeps     seen, key-value, in memory, a cache: no changelog
  writes    totals, created with 4 partitions, 3 copies; keys by Murmur2
  failures  the record goes to topic default.totals-dead-letter after 3 attempts
  commits   every 10ms to 100ms while records come

processor default/ranking  (group default.ranking, AtLeastOnce)
  reads     totals, from the earliest record; keys by Murmur2
  keeps     ranking, key-value, on disk, changelog default.ranking-ranking-changelog
  writes    ranking, which must exist; keys by Murmur2
  failures  the task stops after 3 attempts
  commits   every 10ms to 100ms while records come

partitions of default/totals
  count     as many as the inputs have; one task per partition number
  shared by default.totals-dead-letter
  shared by default.totals-totals-changelog
  shared by orders
  shared by prod.payments

partitions of default/ranking
  count     4, as created by an output; one task per partition number
  shared by default.ranking-ranking-changelog
  shared by totals
)");
}

TEST(Topology, AsMermaid) {
  EXPECT_EQ(ExplainMermaid(Pipeline()), R"(flowchart LR
  p0(["default/totals"])
  t1["orders"]
  t2["prod.payments"]
  s3[("totals")]
  t4["default.totals-totals-changelog"]:::internal
  s5[("seen")]
  t6["totals"]
  t7["default.totals-dead-letter"]:::internal
  p8(["default/ranking"])
  s9[("ranking")]
  t10["default.ranking-ranking-changelog"]:::internal
  t11["ranking"]
  t1 --> p0
  t2 --> p0
  p0 <--> s3
  s3 -.-> t4
  p0 <--> s5
  p0 --> t6
  p0 -. dead letters .-> t7
  t6 --> p8
  p8 <--> s9
  s9 -.-> t10
  p8 --> t11
  classDef internal stroke-dasharray: 4 3
)");
}

TEST(Topology, AsJsonNamesWhoReadsAndWrites) {
  std::string json = ExplainJson(Pipeline());
  EXPECT_THAT(json, testing::HasSubstr("\"topic\": \"totals\",\n      \"writtenBy\": [\n        \"default/totals\"\n   "
                                       "   ],\n      \"readBy\": [\n        \"default/ranking\""));
}

TEST(PartitionGroups, JoinWhatSharesAnInput) {
  std::vector<StreamProcessorSpec> processors = Pipeline();
  StreamProcessorSpec third;
  third.name = "third";
  third.inputs = {{.name = "orders", .topic = "orders", .start_from = {}, .partitioner = {}, .prefetch = {}},
                  {.name = "totals", .topic = "totals", .start_from = {}, .partitioner = {}, .prefetch = {}}};
  processors.push_back(third);
  std::vector<PartitionGroup> groups = PartitionGroupsOf(processors);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].partitions, 4);
  EXPECT_EQ(groups[0].processors.size(), 3u);
  EXPECT_THAT(groups[0].topics, testing::Contains("prod.payments"));
}

}  // namespace
}  // namespace millstream::spec
