#ifndef MILLSTREAM_OPERATOR_RUNTIME_REFLECTOR_H_
#define MILLSTREAM_OPERATOR_RUNTIME_REFLECTOR_H_

#include <cstdint>
#include <random>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/http/interruption.h"
#include "operator/kube/client.h"
#include "operator/runtime/object_cache.h"
#include "operator/runtime/rate_limiter.h"

namespace millstream::runtime {

// Keeps a cache as the API server is: lists once, then watches, and watches on from where the last watch ended. Lists
// again when the server no longer has what happened since (410), and when a watch breaks again and again without
// bringing anything. One thread runs it. `client`, `cache` and `clock` outlive it.
class Reflector {
 public:
  Reflector(const kube::Resource& resource, kube::Selection selection, kube::Client* client, ObjectCache* cache,
            const Clock* clock, uint64_t seed);

  // A list if one is needed, and one watch until it ends. Says how long to wait before the next step.
  absl::Duration Step(const http::Interruption& interruption);
  // Steps until the interruption.
  void Run(const http::Interruption& interruption);

  // Of the last step that failed, for conditions and health ("the CRD is missing"); OK after one that did not. Any
  // thread.
  absl::Status last_error() const;

 private:
  absl::Status List();
  absl::Status Watch(const http::Interruption& interruption, bool* progress);
  absl::Duration After(const absl::Status& status, bool progress);

  // Broken watches in a row that brought nothing, before everything is listed anew.
  static constexpr int kMaxBarrenWatches = 5;

  const kube::Resource resource_;
  const kube::Selection selection_;
  kube::Client* const client_;
  ObjectCache* const cache_;
  const Clock* const clock_;
  std::mt19937_64 random_;
  bool needs_list_ = true;
  int failures_ = 0;  // in a row, of either kind
  mutable absl::Mutex mutex_;
  absl::Status last_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millstream::runtime

#endif  // MILLSTREAM_OPERATOR_RUNTIME_REFLECTOR_H_
