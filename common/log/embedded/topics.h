#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_TOPICS_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_TOPICS_H_

#include <string>

#include "absl/status/status.h"
#include "common/log/admin.h"
#include "common/log/embedded/core.h"

namespace millstream::log::embedded {

// Contracts: Admin::CreateTopic and Admin::DeleteTopic. Both are on the disk when they return OK. If only their sync
// fails they have happened all the same, here and, once the storage is healed, on the disk.
absl::Status CreateTopic(Core& core, const TopicSpec& spec);
// Offsets of groups on the topic go with it; its readers are told; open transactions go on without it.
absl::Status DeleteTopic(Core& core, const std::string& name);

TopicInfo Describe(const Topic& topic);

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_TOPICS_H_
