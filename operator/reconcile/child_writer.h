#ifndef MILLSTREAM_OPERATOR_RECONCILE_CHILD_WRITER_H_
#define MILLSTREAM_OPERATOR_RECONCILE_CHILD_WRITER_H_

#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "operator/kube/client.h"
#include "operator/reconcile/problem.h"
#include "operator/reconcile/world.h"

namespace millstream::reconcile {

// Makes children as they are wanted, and writes only where they are not: a child carries the hash of what was applied
// last as annotation millstream.dev/applied, and is compared with what is wanted besides, so that both our own changes
// and those of others are noticed. What this processor does not control is never touched. Thread-safe for different
// processors. `client` and `world` outlive it.
class ChildWriter {
 public:
  ChildWriter(kube::Client* client, World* world) : client_(client), world_(world) {}

  // The child is as wanted, or a problem that exists(): NameTaken: there is an object of that name that is not this
  // processor's; AwaitingDeletion: one of a former processor of its name, which garbage collection takes away; those of
  // ProblemOf, with `refused`. `gone`: uid of the one that was deleted a moment ago, which caches may still show.
  Problem Ensure(const kube::Resource& resource, const Json& wanted, std::string_view refused,
                 std::string_view gone = "");
  // Deletes a child that is there and belongs to this processor (its uid).
  absl::Status Remove(const kube::Resource& resource, const Json& child);
  // No more is known of the processor's children.
  void Forget(const std::string& processor_uid);

 private:
  Problem CheckOwner(const kube::Resource& resource, const Json& there, const std::string& uid) const;
  // Whether that version of the child was found to be as `applied` says, which it is then still.
  bool IsKnown(const std::string& uid, const std::string& place, const std::string& applied,
               const std::string& version);
  void Know(const std::string& uid, const std::string& place, const std::string& applied, const std::string& version);
  bool IsAsRemembered(const std::string& place, const Json& wanted, const Json& there);
  void Remember(const std::string& place, const Json& wanted, const Json& made);

  kube::Client* const client_;
  World* const world_;
  absl::Mutex mutex_;
  // What the API server made of something that it did not keep as it was given: hash of the parts, by uid of the
  // processor and child. Empty for most.
  std::map<std::pair<std::string, std::string>, std::string> made_ ABSL_GUARDED_BY(mutex_);
  // Children that are as wanted: (hash of what is applied, resourceVersion), by uid of the processor and child. What
  // has not changed since is not compared again: most passes of most processors find nothing else.
  std::map<std::pair<std::string, std::string>, std::pair<std::string, std::string>> known_ ABSL_GUARDED_BY(mutex_);
};

// The annotation with the hash of what was applied.
inline constexpr std::string_view kAppliedAnnotation = "millstream.dev/applied";

// "StatefulSet totals".
std::string NameForPeople(const Json& object);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_CHILD_WRITER_H_
