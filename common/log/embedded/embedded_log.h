#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_EMBEDDED_LOG_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_EMBEDDED_LOG_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/log/log.h"

namespace millstream::log {

struct EmbeddedLogOptions {
  std::string directory;
  const Clock* clock = &SystemClock();
  int64_t block_cache_bytes = 8 << 20;
  int64_t memtable_bytes = 16 << 20;
  // Bound on the calls of Admin that wait (StableGroupOffsets).
  absl::Duration admin_deadline = absl::Seconds(30);
  // How often retention, compaction and transaction timeouts are looked at; zero: only by RunMaintenance.
  absl::Duration maintenance_interval = absl::Seconds(5);
};

// A whole log in one folder on RocksDB: topics, transactions, groups; durable, for one process at a time.
// It behaves as Kafka does where it matters: appends take offsets at once, markers take an offset, last stable offset,
// producer epochs, pending group offsets, generations. A commit is durable by one synced write.
//
// A full disk (RESOURCE_EXHAUSTED) and other I/O errors (UNAVAILABLE) refuse writes and nothing else: reading goes on.
// Once the cause is gone the next write succeeds. Nothing undecided is visible meanwhile, and a commit whose outcome
// was unknown is found either whole or aborted afterwards. Only damaged files, or a disk that lost what it could not
// sync, make every write INTERNAL, without a Recovery, until the log is opened again.
class EmbeddedLog : public Log {
 public:
  // Creates the folder if it is missing. FAILED_PRECONDITION if another process holds it (names its pid),
  // DATA_LOSS if it is damaged, FAILED_PRECONDITION if a newer format version wrote it.
  static absl::StatusOr<std::unique_ptr<EmbeddedLog>> Open(const EmbeddedLogOptions& options);

  // Makes `member_id` the sole member of the group and raises its generation: earlier tokens are refused from now on.
  virtual absl::StatusOr<GroupToken> JoinGroup(const std::string& group, const std::string& member_id) = 0;
  virtual void LeaveGroup(const GroupToken& token) = 0;

  // Retention, compaction and transaction timeouts now; for tests with a fake clock.
  virtual absl::Status RunMaintenance() = 0;
};

}  // namespace millstream::log

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_EMBEDDED_LOG_H_
