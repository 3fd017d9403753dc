#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_OPEN_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_OPEN_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/log/embedded/embedded_log.h"

namespace rocksdb {
class FileSystem;
}

namespace millstream::log::embedded {

// What only tests change.
struct InternalOptions {
  std::shared_ptr<rocksdb::FileSystem> file_system;  // to inject I/O errors
  int64_t segment_bytes = 64 << 20;
};

absl::StatusOr<std::unique_ptr<EmbeddedLog>> OpenLog(const EmbeddedLogOptions& options,
                                                     const InternalOptions& internal);

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_OPEN_H_
