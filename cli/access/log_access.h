#ifndef MILLSTREAM_CLI_ACCESS_LOG_ACCESS_H_
#define MILLSTREAM_CLI_ACCESS_LOG_ACCESS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/bytes.h"
#include "common/log/admin.h"
#include "common/log/record.h"

namespace millstream::cli {

struct PartitionExtent {
  Partition partition;
  Offset start;       // first offset still there
  Offset stable_end;  // what read_committed sees ends here
  Offset end;         // high watermark
};

struct TopicDetail {
  log::TopicInfo info;
  std::vector<PartitionExtent> partitions;  // ascending
};

// Where to begin reading a partition.
struct StartAt {
  enum class Where : uint8_t {
    kBeginning,
    kEnd,
    kOffset,  // `number`
    kLast,    // `number` records before the end
    kTime,    // first record at or after `number` milliseconds since 1970
  };
  Where where = Where::kBeginning;
  int64_t number = 0;
};

struct ConsumeRequest {
  std::string topic;
  std::vector<Partition> partitions;  // empty: all
  StartAt start;
  log::Isolation isolation = log::Isolation::kReadCommitted;
};

struct ConsumedRecord {
  Partition partition;
  log::Record record;
};

struct ConsumedChunk {
  std::vector<ConsumedRecord> records;
  // True when every partition was read to its end; more may come later.
  bool at_end = false;
  // Next offset of every partition read so far, to resume with.
  std::vector<std::pair<Partition, Offset>> positions;
};

// One reading of a topic. One thread at a time.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // Waits up to `wait` for records; may return none. NOT_FOUND: the topic was deleted meanwhile.
  virtual absl::StatusOr<ConsumedChunk> Next(absl::Duration wait) = 0;
};

// One writing to topics. One thread at a time.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  // Queues the records in order; blocks when the other side is behind. An error may concern earlier records.
  virtual absl::Status Append(std::vector<log::OutgoingRecord> records) = 0;
  // OK when everything appended is durable.
  virtual absl::Status Flush() = 0;
};

// Asks for committed state of a processor. An empty `processor` means the only one there is.
struct StateQuery {
  std::string processor;
  std::string store;
  Bytes key;  // Get
  // Scan: [from, to) by byte order.
  std::optional<Bytes> from, to;
  bool reverse = false;
  size_t limit = 100;
};

struct StateRow {
  struct Window {  // of a session the times of its first and its last record; else [start, end)
    int64_t start_ms = 0, end_ms = 0;
  };
  int32_t task = 0;
  Bytes key, value;
  std::optional<Window> window;  // of stores with windows or sessions
};

struct TaskRow {
  std::string processor;  // namespace/name
  int32_t task = 0;
  std::string state;     // active, restoring, stopped, idle
  uint64_t records = 0;  // committed since it was opened
  int64_t lag = 0;       // records behind the end of its inputs, as far as known
  std::string error;     // why it is stopped
};

// A log, wherever it is: the embedded one of a folder that this process holds (LocalAccess) or a running one that is
// asked over its control socket (RemoteAccess), or Kafka (KafkaAccess). Thread-compatible; sources and sinks end before
// it.
// Errors: UNAVAILABLE: the process that held the folder has gone; the others are those of log::Admin.
class LogAccess {
 public:
  virtual ~LogAccess() = default;

  // "this process", or "millstream run (pid 4711)": for messages.
  virtual std::string Holder() const = 0;

  virtual absl::StatusOr<std::vector<log::TopicInfo>> ListTopics() = 0;
  virtual absl::StatusOr<TopicDetail> DescribeTopic(const std::string& topic) = 0;
  virtual absl::Status CreateTopic(const log::TopicSpec& spec) = 0;
  virtual absl::Status DeleteTopic(const std::string& topic) = 0;

  virtual absl::StatusOr<std::unique_ptr<RecordSink>> OpenSink() = 0;
  virtual absl::StatusOr<std::unique_ptr<RecordSource>> OpenSource(const ConsumeRequest& request) = 0;

  // One row, or the windows of the key, ascending. NOT_FOUND: no such key. INVALID_ARGUMENT: several processors (all
  // named), or no such store (those there are named).
  virtual absl::StatusOr<std::vector<StateRow>> GetState(const StateQuery& query) = 0;
  // At most `limit` rows, tasks one after the other, ascending by key within a task (descending if `reverse`).
  virtual absl::StatusOr<std::vector<StateRow>> ScanState(const StateQuery& query) = 0;

  // Tasks of the running processors, or of the named one. FAILED_PRECONDITION: none runs on this folder.
  virtual absl::StatusOr<std::vector<TaskRow>> ListTasks(const std::string& processor) = 0;
  // Lets stopped tasks of the named processor (empty: the only one) go on: the given ones, or all of them. Says which.
  virtual absl::StatusOr<std::vector<int32_t>> RestartTasks(const std::string& processor,
                                                            const std::vector<int32_t>& tasks) = 0;
  // The named processor (empty: the only one) fetches and sends nothing new, or goes on. Until its process ends.
  virtual absl::Status SetPaused(const std::string& processor, bool paused) = 0;

  // Runs one of cli/tools/tool.h where the log is open; request and answer are JSON objects.
  virtual absl::StatusOr<std::string> RunTool(const std::string& tool, const std::string& request) = 0;
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_ACCESS_LOG_ACCESS_H_
