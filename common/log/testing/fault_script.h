#ifndef MILLSTREAM_COMMON_LOG_TESTING_FAULT_SCRIPT_H_
#define MILLSTREAM_COMMON_LOG_TESTING_FAULT_SCRIPT_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/log/testing/faulty_log.h"

namespace millstream::log {

class FaultyReader;

// The faults of a FaultyLog, and what they have on hold. Thread-safe.
class FaultyLog::Script {
 public:
  int Inject(Fault fault);
  void Remove(int fault);
  void Release(int fault);
  void ReleaseAll();
  int Strikes(int fault) const;
  bool WaitUntilHeld(int fault, absl::Duration patience) const;

  // The call arrives: waits as long as its fault says. Returns the fault that strikes, or one without status if none.
  Fault Arrive(Call call, const std::string& of);
  void Later(const std::string& transactional_id, std::function<absl::Status()> call);
  absl::Status HappenNow(const std::string& transactional_id);
  void NeverHappen(const std::string& transactional_id);

  void AddReader(FaultyReader* reader);
  void RemoveReader(FaultyReader* reader);
  void FailPartition(const TopicPartition& partition, const absl::Status& status);

 private:
  struct Entry {
    Fault fault;
    int seen = 0;
    int strikes = 0;
    int holding = 0;
    bool released = false;
  };

  mutable absl::Mutex mutex_;
  mutable absl::CondVar changed_;
  std::map<int, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
  int last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::multimap<std::string, std::function<absl::Status()>> later_ ABSL_GUARDED_BY(mutex_);
  std::vector<FaultyReader*> readers_ ABSL_GUARDED_BY(mutex_);
};

// Runs the call as its fault wants it.
template <typename Function>
auto Strike(FaultyLog::Script& script, Call call, const std::string& of, Function&& function) -> decltype(function()) {
  const Fault fault = script.Arrive(call, of);
  if (fault.status.ok()) return function();
  if (fault.when == Fault::When::kAfter) static_cast<void>(function());
  return fault.status;
}

}  // namespace millstream::log

#endif  // MILLSTREAM_COMMON_LOG_TESTING_FAULT_SCRIPT_H_
