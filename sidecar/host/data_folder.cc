#include "sidecar/host/data_folder.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "common/base/lock_file.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::host {
namespace {

namespace fs = std::filesystem;

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return absl::OkStatus();
  const std::string message =
      StrCat("folder ", path, " cannot be made: ", error.message(), "; choose another one with --data");
  return error == std::errc::no_space_on_device ? absl::ResourceExhaustedError(message)
                                                : absl::FailedPreconditionError(message);
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The whole file or the old one, whatever happens.
absl::Status WriteWhole(const std::string& path, std::string_view text) {
  const std::string draft = path + ".new";
  const int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return absl::ResourceExhaustedError(StrCat(path, ": ", std::strerror(errno)));
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(file) == 0;
  const int error = errno;
  close(file);
  if (!written) return absl::ResourceExhaustedError(StrCat(path, ": ", std::strerror(error)));
  if (rename(draft.c_str(), path.c_str()) != 0)
    return absl::ResourceExhaustedError(StrCat(path, ": ", std::strerror(errno)));
  return absl::OkStatus();
}

std::string RandomId() {
  unsigned char bytes[6];
  MS_CHECK(getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes));
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  for (const unsigned char byte : bytes) id += {kDigits[byte >> 4], kDigits[byte & 15]};
  return id;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataFolder>> DataFolder::Acquire(const std::string& path, const std::string& program,
                                                                bool create) {
  if (!create && !fs::is_directory(path)) {
    return absl::NotFoundError(StrCat("there is no data folder ", path,
                                      "; name it with --data, or make it by `millstream run` or `millstream produce`"));
  }
  MS_RETURN_IF_ERROR(MakeFolder(path));
  const std::string lock_path = path + "/lock";
  const int lock = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0)
    return absl::FailedPreconditionError(
        StrCat(lock_path, ": ", std::strerror(errno), "; choose another folder with --data"));
  const std::string holder = ReadAll(lock_path);
  if (const absl::Status locked = LockFile(lock, HolderIn(holder)); !locked.ok()) {
    close(lock);
    if (!absl::IsUnavailable(locked)) {
      return absl::FailedPreconditionError(StrCat(lock_path, ": ", std::string(locked.message())));
    }
    return absl::FailedPreconditionError(StrCat("data folder ", path, " is held by ",
                                                holder.empty() ? "another process" : holder,
                                                "; end it, or choose another folder with --data"));
  }
  std::unique_ptr<DataFolder> folder(new DataFolder(fs::absolute(path).lexically_normal().string(), lock));
  const std::string self = StrCat(program, " (pid ", getpid(), ")");
  if (ftruncate(lock, 0) != 0 || pwrite(lock, self.data(), self.size(), 0) != static_cast<ssize_t>(self.size())) {
    return absl::ResourceExhaustedError(StrCat(lock_path, ": ", std::strerror(errno)));
  }
  const std::string instance_path = path + "/instance";
  folder->instance_id_ = ReadAll(instance_path);
  if (folder->instance_id_.empty()) {
    folder->instance_id_ = RandomId();
    MS_RETURN_IF_ERROR(WriteWhole(instance_path, folder->instance_id_));
  }
  return folder;
}

DataFolder::~DataFolder() { close(lock_); }

absl::StatusOr<std::string> DataFolder::StateDirectory(std::string_view group) const {
  std::string directory = StrCat(path_, "/state/", group);  // a group is a legal topic prefix: no slash in it
  MS_RETURN_IF_ERROR(MakeFolder(directory));
  return directory;
}

absl::Status DataFolder::RememberProcessor(const spec::Manifest& manifest) {
  const std::string directory = path_ + "/processors";
  MS_RETURN_IF_ERROR(MakeFolder(directory));
  return WriteWhole(StrCat(directory, "/", manifest.processor.name_space, ".", manifest.processor.name, ".json"),
                    manifest.canonical_json);
}

std::vector<spec::Manifest> DataFolder::KnownProcessorsIn(const std::string& path) {
  std::vector<std::string> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path + "/processors", error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  std::vector<spec::Manifest> manifests;
  for (const std::string& file : files) {
    absl::StatusOr<spec::Manifest> manifest = spec::LoadOneManifest(file);
    if (manifest.ok()) manifests.push_back(*std::move(manifest));
  }
  return manifests;
}

}  // namespace millstream::host
