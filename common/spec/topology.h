#ifndef MILLSTREAM_COMMON_SPEC_TOPOLOGY_H_
#define MILLSTREAM_COMMON_SPEC_TOPOLOGY_H_

#include <span>
#include <string>
#include <vector>

#include "common/spec/stream_processor.h"

namespace millstream::spec {

// How processors, topics and stores hang together: what `millstream explain` shows. Made from the specifications alone,
// nothing is asked.

// Topics that must have one partition count: the inputs of a processor with its changelogs and dead letters, and what
// shares an input with them.
struct PartitionGroup {
  std::vector<std::string> topics;      // sorted
  int32_t partitions = 0;               // of the output that creates one of them; 0: nobody creates any
  std::vector<std::string> processors;  // namespace/name, in the order given
};
std::vector<PartitionGroup> PartitionGroupsOf(std::span<const StreamProcessorSpec> processors);

// For people: one paragraph per processor, then the topics that share a partition count. Lines end with a line end.
std::string ExplainText(std::span<const StreamProcessorSpec> processors);

// A Mermaid flowchart: topics as boxes, processors as rounded boxes, stores as cylinders. Paste it where Mermaid is
// drawn.
std::string ExplainMermaid(std::span<const StreamProcessorSpec> processors);

// For programs: {"processors": [...], "topics": [...], "partitionGroups": [...]}, indented.
std::string ExplainJson(std::span<const StreamProcessorSpec> processors);

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_TOPOLOGY_H_
