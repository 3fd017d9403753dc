#ifndef MILLSTREAM_SIDECAR_HOST_TOPICS_H_
#define MILLSTREAM_SIDECAR_HOST_TOPICS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/log/admin.h"
#include "common/spec/stream_processor.h"
#include "sidecar/engine/engine.h"

namespace millstream::host {

struct TopicPreparation {
  // Of input and join topics that have to be made; unset: the first output's `create`, else 4.
  std::optional<int> partitions;
  bool create_inputs = true;  // a local run; false: a missing input, join or lookup is an error
};

// A topic of a running processor, as it was when it started.
struct KnownTopic {
  enum class Role { kInput, kJoin, kLookup, kOutput, kLoop, kChangelog, kDeadLetter };
  Role role = Role::kInput;
  std::string topic;
  std::string id;  // empty where the log has none
  int partitions = 0;
};

// What a processor's topics look like now that they are all there.
struct PreparedTopics {
  int tasks = 0;                                  // the partition count its inputs and joins share
  std::vector<int> output_partitions;             // in the spec's order
  int dead_letter_partitions = 0;                 // 0: none
  std::vector<std::string> changelog_ids;         // topic id per store, in the spec's order; empty without a changelog
  std::vector<std::string> join_ids, lookup_ids;  // topic ids, in the spec's order
  std::vector<int> lookup_partitions;             // the same
  std::vector<int64_t> output_max_bytes, store_max_bytes;  // largest record each takes
  std::vector<engine::TimestampBounds> output_timestamps;  // in the spec's order
  std::vector<KnownTopic> known;                           // all of them
};

struct PreparationReport {
  std::vector<PreparedTopics> processors;  // in the order given
  std::vector<std::string> created;        // "orders (4 partitions)"
  std::vector<std::string> warnings;       // configuration that differs from the manifest's
};

// A processor and the log its topics are in.
struct TopicOwner {
  log::Admin* admin = nullptr;
  const spec::StreamProcessorSpec* spec = nullptr;
};

// Makes what is missing of the topics of several processors (a pipeline: outputs of one may be inputs of another) and
// checks what is there. Nothing that exists is changed. Internal topics are made so that no record can be refused for
// its timestamp, and a dead-letter topic so that it takes any record of the inputs. Errors name topics and both values:
//   FAILED_PRECONDITION  inputs and joins of one processor differ in their partition count; an output's `create` says
//   another
//                        count than the topic has; an internal topic has another count, another replication factor or
//                        another setting than the manifest says or its kind needs (made by hand, or by a broker that
//                        makes topics of itself)
//   INVALID_ARGUMENT     a topic cannot be made as the manifest says (a replication factor above the brokers)
//   NOT_FOUND            an output without `create` that is not there; an input, join or lookup that is not there and
//   is
//                        not to be made
//   PERMISSION_DENIED    names the topic and what has to be allowed
absl::StatusOr<PreparationReport> PrepareTopics(const std::vector<TopicOwner>& processors,
                                                const TopicPreparation& options);
// The same with one log for all.
absl::StatusOr<PreparationReport> PrepareTopics(log::Admin* admin,
                                                const std::vector<const spec::StreamProcessorSpec*>& processors,
                                                const TopicPreparation& options);

// The same without making anything: for reading the state of a processor that does not run. NOT_FOUND: it never ran
// here.
absl::StatusOr<PreparedTopics> LookAtTopics(log::Admin* admin, const spec::StreamProcessorSpec& processor);

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_TOPICS_H_
