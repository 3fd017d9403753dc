#ifndef MILLSTREAM_SIDECAR_HOST_FETCHER_H_
#define MILLSTREAM_SIDECAR_HOST_FETCHER_H_

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/log/log.h"
#include "sidecar/host/event_sink.h"
#include "sidecar/host/key_check.h"

namespace millstream::host {

// The thread that reads the inputs of all tasks with one log::Reader and posts what it finds: RecordsRead, EndOfInput,
// InputFailed; one that cannot be begun because no broker answers, or none lets us in, is begun later. Commands come
// from the engine's thread, never block and keep their order. A reader that fails as a whole is made anew, once a
// second, and goes on where it was.
class Fetcher {
 public:
  // `topics`: of the inputs, in the spec's order. `buffered_bytes` bounds what the reader holds. `keys` sees every
  // record. All pointers outlive it.
  Fetcher(log::Log* log, std::vector<std::string> topics, int64_t buffered_bytes, KeyCheck* keys, EventSink* sink);
  ~Fetcher();

  using Command = std::variant<engine::StartFetch, engine::SeekFetch, engine::PauseFetch, engine::StopFetch>;
  void Do(Command command);
  // Ends the thread. Idempotent.
  void Stop();

 private:
  struct Source {
    TaskId task;
    uint32_t input = 0;
    uint64_t fetch = 0;
    Offset position;
    bool paused = false;
  };

  void Run();
  bool TakeCommands();  // false: stop
  void Carry(const Command& command);
  void Begin(const TopicPartition& from, const Source& source);
  // One of waiting_, if it is time.
  void BeginLater();
  void Pass(log::ReaderEvent event);
  void Renew(const absl::Status& cause);
  TopicPartition PartitionOf(TaskId task, uint32_t input) const { return {topics_[input], Partition(task.value())}; }

  log::Log* const log_;
  const std::vector<std::string> topics_;
  const log::ReaderOptions options_;
  KeyCheck* const keys_;
  EventSink* const sink_;

  // Used by the thread alone; Wake may come from anywhere, so the reader is replaced under the mutex.
  std::unique_ptr<log::Reader> reader_;
  absl::flat_hash_map<TopicPartition, Source> sources_;
  std::set<TopicPartition> waiting_;  // of sources_: to be begun at begin_at_
  absl::Duration begin_at_ = absl::ZeroDuration();

  absl::Mutex mutex_;
  std::vector<Command> commands_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_FETCHER_H_
