#ifndef MILLSTREAM_OPERATOR_MODEL_NEXT_STEPS_H_
#define MILLSTREAM_OPERATOR_MODEL_NEXT_STEPS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "operator/model/observation.h"
#include "operator/model/processor.h"

namespace millstream::model {

// One write to the API server. Every one is safe to repeat and to leave out: the next pass decides anew from what is
// seen then. `uid` is a precondition: what has another one by now is left alone.
struct Step {
  enum class Kind {
    kSetAnnotations,  // a pod's: merge patch of metadata.annotations with `annotations` (null: take it away)
    kDeletePod,       // it never was ready or its volume is gone: no eviction, nothing is disrupted
    kEvictPod,        // through the Eviction API; 429 is no error: asked again a little later
    kGrowClaim,       // merge patch of spec.resources.requests.storage to `size`
    kDeleteClaim,     // its volume is lost
    kRecreateSet,     // delete the StatefulSet with propagationPolicy Orphan; it is applied again when it is gone
  };
  Kind kind = Kind::kSetAnnotations;
  std::string object, uid;  // name of the pod, claim or StatefulSet
  Json annotations;         // kSetAnnotations
  std::string size;         // kGrowClaim: a quantity
  std::string reason;       // CamelCase, for the event of it; empty: not worth one
  std::string note;         // one sentence, for the event and the log
};

// What one pass over the workload is to do, and to say.
struct Decision {
  // The StatefulSet to be applied: as wanted, but with as many replicas as there may be at this moment (a scale-in
  // lowers them pod by pod), and with the volume claims as they are where the change of them has to be refused.
  Json stateful_set;
  int replicas = 0;  // in it
  // Do not apply it in this pass: the one that is there has to go first (it is being deleted, or a step does it).
  bool hold_set = false;
  std::vector<Step> steps;  // in this order; one that fails does not stop the others

  // What is under way, for condition Reconciling and for Ready while it is False: CamelCase and a sentence that names
  // the pod that is waited for and why. Empty: nothing is.
  std::string reason, message;
  // It will not go on by itself: a person has to do what the message says.
  bool stuck = false;
  // What does not stop anything and should be known: replicas without a task, a refused change of storage.
  std::vector<std::string> notes;
  // A change of replicas that is decided in this pass: an event, once. Empty: none.
  std::string scale_reason, scale_note;
  // It is rolling because of a new operator, or wants to (`operator_roll` decides): counts for maxConcurrentRollouts.
  bool operator_roll = false;
  // When to look again though nothing changes: sidecars tell only when asked. InfiniteDuration: no need.
  absl::Duration look_again = absl::InfiniteDuration();
};

// What the processor next door does not know.
struct RollLimits {
  // Pods that differ from what is wanted only by the operator's doing (its default sidecar image, its own template) may
  // be rolled now: fewer than maxConcurrentRollouts other processors are.
  bool operator_roll = true;
};

// Decides. `stateful_set` is StatefulSetOf(processor), whose replicas are those wanted. Pure: the same arguments, the
// same answer.
//
// In this order, and nothing waits for something that a later step would mend:
//  1. claims grow, lost ones are replaced; a StatefulSet that cannot be changed as wanted is made anew without its
//  pods;
//  2. pods get their orders: paused or not, standbys, drain;
//  3. outdated pods that serve nothing are replaced: never ready by delete, broken ones by eviction;
//  4. scale-out at once; scale-in when the highest pods have drained; to zero at once, there is nobody to hand over to;
//  5. outdated pods one by one, the highest first: drained when other pods have warm copies of its tasks, else
//  restarted
//     in place; the next when every pod is ready again and restored.
Decision NextSteps(const Processor& processor, const Json& stateful_set, const Observation& observed,
                   const RollLimits& limits, absl::Time now);

// Pods that want to be replaced only because of a new operator: ask for a slot before NextSteps.
bool WantsOperatorRoll(const Json& stateful_set, const Observation& observed);

// The bounds of the waits. Behind each: what happens then.
inline constexpr absl::Duration kDrainPatience = absl::Minutes(5);  // in a roll: restarted in place
inline constexpr absl::Duration kWarmPatience = absl::Minutes(10);  // for warm standbys in a roll: the same
inline constexpr absl::Duration kBrokenAfter = absl::Minutes(1);    // an outdated pod not ready for so long is broken
inline constexpr absl::Duration kGoneAfter = absl::Minutes(5);      // not ready and silent: its tasks are elsewhere
inline constexpr absl::Duration kFileSystemPatience =
    absl::Minutes(5);                                            // for a file system to grow: the pod is restarted
inline constexpr absl::Duration kSettleTime = absl::Seconds(5);  // a pod is ready for so long before the next one
inline constexpr absl::Duration kTerminatingNoted = absl::Minutes(2);  // beyond its grace period: its node is named
inline constexpr absl::Duration kPollSidecars = absl::Seconds(3);

// The annotation of a pod with the time at which it was told to drain (RFC 3339).
inline constexpr std::string_view kDrainSinceAnnotation = "millstream.dev/drain-since";

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_NEXT_STEPS_H_
