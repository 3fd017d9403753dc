#ifndef MILLSTREAM_CLI_ACCESS_TOPIC_TABLE_H_
#define MILLSTREAM_CLI_ACCESS_TOPIC_TABLE_H_

#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cli/access/log_access.h"
#include "common/base/bytes.h"
#include "common/log/log.h"
#include "common/spec/stream_processor.h"

// Internal to this folder: compacted topics (changelogs, joins, lookups) as tables, read from the log alone, as
// read_committed readers see them: the last value of each key, null deletes, records without key are passed over.
namespace millstream::cli {

// Every record with a key of the partition, in order. An error of `take` ends it; else those of ReadRange.
absl::Status ReadKeyed(log::Log* log, const TopicPartition& of, const std::function<absl::Status(log::Record)>& take);

// The rows of several partitions, within the range of a query. Not thread-safe.
class TopicTable {
 public:
  static constexpr int64_t kMostBytes = int64_t{1} << 30;  // of keys and values

  // `whose`, for messages, and `query` outlive it.
  TopicTable(std::string_view whose, const StateQuery& query) : whose_(whose), query_(query) {}

  // RESOURCE_EXHAUSTED asks for a narrower range.
  absl::Status Add(log::Log* log, const TopicPartition& of);
  // Appends rows up to the query's limit in its order, as of `task`. Each row is given once: they are moved out.
  void Take(const spec::StoreSpec* windowed, int32_t task, std::vector<StateRow>* rows);

 private:
  const std::string_view whose_;
  const StateQuery& query_;
  std::map<Bytes, Bytes> rows_;
  int64_t bytes_ = 0;
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_ACCESS_TOPIC_TABLE_H_
