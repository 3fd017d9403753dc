#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_FOLDER_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millstream::log::embedded {

// The version of everything this folder of the source writes. Raised when an older program could misread the result.
inline constexpr int kFormatVersion = 1;

// The log's folder, held by this process: LOCK (flock; the holder's pid inside), FORMAT (version), db/ (RocksDB).
// The lock ends with the object, or with the process however it ends.
class Folder {
 public:
  // Makes the folder if it is missing. FAILED_PRECONDITION if it is held (names the pid) or of a newer version;
  // DATA_LOSS names a damaged or missing file; others say what the system refused.
  static absl::StatusOr<std::unique_ptr<Folder>> Hold(const std::string& directory);
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string database() const { return directory_ + "/db"; }

 private:
  Folder(std::string directory, int lock) : directory_(std::move(directory)), lock_(lock) {}
  absl::Status CheckFormat();

  const std::string directory_;
  const int lock_;  // file descriptor
};

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_FOLDER_H_
