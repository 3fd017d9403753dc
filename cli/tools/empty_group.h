#ifndef MILLSTREAM_CLI_TOOLS_EMPTY_GROUP_H_
#define MILLSTREAM_CLI_TOOLS_EMPTY_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/log/log.h"

namespace millstream::cli {

// The members of `group` as people know them: "pod-0 (/10.0.0.7)", or the member id. Empty: nobody is in it.
absl::StatusOr<std::vector<std::string>> MembersOf(log::Log* log, const std::string& group);

// FAILED_PRECONDITION that names the members alive, and what to do about them.
absl::Status CheckNoMembers(log::Log* log, const std::string& group);

// The owner stamp in the metadata of an offset; empty if none is there (another tool set it).
std::string OwnerOf(std::string_view metadata);
// {"v":1,"owner":...,"tag":...}: what Millstream writes beside every offset (engine.md, R6).
std::string OffsetMetadata(std::string_view owner, std::string_view tag);

// Sets offsets of a group that has no members, together with records, in transactions: all or nothing, also when this
// process is killed in the middle, and never under the feet of a member. A member that joins before the offsets are
// sent is seen afterwards, and the transaction aborted; one that joins later waits for the outcome, because it asks for
// stable offsets. One writer of an id lives at a time: opening the next one ends what the last one left open.
// Thread-compatible.
class EmptyGroupWriter {
 public:
  // `log` outlives the writer. FAILED_PRECONDITION: members are alive.
  static absl::StatusOr<std::unique_ptr<EmptyGroupWriter>> Open(log::Log* log, std::string group,
                                                                std::string transactional_id, std::string owner);
  // Aborts what is open.
  ~EmptyGroupWriter();
  EmptyGroupWriter(const EmptyGroupWriter&) = delete;
  EmptyGroupWriter& operator=(const EmptyGroupWriter&) = delete;

  // Into the transaction, which is begun when needed.
  absl::Status Append(std::vector<log::OutgoingRecord> records);
  // Commits what was appended together with these positions (at least one); the metadata names owner and transaction.
  // After an error nothing of the transaction has happened. An unknown outcome is settled here, by looking.
  absl::Status Commit(const std::vector<std::pair<TopicPartition, Offset>>& positions);

 private:
  EmptyGroupWriter(log::Log* log, std::string group, std::string transactional_id, std::string owner);
  absl::Status MakeWriter();
  absl::Status BeginIfNeeded();
  absl::Status TryCommit(const std::vector<std::pair<TopicPartition, log::GroupOffset>>& offsets);
  absl::Status Settle(const std::vector<std::pair<TopicPartition, log::GroupOffset>>& offsets,
                      const absl::Status& failure);
  // Aborts after `failure`, which is returned.
  absl::Status GiveUp(absl::Status failure);

  log::Log* const log_;
  const std::string group_, transactional_id_, owner_;
  const int64_t process_start_;
  uint64_t transactions_ = 0;
  bool open_ = false;
  std::unique_ptr<log::TransactionalWriter> writer_;
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_TOOLS_EMPTY_GROUP_H_
