#include "cli/run/socket_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "common/base/strings.h"

namespace millstream::cli {
namespace {
// A socket address has 107 bytes; the folder's name needs 18 of them, a socket's name up to 57.
constexpr size_t kLongestParent = 30;
}  // namespace

absl::StatusOr<std::string> MakeSocketFolder() {
  const char* runtime = getenv("XDG_RUNTIME_DIR");
  std::string problem;
  for (const char* parent : {runtime, "/tmp"}) {
    if (parent == nullptr || parent[0] != '/' || std::strlen(parent) > kLongestParent) continue;
    std::string pattern = StrCat(parent, "/millstream-XXXXXX");
    if (mkdtemp(pattern.data()) != nullptr) return pattern;  // mode 0700
    StrAppend(&problem, problem.empty() ? "" : "; ", parent, ": ", std::strerror(errno));
  }
  return absl::FailedPreconditionError(StrCat("no folder for the worker's socket can be made (", problem,
                                              "); set XDG_RUNTIME_DIR to a short path you may write to"));
}

void RemoveSocketFolder(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

}  // namespace millstream::cli
