#include "common/base/lock_file.h"

#include <sys/file.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace millstream {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(5);
constexpr absl::Duration kPause = absl::Milliseconds(10);

bool IsNoMore(pid_t process) { return process > 0 && kill(process, 0) != 0 && errno == ESRCH; }

}  // namespace

absl::Status LockFile(int fd, pid_t holder) {
  const absl::Time end = absl::Now() + kPatience;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return absl::UnknownError(std::strerror(errno));
    if (!IsNoMore(holder) || absl::Now() >= end) return absl::UnavailableError("locked");
    absl::SleepFor(kPause);
  }
  return absl::OkStatus();
}

pid_t HolderIn(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  const size_t last = text.find_last_of(kDigits);
  if (last == std::string_view::npos) return 0;
  const size_t before = text.find_last_not_of(kDigits, last);
  const size_t first = before == std::string_view::npos ? 0 : before + 1;
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(text.data() + first, text.data() + last + 1, pid);
  return error == std::errc() ? pid : 0;
}

}  // namespace millstream
