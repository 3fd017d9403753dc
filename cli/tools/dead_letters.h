#ifndef MILLSTREAM_CLI_TOOLS_DEAD_LETTERS_H_
#define MILLSTREAM_CLI_TOOLS_DEAD_LETTERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/log/log.h"
#include "common/log/partitioner.h"
#include "nlohmann/json.hpp"

namespace millstream::cli {

// Where a dead letter came from and why: its millstream.error.* headers (sidecar/engine/outputs.h).
struct DeadLetterOrigin {
  std::string topic;
  int32_t partition = 0;
  int64_t offset = 0;
  std::string failure_class, message, attempts, processor;
};

// nullopt: no dead letter of Millstream.
std::optional<DeadLetterOrigin> OriginOf(const Headers& headers);
// The headers the record had before it became a dead letter.
Headers OriginalHeaders(const Headers& headers);

struct DeadLetterRequest {
  std::string group, owner;  // of the processor
  std::string topic;         // its dead-letter topic
  // How keys choose partitions, per input topic: for letters whose own partition is no longer there.
  std::map<std::string, log::KeyHash> hashes;
  std::vector<int32_t> partitions;  // empty: all
  bool all = false;                 // list those replayed before too
  bool skip_foreign = false;        // replay passes over records that are no dead letters of Millstream
  int64_t limit = 100;              // list: at most so many; replay: at most so many, 0 for all
};

struct DeadLetterRow {
  TopicPartition of;
  log::Record record;
  std::optional<DeadLetterOrigin> origin;
  bool replayed = false;
};

struct DeadLetterList {
  std::vector<DeadLetterRow> rows;  // by partition, then offset
  bool more = false;                // than the limit
};

struct ReplayReport {
  std::map<TopicPartition, int64_t> to;  // records per destination
  int64_t records = 0, foreign = 0;
  bool more = false;  // beyond the limit
};

// The group whose offsets say up to where dead letters were replayed.
std::string ReplayGroup(const std::string& group);

// Dead letters not yet replayed (or all). NOT_FOUND: there is no such topic.
absl::StatusOr<DeadLetterList> ListDeadLetters(log::Log* log, const DeadLetterRequest& request);

// Sends dead letters back: key, value, headers and time as they were, to the partition they came from (by the key's
// hash where the topic no longer has it), oldest first. With `execute` records and marker offset commit in one
// transaction per thousand, so that every letter is sent once, whatever is killed when; without, only counts.
// FAILED_PRECONDITION names a record that is no dead letter of Millstream.
absl::StatusOr<ReplayReport> ReplayDeadLetters(log::Log* log, const DeadLetterRequest& request, bool execute);

nlohmann::json ToJson(const DeadLetterRequest& request);
DeadLetterRequest DeadLetterRequestFrom(const nlohmann::json& json);
// Keys, values and header values in base64.
nlohmann::json ToJson(const DeadLetterList& list);
nlohmann::json ToJson(const ReplayReport& report);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_TOOLS_DEAD_LETTERS_H_
