#include "common/log/embedded/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::log::embedded {
namespace {

constexpr absl::string_view kFormatPrefix = "millstream embedded log, format ";

absl::Status SystemError(std::string_view doing, const std::string& path) {
  const int error = errno;
  const std::string what = StrCat(doing, " ", path, ": ", std::strerror(error));
  return error == ENOSPC ? absl::ResourceExhaustedError(what) : absl::UnavailableError(what);
}

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

absl::Status SyncPath(const std::string& path, int flags) {
  const int file = open(path.c_str(), flags | O_CLOEXEC);
  if (file < 0) return SystemError("open", path);
  const bool synced = fsync(file) == 0;
  const absl::Status status = synced ? absl::OkStatus() : SystemError("sync", path);
  close(file);
  return status;
}

// Whole or not at all, also if the machine stops in between.
absl::Status WriteFileDurably(const std::string& directory, const std::string& name, std::string_view content) {
  const std::string path = directory + "/" + name, draft = path + ".new";
  std::ofstream out(draft, std::ios::binary | std::ios::trunc);
  out << content;
  out.close();
  if (!out) return SystemError("write", draft);
  MS_RETURN_IF_ERROR(SyncPath(draft, O_WRONLY));
  if (rename(draft.c_str(), path.c_str()) != 0) return SystemError("rename", draft);
  return SyncPath(directory, O_RDONLY | O_DIRECTORY);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Folder>> Folder::Hold(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return absl::UnavailableError(StrCat("make folder ", directory, ": ", error.message()));
  const std::string path = directory + "/LOCK";
  const int lock = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return SystemError("open", path);
  std::unique_ptr<Folder> folder(new Folder(directory, lock));
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return SystemError("lock", path);
    const std::string holder(absl::StripAsciiWhitespace(ReadAll(path)));
    return absl::FailedPreconditionError(StrCat("the embedded log in ", directory, " is in use by process ",
                                                holder.empty() ? "(starting)" : holder,
                                                "; stop it, or give this one another folder"));
  }
  const std::string pid = StrCat(getpid(), "\n");
  if (ftruncate(lock, 0) != 0 || pwrite(lock, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return SystemError("write", path);
  }
  MS_RETURN_IF_ERROR(folder->CheckFormat());
  return folder;
}

Folder::~Folder() { close(lock_); }

absl::Status Folder::CheckFormat() {
  const std::string path = directory_ + "/FORMAT";
  if (!std::filesystem::exists(path)) {
    if (std::filesystem::exists(database())) {
      return absl::DataLossError(
          StrCat(path, " is missing although ", database(), " exists: restore both, or remove both"));
    }
    return WriteFileDurably(directory_, "FORMAT", StrCat(kFormatPrefix, kFormatVersion, "\n"));
  }
  const std::string content = ReadAll(path);
  absl::string_view rest = absl::StripAsciiWhitespace(content);
  int version = 0;
  if (!absl::ConsumePrefix(&rest, kFormatPrefix) || !absl::SimpleAtoi(rest, &version) || version < 1) {
    return absl::DataLossError(StrCat(path, " is damaged: it reads \"", Readable(content), "\""));
  }
  if (version > kFormatVersion) {
    return absl::FailedPreconditionError(StrCat(path, " says format ", version, "; this program reads up to ",
                                                kFormatVersion, ": use a newer millstream, or another folder"));
  }
  return absl::OkStatus();
}

}  // namespace millstream::log::embedded
