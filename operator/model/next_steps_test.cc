#include "operator/model/next_steps.h"

#include <string>

#include "gtest/gtest.h"
#include "operator/model/testing/workload.h"

namespace millstream::model {
namespace {

constexpr char kThree[] = "  replicas: 3\n";
constexpr char kThreeWithStandbys[] = "  replicas: 3\n  standbyReplicas: 1\n";
constexpr char kNewImage[] = "registry.example.com/totals:2";

TEST(NextStepsTest, ASteadyWorkloadNeedsNothing) {
  SeenWorkload work(kThree);
  const Decision decision = work.Next();
  EXPECT_EQ(TextOf(decision.steps), "");
  EXPECT_EQ(decision.reason, "");
  EXPECT_EQ(decision.message, "");
  EXPECT_EQ(decision.replicas, 3);
  EXPECT_EQ(decision.stateful_set, work.set);
  EXPECT_FALSE(decision.hold_set);
  EXPECT_FALSE(decision.stuck);
  EXPECT_EQ(decision.look_again, absl::InfiniteDuration());
  EXPECT_TRUE(decision.notes.empty());
}

TEST(NextStepsTest, NothingThereYet) {
  SeenWorkload work(kThree);
  work.observed = {};
  const Decision decision = work.Next();
  EXPECT_EQ(TextOf(decision.steps), "");
  EXPECT_EQ(decision.replicas, 3);
  EXPECT_EQ(decision.reason, "CreatingStatefulSet");
  EXPECT_EQ(decision.scale_reason, "");
}

TEST(NextStepsTest, PodsThatStartAreNamedWithWhatTheyWaitFor) {
  SeenWorkload work(kThree);
  work.RemovePod(1);
  work.NotReady(2, absl::Minutes(10), false);
  work.Pod(2).waiting_container = "worker";
  work.Pod(2).waiting_reason = "ErrImagePull";
  work.Pod(2).waiting_message = "not found";
  const Decision decision = work.Next();
  EXPECT_EQ(TextOf(decision.steps), "");
  EXPECT_EQ(decision.reason, "StartingPods");
  EXPECT_EQ(decision.message, "totals-1 does not exist yet; totals-2 cannot start: worker: ErrImagePull: not found");
  EXPECT_FALSE(decision.stuck);
}

TEST(NextStepsTest, ANodeThatIsGoneNeedsAPerson) {
  SeenWorkload work(kThree);
  work.Pod(1).terminating = true;
  work.Pod(1).terminating_since = work.now - absl::Minutes(10);
  work.Pod(1).node = "node-7";
  const Decision decision = work.Next();
  EXPECT_TRUE(decision.stuck);
  EXPECT_NE(decision.message.find("node node-7"), std::string::npos) << decision.message;
  EXPECT_NE(decision.message.find("kubectl delete pod totals-1 --force"), std::string::npos) << decision.message;
}

TEST(OrdersTest, PodsMadeAnewGetTheirsAtOnce) {
  SeenWorkload work(kThree);
  work.Pod(1).orders = "";
  work.NotReady(1, absl::Seconds(1), false);
  EXPECT_EQ(TextOf(work.Next().steps), "orders totals-1");
}

TEST(OrdersTest, PauseStandbysAndNonsense) {
  SeenWorkload work(kThree);
  work.Edit("  replicas: 3\n  desiredState: Paused\n");
  const Decision decision = work.Next();
  ASSERT_EQ(TextOf(decision.steps), "orders totals-0, orders totals-1, orders totals-2");
  EXPECT_EQ(TextAt(decision.steps[0].annotations, {kOrdersAnnotation}),
            R"({"drain":false,"standbyReplicas":0,"state":"Paused"})");
  EXPECT_EQ(decision.steps[0].reason, "");
  EXPECT_EQ(decision.reason, "Pausing");
  for (int ordinal = 0; ordinal < 3; ++ordinal) work.Report(ordinal).state = "Paused";
  for (int ordinal = 0; ordinal < 3; ++ordinal) work.Pod(ordinal).orders = OrdersOf(work.processor, false);
  EXPECT_EQ(TextOf(work.Next().steps), "");
  EXPECT_EQ(work.Next().reason, "");

  work.Edit(kThreeWithStandbys);
  EXPECT_EQ(TextOf(work.Next().steps), "orders totals-0, orders totals-1, orders totals-2");
  EXPECT_EQ(work.Next().reason, "Resuming");

  SeenWorkload steady(kThree);
  steady.Pod(0).orders = "{nonsense";
  EXPECT_EQ(TextOf(steady.Next().steps), "orders totals-0");
}

TEST(RollTest, NothingMovesBeforeTheControllerHasSeenTheTemplate) {
  SeenWorkload work(kThree);
  work.Edit(kThree, kNewImage);
  EXPECT_EQ(TextOf(work.Next().steps), "");
  EXPECT_EQ(work.Next().reason, "UpdatingStatefulSet");
  work.Settle();
  --work.observed.set->observed_generation;
  EXPECT_EQ(TextOf(work.Next().steps), "");
  ++work.observed.set->observed_generation;
  EXPECT_EQ(TextOf(work.Next().steps), "evict totals-2");
}

TEST(RollTest, OneByOneFromTheHighest) {
  SeenWorkload work(kThree);
  work.Edit(kThree, kNewImage);
  work.Settle();
  Decision decision = work.Next();
  ASSERT_EQ(TextOf(decision.steps), "evict totals-2");
  EXPECT_EQ(decision.steps[0].uid, "uid-2");
  EXPECT_EQ(decision.steps[0].reason, "RollingPod");
  EXPECT_EQ(decision.reason, "RollingUpdate");
  EXPECT_EQ(decision.message, "0 of 3 pods are up to date; totals-2 is replaced");
  // It ends, is not there, is there, is ready, has been for a while.
  work.Pod(2).terminating = true;
  work.Pod(2).terminating_since = work.now + absl::Seconds(30);
  EXPECT_EQ(TextOf(work.Next().steps), "");
  EXPECT_EQ(work.Next().message, "0 of 3 pods are up to date; waits: totals-2 is ending");
  work.RemovePod(2);
  EXPECT_EQ(TextOf(work.Next().steps), "");
  work.AddPod(2);
  work.NotReady(2, absl::Seconds(20), false);
  EXPECT_EQ(TextOf(work.Next().steps), "");
  work.Pod(2).ready = true;
  work.Pod(2).ready_changed = work.now - absl::Seconds(1);
  EXPECT_EQ(TextOf(work.Next().steps), "");
  work.Pod(2).ready_changed = work.now - kSettleTime;
  EXPECT_EQ(TextOf(work.Next().steps), "evict totals-1");
}

TEST(RollTest, ABrokenImageStopsItAndItsRevertRepairsItself) {
  SeenWorkload work(kThree);
  work.Edit(kThree, "registry.example.com/totals:broken");
  work.Settle();
  work.RemovePod(2);
  work.AddPod(2);  // of the broken template
  work.NotReady(2, absl::Hours(1), false);
  EXPECT_EQ(TextOf(work.Next().steps), "");
  EXPECT_EQ(work.Next().reason, "RollingUpdate");
  // Reverted: the two that never were replaced are up to date again.
  work.Edit(kThree);
  work.Settle();
  const Decision decision = work.Next();
  EXPECT_EQ(TextOf(decision.steps), "delete totals-2");
  EXPECT_EQ(decision.reason, "ReplacingPods");
  EXPECT_EQ(decision.message, "pod totals-2 is replaced: it never became ready and is outdated");
}

TEST(RollTest, PodsThatServeNothingGoFirstAndAllAtOnce) {
  SeenWorkload work(kThree);
  work.Edit(kThree, kNewImage);
  work.Settle();
  work.NotReady(0, absl::Minutes(5), false);
  work.NotReady(1, absl::Minutes(5), true);
  EXPECT_EQ(TextOf(work.Next().steps), "delete totals-0, evict totals-1");
}

TEST(RollTest, APodThatIsToBeReplacedIsNotWaitedFor) {
  SeenWorkload work(kThree);
  work.Edit(kThree, kNewImage);
  work.Settle();
  // Not ready for so short a time may be a restart of its worker: it is the only one down, so it is its turn.
  work.NotReady(0, absl::Seconds(10), true);
  EXPECT_EQ(TextOf(work.Next().steps), "evict totals-0");
  // But not while another one is down by our hand.
  work.RemovePod(2);
  EXPECT_EQ(TextOf(work.Next().steps), "");
}

TEST(RollTest, APodThatRestoresIsWaitedFor) {
  SeenWorkload work(kThree);
  work.Edit(kThree, kNewImage);
  work.Settle();
  work.NotReady(0, absl::Minutes(30), true);
  work.Holds(0, 4, TaskSeen::State::kRestoring);
  const Decision decision = work.Next();
  EXPECT_EQ(TextOf(decision.steps), "");
  EXPECT_EQ(decision.message, "0 of 3 pods are up to date; waits: totals-0 restores 1 task, 0 MiB left");
}

TEST(RollTest, DrainsToWarmStandbys) {
  SeenWorkload work(kThreeWithStandbys);
  work.HoldTasks(true);
  work.Edit(kThreeWithStandbys, kNewImage);
  work.Settle();
  Decision decision = work.Next();
  ASSERT_EQ(TextOf(decision.steps), "orders totals-2 drain");
  EXPECT_EQ(decision.steps[0].reason, "DrainingPod");
  EXPECT_EQ(TextAt(decision.steps[0].annotations, {kDrainSinceAnnotation}), "2023-11-14T22:13:20.000Z");
  EXPECT_EQ(decision.look_again, kPollSidecars);

  work.TellToDrain(2, absl::Seconds(10));
  EXPECT_EQ(TextOf(work.Next().steps), "");
  EXPECT_EQ(work.Next().message, "0 of 3 pods are up to date; totals-2 hands over its tasks, 1 left");
  work.Report(2).tasks.clear();
  work.Report(2).drained = true;
  EXPECT_EQ(TextOf(work.Next().steps), "evict totals-2");
}

TEST(RollTest, AnOldAnswerDoesNotCountAsDrained) {
  SeenWorkload work(kThreeWithStandbys);
  work.HoldTasks(true);
  work.Edit(kThreeWithStandbys, kNewImage);
  work.Settle();
  work.TellToDrain(2, absl::Seconds(10));
  work.Report(2).drained = true;
  work.Report(2).heard = work.now - absl::Seconds(20);  // before it was told
  EXPECT_EQ(TextOf(work.Next().steps), "");
  work.Report(2).heard = work.now;
  work.Report(2).pod_uid = "its predecessor's";
  EXPECT_EQ(TextOf(work.Next().steps), "");
}

TEST(RollTest, ADrainWhoseTimeSomebodyTookAwayIsDatedAnew) {
  SeenWorkload work(kThreeWithStandbys);
  work.HoldTasks(true);
  work.Edit(kThreeWithStandbys, kNewImage);
  work.Settle();
  work.TellToDrain(2, absl::Seconds(10));
  for (const absl::Time time : {absl::InfiniteFuture(), work.now + absl::Hours(9000)}) {
    work.Pod(2).drain_since = time;
    const Decision decision = work.Next();
    ASSERT_EQ(TextOf(decision.steps), "orders totals-2 drain");
    EXPECT_EQ(decision.steps[0].reason, "");
    EXPECT_EQ(TextAt(decision.steps[0].annotations, {kDrainSinceAnnotation}), "2023-11-14T22:13:20.000Z");
  }
}

TEST(RollTest, ADrainThatDoesNotEndIsARestartInPlace) {
  SeenWorkload work(kThreeWithStandbys);
  work.HoldTasks(true);
  work.Edit(kThreeWithStandbys, kNewImage);
  work.Settle();
  work.TellToDrain(2, kDrainPatience);
  EXPECT_EQ(TextOf(work.Next().steps), "");
  work.TellToDrain(2, kDrainPatience + absl::Seconds(1));
  EXPECT_EQ(TextOf(work.Next().steps), "evict totals-2");
}

TEST(RollTest, StandbysMayBecomeWarmFirstButNotForever) {
  SeenWorkload work(kThreeWithStandbys);
  work.HoldTasks(false);
  work.Edit(kThreeWithStandbys, kNewImage);
  work.Settle();
  work.Pod(0).ready_changed = work.now - absl::Minutes(1);
  EXPECT_EQ(TextOf(work.Next().steps), "");
  EXPECT_EQ(work.Next().message,
            "0 of 3 pods are up to date; waits until there are warm standbys for the tasks of totals-2");
  work.Pod(0).ready_changed = work.now - kWarmPatience;
  EXPECT_EQ(TextOf(work.Next().steps), "evict totals-2");
}

TEST(RollTest, NobodyToDrainToOrNobodyHeardIsARestartInPlace) {
  SeenWorkload alone("  replicas: 1\n");
  alone.Edit("  replicas: 1\n", kNewImage);
  alone.Settle();
  EXPECT_EQ(TextOf(alone.Next().steps), "evict totals-0");

  SeenWorkload silent(kThreeWithStandbys);
  silent.Edit(kThreeWithStandbys, kNewImage);
  silent.Settle();
  silent.Silence(2);
  EXPECT_EQ(TextOf(silent.Next().steps), "evict totals-2");

  constexpr char kPaused[] = "  replicas: 3\n  standbyReplicas: 1\n  desiredState: Paused\n";
  SeenWorkload paused(kPaused);
  for (int ordinal = 0; ordinal < 3; ++ordinal) paused.Report(ordinal).state = "Paused";
  paused.HoldTasks(true);
  paused.Edit(kPaused, kNewImage);
  paused.Settle();
  EXPECT_EQ(TextOf(paused.Next().steps), "evict totals-2");
}

TEST(RollTest, ARevertedRollTakesItsDrainBack) {
  SeenWorkload work(kThreeWithStandbys);
  work.HoldTasks(true);
  work.TellToDrain(2, absl::Seconds(10));
  const Decision decision = work.Next();
  ASSERT_EQ(TextOf(decision.steps), "orders totals-2");
  EXPECT_EQ(decision.steps[0].reason, "KeepingPod");
  EXPECT_TRUE(decision.steps[0].annotations.at(std::string(kDrainSinceAnnotation)).is_null());
}

TEST(RollTest, AnotherPodThatFailsDoesNotUndoADrain) {
  SeenWorkload work(kThreeWithStandbys);
  work.HoldTasks(true);
  work.Edit(kThreeWithStandbys, kNewImage);
  work.Settle();
  work.TellToDrain(2, absl::Seconds(10));
  work.NotReady(0, absl::Seconds(5), true);
  work.Pod(0).template_hash = work.TemplateHash();
  EXPECT_EQ(TextOf(work.Next().steps), "");
}

TEST(RollTest, AnOperatorsUpdateWaitsForItsTurn) {
  SeenWorkload work(kThree);
  for (PodSeen& pod : work.observed.pods) pod.template_hash = "of the operator before";
  EXPECT_TRUE(WantsOperatorRoll(work.set, work.observed));
  work.limits.operator_roll = false;
  Decision decision = work.Next();
  EXPECT_EQ(TextOf(decision.steps), "");
  EXPECT_EQ(decision.reason, "WaitingForOtherRollouts");
  EXPECT_TRUE(decision.operator_roll);
  work.limits.operator_roll = true;
  EXPECT_EQ(TextOf(work.Next().steps), "evict totals-2");
  // What the user asks for does not wait.
  work.limits.operator_roll = false;
  work.Pod(0).spec_hash = "another";
  EXPECT_FALSE(WantsOperatorRoll(work.set, work.observed));
  EXPECT_EQ(TextOf(work.Next().steps), "evict totals-2");
  EXPECT_FALSE(work.Next().operator_roll);
  EXPECT_FALSE(WantsOperatorRoll(work.set, SeenWorkload(kThree).observed));
}

TEST(RollTest, TheHashesTellWhoWantsIt) {
  const SeenWorkload work(kThree);
  ModelOptions newer = SampleOptions();
  newer.sidecar_image = "registry.example.com/millstream-sidecar:0.2.0";
  const Json other = *StatefulSetOf(work.processor, newer);
  const Json& annotations = other.at("spec").at("template").at("metadata").at("annotations");
  EXPECT_NE(annotations.at(std::string(kTemplateHashAnnotation)), work.TemplateHash());
  EXPECT_EQ(annotations.at(std::string(kSpecHashAnnotation)), work.Annotation(kSpecHashAnnotation));

  SeenWorkload edited(kThree);
  edited.Edit("  replicas: 5\n  standbyReplicas: 1\n  desiredState: Paused\n");
  EXPECT_EQ(edited.TemplateHash(), work.TemplateHash());
  edited.Edit(kThree, kNewImage);
  EXPECT_NE(edited.TemplateHash(), work.TemplateHash());
  EXPECT_NE(edited.Annotation(kSpecHashAnnotation), work.Annotation(kSpecHashAnnotation));
}

TEST(ScaleTest, OutAtOnce) {
  SeenWorkload work(kThree);
  work.Edit("  replicas: 5\n");
  const Decision decision = work.Next();
  EXPECT_EQ(decision.replicas, 5);
  EXPECT_EQ(decision.stateful_set.at("spec").at("replicas"), 5);
  EXPECT_EQ(decision.scale_reason, "ScalingOut");
  EXPECT_EQ(decision.scale_note, "from 3 pods to 5 pods");
  EXPECT_EQ(decision.reason, "StartingPods");
  EXPECT_EQ(TextOf(decision.steps), "");
}

TEST(ScaleTest, InWhenTheHighestHaveDrained) {
  SeenWorkload work("  replicas: 4\n");
  work.HoldTasks(false);
  work.Edit("  replicas: 2\n");
  Decision decision = work.Next();
  EXPECT_EQ(TextOf(decision.steps), "orders totals-2 drain, orders totals-3 drain");
  EXPECT_EQ(decision.replicas, 4);
  EXPECT_EQ(decision.scale_reason, "");
  EXPECT_EQ(decision.reason, "ScalingIn");
  EXPECT_EQ(decision.message, "from 4 pods to 2: totals-3 still has 1 task; totals-2 still has 1 task");
  work.TellToDrain(2, absl::Minutes(1));
  work.TellToDrain(3, absl::Minutes(1));
  // The lower one is done first: nothing can go yet.
  work.Report(2).drained = true;
  EXPECT_EQ(work.Next().replicas, 4);
  work.Report(2).drained = false;
  work.Report(3).drained = true;
  decision = work.Next();
  EXPECT_EQ(decision.replicas, 3);
  EXPECT_EQ(decision.scale_note, "from 4 pods to 3 pods, on the way to 2");
  work.Report(2).drained = true;
  EXPECT_EQ(work.Next().replicas, 2);
}

TEST(ScaleTest, CancelledItTakesTheDrainBack) {
  SeenWorkload work("  replicas: 4\n");
  work.TellToDrain(3, absl::Minutes(1));
  const Decision decision = work.Next();
  EXPECT_EQ(decision.replicas, 4);
  EXPECT_EQ(TextOf(decision.steps), "orders totals-3");
}

TEST(ScaleTest, WhatServesNothingNeedsNoDrain) {
  SeenWorkload never("  replicas: 4\n");
  never.Edit("  replicas: 3\n");
  never.NotReady(3, absl::Hours(1), false);
  EXPECT_EQ(never.Next().replicas, 3);
  // One that its sidecar says has tasks is not one that never was ready.
  never.Holds(3, 7, TaskSeen::State::kActive);
  EXPECT_EQ(never.Next().replicas, 4);

  SeenWorkload gone("  replicas: 4\n");
  gone.Edit("  replicas: 3\n");
  gone.NotReady(3, kGoneAfter + absl::Seconds(1), true);
  EXPECT_EQ(gone.Next().replicas, 4);  // it answers
  gone.Silence(3);
  EXPECT_EQ(gone.Next().replicas, 3);
  gone.NotReady(3, absl::Minutes(1), true);
  EXPECT_EQ(gone.Next().replicas, 4);
}

TEST(ScaleTest, ToZeroAtOnce) {
  SeenWorkload work(kThree);
  work.HoldTasks(false);
  work.Edit("  replicas: 0\n");
  const Decision decision = work.Next();
  EXPECT_EQ(decision.replicas, 0);
  EXPECT_EQ(TextOf(decision.steps), "");
  EXPECT_EQ(decision.scale_reason, "ScalingIn");
  EXPECT_EQ(decision.reason, "ScalingIn");
}

TEST(ScaleTest, TheRollPausesMeanwhileButRepairsDoNot) {
  SeenWorkload work("  replicas: 4\n");
  work.HoldTasks(false);
  work.Edit("  replicas: 3\n", kNewImage);
  work.Settle();
  work.observed.set->replicas = 4;
  EXPECT_EQ(TextOf(work.Next().steps), "orders totals-3 drain");
  work.NotReady(0, absl::Minutes(3), false);
  work.Report(0).tasks.clear();
  EXPECT_EQ(TextOf(work.Next().steps), "orders totals-3 drain, delete totals-0");
}

TEST(ScaleTest, AStatefulSetThatSomebodyDeletedKeepsPodsThatHaveNotDrained) {
  SeenWorkload work("  replicas: 4\n");
  work.HoldTasks(false);
  work.Edit("  replicas: 2\n");
  work.observed.set.reset();
  EXPECT_EQ(work.Next().replicas, 4);
}

TEST(ScaleTest, MoreReplicasThanTasksAreSaid) {
  SeenWorkload work(kThree);
  work.Report(0).partitions = 2;
  ASSERT_EQ(work.Next().notes.size(), 1u);
  EXPECT_EQ(work.Next().notes[0], "1 of 3 replicas is idle: there are 2 tasks, one for each partition");
}

}  // namespace
}  // namespace millstream::model
