#ifndef MILLSTREAM_OPERATOR_RECONCILE_MANIFEST_INDEX_H_
#define MILLSTREAM_OPERATOR_RECONCILE_MANIFEST_INDEX_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/spec/manifest.h"
#include "operator/kube/resource.h"
#include "operator/reconcile/packed.h"
#include "operator/reconcile/problem.h"

namespace millstream::reconcile {

// One generation of a processor, read once. A plain value, never changed.
struct ReadManifest {
  std::string uid;
  int64_t generation = 0;
  std::string created;  // its creationTimestamp; RFC 3339 in UTC, so that the earlier one is the lesser text
  // INVALID_ARGUMENT: every error with its field, one a line.
  absl::StatusOr<spec::Manifest> manifest = absl::UnknownError("not read");
};

// The manifests of all processors that the operator knows, and what they claim for themselves in Kafka: consumer group
// and internal topics. The rules are those of `millstream validate` between documents of one call, with one difference:
// who came first keeps it. Kafka clusters are told apart by spec.kafka.bootstrapServers; two names of one cluster are
// noticed by the owner stamp in Kafka only. Thread-safe.
class ManifestIndex {
 public:
  using Keys = std::set<kube::ObjectKey>;

  // The processor is new or another generation. Returns the other processors that claim the same as it did or does now:
  // for them the answer of ConflictOf may be another. A manifest that cannot be read keeps the claims of the one
  // before; where this process has not seen that one, until Recall says what it was, it is Unclaimed.
  Keys Update(const Json& processor);
  Keys Remove(const kube::ObjectKey& key);

  // A processor that this process knows with a manifest that cannot be read only, since it started. Its workload may
  // run all the same, as its last good manifest said, and then its group is not free.
  struct Unread {
    kube::ObjectKey key;
    std::string uid;
  };
  std::vector<Unread> Unclaimed() const;
  // The last good manifest of one of those. Nothing if it is none any more.
  void Recall(const Unread& processor, const spec::StreamProcessorSpec& last);

  std::shared_ptr<const ReadManifest> Find(const kube::ObjectKey& key) const;  // null: not known
  // Whether an older processor has what this one claims: reason GroupOwnedByAnother or TopicsOverlap, both named.
  std::optional<Problem> ConflictOf(const kube::ObjectKey& key) const;

 private:
  struct Claims {
    std::string group;                            // with its cluster, as the topics
    std::map<std::string, std::string> internal;  // topic -> what it is: "changelog of store totals"
    std::set<std::string> outputs;
  };
  struct Entry {
    std::shared_ptr<const ReadManifest> read;
    Claims claims;
  };
  static Claims ClaimsOf(const spec::StreamProcessorSpec& spec);
  void Enter(const kube::ObjectKey& key, const Claims& claims) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(const kube::ObjectKey& key, const Claims& claims) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddSharers(const Claims& claims, Keys* keys) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOlder(const kube::ObjectKey& a, const kube::ObjectKey& b) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<kube::ObjectKey, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  Keys unclaimed_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Keys> by_group_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Keys> by_topic_ ABSL_GUARDED_BY(mutex_);  // internal ones and outputs
};

// The one manifest in that text, read by common/spec.
absl::StatusOr<spec::Manifest> ReadManifestText(const std::string& text, const std::string& name);
// apiVersion, kind, metadata {name, namespace} and spec of a processor, read by common/spec.
absl::StatusOr<spec::Manifest> ReadProcessor(const Json& processor);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_MANIFEST_INDEX_H_
