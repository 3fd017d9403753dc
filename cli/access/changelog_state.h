#ifndef MILLSTREAM_CLI_ACCESS_CHANGELOG_STATE_H_
#define MILLSTREAM_CLI_ACCESS_CHANGELOG_STATE_H_

#include <memory>
#include <optional>

#include "cli/access/local_access.h"
#include "common/log/log.h"
#include "common/spec/stream_processor.h"

namespace millstream::cli {

// State read from the changelog topics alone (joins and lookups: from their own topics): no member is asked, no disk is
// used. A changelog as read_committed readers see it, compacted, is the committed state, so the answer is right whether
// the processor runs or not, and as old as its last commit. The price: a get reads one partition of the changelog
// whole, a scan all of them. At most TopicTable::kMostBytes of keys and values of one task are held; RESOURCE_EXHAUSTED
// asks for a narrower range. `log` outlives it. Without a processor every question is INVALID_ARGUMENT, which says how
// to name one. Thread-safe.
std::unique_ptr<ProcessorBackend> NewChangelogState(log::Log* log, std::optional<spec::StreamProcessorSpec> processor);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_ACCESS_CHANGELOG_STATE_H_
