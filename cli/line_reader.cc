#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cli/input_reader.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {

absl::StatusOr<LineReader> LineReader::Open(const std::string& path) {
  const bool standard = path == "-";
  const int descriptor = standard ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return absl::NotFoundError(StrCat(path, ": ", std::strerror(errno)));
  LineReader reader(standard ? "standard input" : path, descriptor);
  struct stat info;
  if (fstat(descriptor, &info) == 0) {
    if (S_ISDIR(info.st_mode))
      return absl::InvalidArgumentError(StrCat(path, " is a folder; give a file, or - for standard input"));
    if (S_ISREG(info.st_mode)) reader.total_bytes_ = info.st_size;
  }
  return reader;
}

LineReader::LineReader(LineReader&& other) noexcept
    : name_(std::move(other.name_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      buffer_(std::move(other.buffer_)),
      begin_(other.begin_),
      at_end_(other.at_end_),
      line_number_(other.line_number_),
      consumed_(other.consumed_),
      total_bytes_(other.total_bytes_) {}

LineReader::~LineReader() {
  if (descriptor_ > STDERR_FILENO) close(descriptor_);
}

absl::Status LineReader::Fill() {
  constexpr size_t kReadBytes = 1 << 20;
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  if (buffer_.size() > kMaxLine) {
    return absl::InvalidArgumentError(
        StrCat(name_, ": line ", line_number_ + 1, " is longer than ", kMaxLine, " bytes"));
  }
  const size_t old_size = buffer_.size();
  buffer_.resize(old_size + kReadBytes);
  ssize_t got;
  do {
    got = read(descriptor_, buffer_.data() + old_size, kReadBytes);
  } while (got < 0 && errno == EINTR);
  const int error = errno;
  buffer_.resize(old_size + std::max<ssize_t>(got, 0));
  if (got < 0) return absl::DataLossError(StrCat(name_, ": ", std::strerror(error)));
  if (got == 0) at_end_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string_view>> LineReader::Next() {
  size_t searched = begin_;
  while (true) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos || (at_end_ && begin_ < buffer_.size())) {
      const size_t stop = end == std::string::npos ? buffer_.size() : end;
      std::string_view line(buffer_.data() + begin_, stop - begin_);
      consumed_ += static_cast<int64_t>(line.size() + (end == std::string::npos ? 0 : 1));
      begin_ = end == std::string::npos ? buffer_.size() : end + 1;
      ++line_number_;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      return line;
    }
    if (at_end_) return std::nullopt;
    const size_t pending = buffer_.size() - begin_;
    MS_RETURN_IF_ERROR(Fill());
    searched = begin_ + pending;
  }
}

bool LineReader::Ready(absl::Duration wait) {
  if (at_end_ || total_bytes_.has_value() || buffer_.find('\n', begin_) != std::string::npos) return true;
  pollfd waiting{descriptor_, POLLIN, 0};
  return poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(wait))) != 0;
}

}  // namespace millstream::cli
