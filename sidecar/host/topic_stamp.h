#ifndef MILLSTREAM_SIDECAR_HOST_TOPIC_STAMP_H_
#define MILLSTREAM_SIDECAR_HOST_TOPIC_STAMP_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/log/record.h"
#include "sidecar/host/topics.h"

namespace millstream::host {

// Which topics committed offsets, and the state that goes with them, are of: the id of every input, of the loop and of
// every changelog, as a JSON object by topic. It is in the metadata of the offsets (engine.md, R6), so that a topic
// that was deleted and made anew between two runs is noticed: offsets would be of another topic, or state would be
// gone. Empty where the log has no ids (Kafka before 2.8). Of very many topics only the first, inputs before
// changelogs: brokers take 4 KiB.
std::string TopicStampOf(const PreparedTopics& topics);

// Compares what the task's committed offsets say with the topics as they are; `inputs` are the task's partitions.
//   FAILED_PRECONDITION "TopicRecreated: ..." with both ids, "OffsetsLost: ..." if an input has no offset any more
// though others were committed together with it. Both name the way out. Offsets without a stamp (set by a tool, or by
// an older release) say nothing.
absl::Status CheckTopicStamp(const std::string& group, const PreparedTopics& topics,
                             const std::vector<TopicPartition>& inputs,
                             const std::map<TopicPartition, log::GroupOffset>& committed);

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_TOPIC_STAMP_H_
