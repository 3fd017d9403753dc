#ifndef MILLSTREAM_OPERATOR_KUBE_EVENT_RECORDER_H_
#define MILLSTREAM_OPERATOR_KUBE_EVENT_RECORDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "operator/kube/client.h"

namespace millstream::kube {

struct EventText {
  bool warning = false;
  std::string reason;  // why, one CamelCase word of few: "TopicsCreated"
  std::string action;  // what was done about it, the same: "CreateTopics"
  std::string note;    // a sentence for people; cut at 1 KiB
};

// Tells in events.k8s.io/v1 what changed, as `kubectl describe` and `kubectl events` show it. An event that says the
// same as the last one of that object and reason is left out: events tell of changes. What an event says is in the
// status as well, so one that cannot be written is lost without harm (and logged). Thread-safe; blocks for a call.
// `client` and `clock` outlive it.
class EventRecorder {
 public:
  // Beyond that the memory of what was said is dropped: each object may then hear the same once more.
  static constexpr size_t kMaxRemembered = 10'000;
  static constexpr size_t kMaxNoteBytes = 1024;  // the API server's

  // `controller`: "millstream.dev/operator"; `instance`: the pod's name.
  EventRecorder(Client* client, const Clock* clock, std::string controller, std::string instance);

  // `regarding`: the whole object, or at least apiVersion, kind and metadata with name, namespace and uid.
  void Record(const Json& regarding, const EventText& text);
  // The object is gone.
  void Forget(const std::string& uid);

 private:
  bool IsNews(const std::string& uid, const EventText& text);
  Json MakeEvent(const Json& regarding, const EventText& text);

  Client* const client_;
  const Clock* const clock_;
  const std::string controller_, instance_;
  absl::Mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::string> said_ ABSL_GUARDED_BY(mutex_);  // (uid, reason) -> note
  int64_t number_ ABSL_GUARDED_BY(mutex_) = 0;
};

// At most `bytes` of a text, not ending within a UTF-8 character.
std::string CutText(std::string_view text, size_t bytes);

}  // namespace millstream::kube

#endif  // MILLSTREAM_OPERATOR_KUBE_EVENT_RECORDER_H_
