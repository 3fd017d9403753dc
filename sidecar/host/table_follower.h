#ifndef MILLSTREAM_SIDECAR_HOST_TABLE_FOLLOWER_H_
#define MILLSTREAM_SIDECAR_HOST_TABLE_FOLLOWER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/log/log.h"
#include "common/spec/stream_processor.h"
#include "sidecar/host/applier.h"
#include "sidecar/host/conditions.h"
#include "sidecar/host/event_sink.h"
#include "sidecar/host/lookup_table.h"
#include "sidecar/host/topics.h"
#include "sidecar/store/state_environment.h"

namespace millstream::host {

struct TableFollowerOptions {
  log::Log* log = nullptr;
  const spec::StreamProcessorSpec* spec = nullptr;
  PreparedTopics topics;
  std::string directory;  // lookups are in its folders lookup-NAME
  store::StateEnvironment* environment = nullptr;
  int64_t buffered_bytes = 4 << 20;  // records read and not applied
  const Clock* clock = &SystemClock();
};

// The thread that keeps a processor's joins and lookups up to date, with one reader for all. Lookups it opens and
// writes by itself. Joins are stores of the tasks: restored with them (restore.h), from then on followed here, written
// by the applier. A partition is not read on before what was read of it is applied. Thread-safe.
class TableFollower {
 public:
  // All pointers outlive it. `sink` gets StateFailed for tasks whose tables have to be read anew.
  TableFollower(const TableFollowerOptions& options, Applier* applier, MetricsRegistry* metrics, EventSink* sink);
  ~TableFollower();

  // Opens the lookups and begins to read them. Errors are those of the disk.
  absl::Status Start();

  // The task's joins, restored up to `positions`, until Forget: no write of theirs comes to the applier behind it.
  void Follow(TaskId task, const store::Positions& positions);
  void Forget(TaskId task);

  // Blocks until every lookup has been read to the end it had at the start. CANCELLED soon after `cancelled` is set, or
  // when this is stopped.
  absl::Status WaitForLookups(const std::atomic<bool>* cancelled) const;
  // By the order of the spec; its store 0 is the table. UNAVAILABLE while it is not whole.
  absl::StatusOr<std::shared_ptr<store::TaskStore>> Lookup(size_t index) const;
  // What a person should know: lookups that are still being read, topics that cannot be read.
  std::vector<Condition> Conditions() const;

  // Ends the thread, flushes the lookups. Idempotent.
  void Stop();

 private:
  using Life = uint64_t;  // of a task that is followed; never reused

  // One partition that is read.
  struct Source {
    size_t table = 0;  // readable id
    bool lookup = false;
    TaskId task;    // of a join
    Life life = 0;  // the same
    Offset position;
    bool waits = false;  // for the applier, or for its next try
  };
  struct Begin {
    TopicPartition from;
    Source source;
  };
  struct End {
    TaskId task;
  };
  struct Applied {
    TopicPartition from;
    Life life = 0;
    absl::Status status;
    Offset next;
  };
  using Command = std::variant<Begin, End, Applied>;

  void Run();
  bool TakeCommands();  // false: stop
  void Carry(Command command);
  void Add(const TopicPartition& from, const Source& source);
  void Pass(log::ReaderEvent event);
  void TakeRecords(const TopicPartition& from, Source& source, std::vector<log::Record> records, Offset next);
  void ApplyJoin(const TopicPartition& from, const Source& source, std::vector<log::Record> records, Offset next);
  void OnApplied(const TopicPartition& from, Source& source, const absl::Status& status, Offset next);
  void OnFailed(const TopicPartition& from, const absl::Status& status);
  void AddLater(const TopicPartition& from);
  void Renew(const absl::Status& cause);
  bool Lives(TaskId task, Life life) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Lookups.
  void ResumeLookups();
  void ReadAnew(size_t lookup, const absl::Status& cause);
  void Reached(size_t lookup, Partition partition, Offset position);
  void RetryIfDue();
  void TouchIfDue();
  absl::Duration NextWait() const;
  void Complain(const std::string& topic, std::string problem);  // empty: all is well again

  const TableFollowerOptions options_;
  Applier* const applier_;
  EventSink* const sink_;
  const log::ReaderOptions reader_options_;
  std::vector<Counter*> records_;  // by table

  // The thread's.
  std::unique_ptr<log::Reader> reader_;  // replaced under the mutex: Wake may come from anywhere
  absl::flat_hash_map<TopicPartition, Source> sources_;
  std::map<TopicPartition, absl::Duration> retries_;  // sources that are added anew then
  std::vector<bool> resumed_;                         // lookups whose partitions are being read
  absl::Duration resume_at_;                          // the others are tried again
  absl::Duration next_touch_;

  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<LookupTable>> lookups_;                    // constant after Start
  std::vector<std::map<int, Offset>> missing_ ABSL_GUARDED_BY(mutex_);   // per lookup: partitions short of this end
  std::vector<bool> loaded_ ABSL_GUARDED_BY(mutex_);                     // per lookup
  std::map<std::string, std::string> problems_ ABSL_GUARDED_BY(mutex_);  // by topic
  std::map<TaskId, Life> followed_ ABSL_GUARDED_BY(mutex_);
  Life next_life_ ABSL_GUARDED_BY(mutex_) = 1;
  std::vector<Command> commands_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_TABLE_FOLLOWER_H_
