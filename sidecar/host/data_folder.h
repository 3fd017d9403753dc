#ifndef MILLSTREAM_SIDECAR_HOST_DATA_FOLDER_H_
#define MILLSTREAM_SIDECAR_HOST_DATA_FOLDER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/spec/manifest.h"

namespace millstream::host {

// The folder of a local run (default ./.millstream), held by one process at a time:
//
//   lock           held with flock; program and pid of the holder as text
//   instance       random id of this folder: part of transactional ids
//   control.sock   where the holder serves commands of other terminals (cli/access)
//   log/           the embedded log
//   state/<group>/<task>/   one database per task
//   processors/<namespace>.<name>.json   canonical manifest of every processor that ever ran here
//
// Thread-safe after Acquire. Everything below may be deleted with the folder; state alone may be deleted, it is
// rebuilt.
class DataFolder {
 public:
  // Takes the lock; it ends with the object or the process, whatever kills it. FAILED_PRECONDITION names program and
  // pid of the holder. NOT_FOUND if the folder is missing and `create` is false.
  static absl::StatusOr<std::unique_ptr<DataFolder>> Acquire(const std::string& path, const std::string& program,
                                                             bool create);
  ~DataFolder();
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  const std::string& path() const { return path_; }
  const std::string& instance_id() const { return instance_id_; }
  std::string LogDirectory() const { return path_ + "/log"; }
  // Folders of task databases; made if missing.
  absl::StatusOr<std::string> StateDirectory(std::string_view group) const;

  absl::Status RememberProcessor(const spec::Manifest& manifest);
  // Processors that ran here, by qualified name. A file that no longer parses is left out.
  std::vector<spec::Manifest> KnownProcessors() const { return KnownProcessorsIn(path_); }
  // The same without holding the folder: files are replaced whole.
  static std::vector<spec::Manifest> KnownProcessorsIn(const std::string& path);

 private:
  DataFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::string path_;
  const int lock_;
  std::string instance_id_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_DATA_FOLDER_H_
