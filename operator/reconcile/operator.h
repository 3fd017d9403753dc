#ifndef MILLSTREAM_OPERATOR_RECONCILE_OPERATOR_H_
#define MILLSTREAM_OPERATOR_RECONCILE_OPERATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/http/interruption.h"
#include "operator/kube/client.h"
#include "operator/model/processor.h"
#include "operator/reconcile/manifest_index.h"
#include "operator/reconcile/reconciler.h"
#include "operator/reconcile/sidecar_reports.h"
#include "operator/reconcile/world.h"
#include "operator/runtime/controller.h"

namespace millstream::reconcile {

struct OperatorOptions {
  std::vector<std::string> namespaces;  // empty: the whole cluster
  model::ModelOptions model;
  std::string instance;  // the pod's name, in events
  int workers = 4;       // 0: no threads, ReconcileOne does the work
  int max_concurrent_rollouts = 1;
  uint64_t seed = 0;
};

// The whole of it: caches with what keeps them as the API server is, manifests, one controller with its queue. Driven
// by threads (Start, Lead, Follow, Stop: operator/main.cc), or step by step (StepReflector, ReconcileOne: simulations,
// in which nothing here sleeps, starts a thread or takes another time than the clock's).
//
// Nothing is written while this process does not lead: Lead and Follow follow the election, and the client, which has
// its allowance, refuses writes besides. Nothing is decided before every cache has had its first list.
//
// Thread-safe, but for Start, Lead, Follow and Stop, which one thread calls. All pointers outlive it.
class Operator {
 public:
  Operator(OperatorOptions options, kube::Client* client, SidecarReports* sidecars, const Clock* clock,
           MetricsRegistry* metrics);
  ~Operator();  // Stop

  // Caches fill and stay current, on a thread for each resource and namespace. Also while others lead: who takes over
  // is warm.
  void Start();
  // A term begins: every processor is looked at.
  void Lead();
  // The term is over: returns when the passes under way are. May lead again.
  void Follow();
  void Stop();

  size_t reflectors() const { return world_.reflectors(); }
  // One list or watch of one of them; how long to wait before the next.
  absl::Duration StepReflector(size_t reflector);
  // One processor that is due, on this thread; false: none is, or this process does not lead or is not synced.
  bool ReconcileOne();
  absl::Duration until_next_key() const;  // InfiniteDuration: none waits

  bool synced() const { return world_.synced().ok(); }
  // OK, or what is missing and what to do ("the definition streamprocessors.millstream.dev is not installed: ...").
  absl::Status health() const { return world_.synced(); }
  // How long the longest pass under way has taken so far, one that a term has left behind included; zero: none is.
  absl::Duration longest_pass() const;
  // Before metrics are read.
  void UpdateGauges();

 private:
  void OnProcessor(const Json& before, const Json& after);
  void Enqueue(const kube::ObjectKey& key);
  std::shared_ptr<runtime::Controller> controller() const;
  void RunReflector(size_t reflector);
  // Starts the workers of a term as soon as everything is known.
  void AwaitSync(std::shared_ptr<runtime::Controller> controller, http::Interruption term_over);

  const OperatorOptions options_;
  const Clock* const clock_;
  MetricsRegistry* const metrics_;
  ManifestIndex manifests_;
  World world_;
  Reconciler reconciler_;

  http::Interruption stopped_;
  std::vector<std::thread> threads_;
  // Of the term under way.
  http::Interruption term_over_;
  std::thread starter_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<runtime::Controller> controller_ ABSL_GUARDED_BY(mutex_);  // null: not leading
  std::shared_ptr<runtime::Controller> last_ ABSL_GUARDED_BY(mutex_);        // the same, kept when the term is over
};

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_OPERATOR_H_
