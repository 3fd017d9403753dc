#ifndef MILLSTREAM_SIDECAR_HOST_TOPIC_WATCH_H_
#define MILLSTREAM_SIDECAR_HOST_TOPIC_WATCH_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/log/admin.h"
#include "sidecar/host/conditions.h"
#include "sidecar/host/topics.h"

namespace millstream::host {

struct TopicWatchOptions {
  std::vector<KnownTopic> topics;  // as they were when the processor started
  int tasks = 0;
  // From a change to its being noticed; also the load: a description per topic.
  absl::Duration interval = absl::Seconds(10);
  // The brokers may be away for so long before that is worth a word.
  absl::Duration patience = absl::Seconds(30);
};

// Looks from time to time whether the topics of a running processor are still what they were: an input that got more
// partitions (its keys are then somewhere else), topics deleted or made anew behind its back. What it finds is a
// condition as long as it lasts; with what must not go on `on_broken` is called, on the watching thread, at every look.
class TopicWatch {
 public:
  using OnBroken = std::function<void(const absl::Status& cause)>;

  // `admin` and `clock` outlive it.
  TopicWatch(const TopicWatchOptions& options, log::Admin* admin, const Clock* clock, OnBroken on_broken);
  ~TopicWatch();

  // Thread-safe.
  std::vector<Condition> Conditions() const;
  // Ends the thread after the look it is in. Idempotent.
  void Stop();

 private:
  struct Finding {
    Condition condition;
    bool broken = false;  // tasks must not go on
  };

  void Run();
  void Look();
  std::optional<Finding> Judge(const KnownTopic& known, const absl::StatusOr<log::TopicInfo>& found);

  const TopicWatchOptions options_;
  log::Admin* const admin_;
  const Clock* const clock_;
  const OnBroken on_broken_;

  // The thread's: how often in a row a topic was not found. A broker that has just started does not know all of them.
  std::map<std::string, int> missing_;
  absl::Duration answered_at_;

  mutable absl::Mutex mutex_;
  std::vector<Condition> conditions_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_TOPIC_WATCH_H_
