#ifndef MILLSTREAM_SIDECAR_HOST_TOPICS_H_
#define MILLSTREAM_SIDECAR_HOST_TOPICS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/log/admin.h"
#include "common/spec/stream_processor.h"

namespace millstream::host {

struct TopicPreparation {
  // Of input topics that have to be made; unset: the first output's `create`, else 4.
  std::optional<int> partitions;
  bool create_inputs = true;  // a local run; false: a missing input is an error
};

// What a processor's topics look like now that they are all there.
struct PreparedTopics {
  int tasks = 0;                           // the partition count its inputs share
  std::vector<int> output_partitions;      // in the spec's order
  int dead_letter_partitions = 0;          // 0: none
  std::vector<std::string> changelog_ids;  // topic id per store, in the spec's order; empty without a changelog
  std::vector<int64_t> output_max_bytes, store_max_bytes;  // largest record each takes
};

struct PreparationReport {
  std::vector<PreparedTopics> processors;  // in the order given
  std::vector<std::string> created;        // "orders (4 partitions)"
  std::vector<std::string> warnings;       // configuration that differs from the manifest's
};

// Makes what is missing of the topics of several processors (a pipeline: outputs of one may be inputs of another) and
// checks what is there. Nothing that exists is changed. Errors name topics and numbers:
//   FAILED_PRECONDITION  inputs of one processor differ in their partition count; an internal topic has another count,
//   or a
//                        changelog is not compacted; an output's `create` says another count than the topic has
//   NOT_FOUND            an output without `create` that is not there
absl::StatusOr<PreparationReport> PrepareTopics(log::Admin* admin,
                                                const std::vector<const spec::StreamProcessorSpec*>& processors,
                                                const TopicPreparation& options);

// The same without making anything: for reading the state of a processor that does not run. NOT_FOUND: it never ran
// here.
absl::StatusOr<PreparedTopics> LookAtTopics(log::Admin* admin, const spec::StreamProcessorSpec& processor);

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_TOPICS_H_
