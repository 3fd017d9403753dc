// What NextSteps does with volumes, and with what cannot be changed in a StatefulSet.
#include <string>

#include "gtest/gtest.h"
#include "operator/model/set_change.h"
#include "operator/model/testing/workload.h"

namespace millstream::model {
namespace {

constexpr char kTen[] = "  replicas: 2\n  storage: {size: 10Gi, storageClassName: fast}\n";
constexpr char kTwenty[] = "  replicas: 2\n  storage: {size: 20Gi, storageClassName: fast}\n";
constexpr char kNone[] = "  replicas: 2\n";

// As the API server gives it back, with what it fills in.
void FillIn(Json* spec) {
  Json& claim = (*spec)["volumeClaimTemplates"][0];
  claim["spec"]["volumeMode"] = "Filesystem";
  claim["status"] = Json{{"phase", "Pending"}};
  claim["metadata"]["creationTimestamp"] = nullptr;
}

TEST(SetChangeTest, WhatTheApiServerFillsInIsNoDifference) {
  const SeenWorkload work(kTen);
  Json there = work.set.at("spec");
  FillIn(&there);
  const SetChange change = CompareSets(work.set.at("spec"), there);
  EXPECT_FALSE(change.recreate) << change.why;
  EXPECT_TRUE(change.refused.empty());
  EXPECT_EQ(change.claim_templates, work.set.at("spec").at("volumeClaimTemplates"));
}

TEST(SetChangeTest, OneSizeInTwoWritings) {
  const SeenWorkload work("  storage: {size: 1024Mi}\n");
  Json there = work.set.at("spec");
  there["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = "1Gi";
  EXPECT_FALSE(CompareSets(work.set.at("spec"), there).recreate);
}

TEST(SetChangeTest, EveryFieldThatCannotBeChanged) {
  const SeenWorkload work(kTen);
  for (const char* field : {"serviceName", "podManagementPolicy", "selector"}) {
    Json there = work.set.at("spec");
    there[field] = "another";
    const SetChange change = CompareSets(work.set.at("spec"), there);
    EXPECT_TRUE(change.recreate) << field;
    EXPECT_NE(change.why.find(field), std::string::npos) << change.why;
    there.erase(field);
    EXPECT_TRUE(CompareSets(work.set.at("spec"), there).recreate) << field;
  }
}

TEST(StorageTest, VolumesGrow) {
  SeenWorkload work(kTen);
  work.AddClaim(0, "10Gi");
  work.AddClaim(1, "10Gi");
  work.AddClaim(2, "10Gi");  // left by a scale-in
  const std::string before = work.TemplateHash();
  work.Edit(kTwenty);
  EXPECT_EQ(work.TemplateHash(), before);  // no pod is rolled for it
  Decision decision = work.Next();
  ASSERT_EQ(TextOf(decision.steps), "grow state-totals-0 20Gi, grow state-totals-1 20Gi, recreate totals");
  EXPECT_TRUE(decision.hold_set);
  EXPECT_EQ(decision.reason, "RecreatingStatefulSet");
  EXPECT_EQ(decision.steps[2].uid, "set-1");
  EXPECT_EQ(decision.steps[2].note,
            "the StatefulSet is made anew while its pods go on: the volumes grow from 10Gi to 20Gi");
  // It is going, gone, made anew: nothing happens to the pods.
  work.observed.set->terminating = true;
  decision = work.Next();
  EXPECT_TRUE(decision.hold_set);
  EXPECT_EQ(decision.reason, "RecreatingStatefulSet");
  work.observed.set.reset();
  decision = work.Next();
  EXPECT_FALSE(decision.hold_set);
  EXPECT_EQ(decision.replicas, 2);
  EXPECT_EQ(BytesAt(decision.stateful_set.at("spec").at("volumeClaimTemplates")[0],
                    {"spec", "resources", "requests", "storage"}),
            int64_t{20} << 30);
}

TEST(StorageTest, WhatIsSaidWhileTheyGrow) {
  SeenWorkload work(kTwenty);
  ClaimSeen& claim = work.AddClaim(0, "20Gi");
  claim.granted = int64_t{10} << 30;
  work.AddClaim(1, "20Gi");
  EXPECT_EQ(TextOf(work.Next().steps), "");
  EXPECT_EQ(work.Next().reason, "GrowingVolume");
  work.observed.claims[0].resize_error = "quota exceeded";
  ASSERT_EQ(work.Next().notes.size(), 1u);
  EXPECT_EQ(work.Next().notes[0], "the volume of claim state-totals-0 does not grow: quota exceeded");
}

TEST(StorageTest, AFileSystemThatWaitsForARestartGetsIt) {
  SeenWorkload work(kTwenty);
  work.AddClaim(0, "20Gi").file_system_waits_since = work.now - kFileSystemPatience;
  work.AddClaim(1, "20Gi");
  EXPECT_EQ(TextOf(work.Next().steps), "");
  EXPECT_EQ(work.Next().look_again, absl::Minutes(1));
  work.observed.claims[0].file_system_waits_since -= absl::Seconds(1);
  const Decision decision = work.Next();
  ASSERT_EQ(TextOf(decision.steps), "evict totals-0");
  EXPECT_EQ(decision.steps[0].note, "pod totals-0 is restarted in place so that its file system can grow");
  // Once: a restart that did not help is not done again.
  work.Pod(0).created = work.now - absl::Minutes(1);
  EXPECT_EQ(TextOf(work.Next().steps), "");
}

TEST(StorageTest, NeitherSmallerNorAnotherClass) {
  SeenWorkload work(kTwenty);
  work.AddClaim(0, "20Gi");
  work.Edit(kTen);
  Decision decision = work.Next();
  EXPECT_EQ(TextOf(decision.steps), "");
  EXPECT_FALSE(decision.hold_set);
  ASSERT_EQ(decision.notes.size(), 1u);
  EXPECT_NE(decision.notes[0].find("spec.storage.size is 10Gi, but the volumes have 20Gi"), std::string::npos)
      << decision.notes[0];
  // What is applied is what can be.
  EXPECT_EQ(decision.stateful_set.at("spec").at("volumeClaimTemplates"),
            work.observed.set->spec.at("volumeClaimTemplates"));

  work.Edit("  replicas: 2\n  storage: {size: 20Gi, storageClassName: slow, accessModes: [ReadWriteOncePod]}\n");
  decision = work.Next();
  EXPECT_EQ(TextOf(decision.steps), "");
  EXPECT_EQ(decision.notes.size(), 2u);
  EXPECT_EQ(decision.stateful_set.at("spec").at("volumeClaimTemplates"),
            work.observed.set->spec.at("volumeClaimTemplates"));
}

TEST(StorageTest, FromFoldersToVolumesAndBackPodByPod) {
  for (const auto& [from, to] : {std::pair{kNone, kTen}, std::pair{kTen, kNone}}) {
    SeenWorkload work(from);
    work.Edit(to);
    EXPECT_EQ(TextOf(work.Next().steps), "recreate totals");
    work.Settle();
    EXPECT_EQ(TextOf(work.Next().steps), "evict totals-1");
  }
}

TEST(StorageTest, ALostVolumeIsReplacedWhenItsPodFails) {
  SeenWorkload work(kTen);
  work.AddClaim(0, "10Gi").lost = true;
  work.AddClaim(1, "10Gi");
  EXPECT_EQ(TextOf(work.Next().steps), "");
  work.NotReady(0, absl::Seconds(1), true);
  const Decision decision = work.Next();
  ASSERT_EQ(TextOf(decision.steps), "delete state-totals-0, delete totals-0");
  EXPECT_EQ(decision.steps[0].uid, "claim-0");
  work.observed.claims[0].terminating = true;
  EXPECT_EQ(TextOf(work.Next().steps), "delete totals-0");
  // One that was left behind by a processor without volumes is nothing to its pods.
  work.Pod(0).on_volume = false;
  EXPECT_EQ(TextOf(work.Next().steps), "");
}

}  // namespace
}  // namespace millstream::model
