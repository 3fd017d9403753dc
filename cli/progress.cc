#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/text_format.h"
#include "common/base/clock.h"
#include "common/base/strings.h"

namespace millstream::cli {

bool IsTerminal(int descriptor) { return isatty(descriptor) == 1; }

int TerminalWidth(int descriptor) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

ProgressBar::ProgressBar(std::string what)
    : what_(std::move(what)), shown_(IsTerminal(STDERR_FILENO)), start_(SystemClock().Monotonic()), drawn_(start_) {}

ProgressBar::~ProgressBar() {
  if (dirty_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::Update(int64_t done, std::optional<int64_t> total, int64_t records) {
  if (!shown_) return;
  const absl::Duration now = SystemClock().Monotonic();
  if (now - drawn_ < absl::Milliseconds(100)) return;
  drawn_ = now;
  dirty_ = true;
  const double seconds = absl::ToDoubleSeconds(now - start_);
  std::string line = StrCat(what_, "  ");
  if (total.has_value() && *total > 0) {
    constexpr int kWidth = 24;
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(*total));
    const int full = static_cast<int>(share * kWidth);
    StrAppend(&line, "[", std::string(full, '#'), std::string(kWidth - full, '.'), "] ", static_cast<int>(share * 100),
              " %  ");
  }
  StrAppend(&line, WithCommas(records), " records  ",
            WithCommas(static_cast<int64_t>(records / std::max(seconds, 0.001))), "/s");
  if (total.has_value() && done > 0 && done < *total) {
    const double left = seconds * static_cast<double>(*total - done) / static_cast<double>(done);
    StrAppend(&line, "  ", static_cast<int>(left + 1), " s left");
  }
  const size_t width = static_cast<size_t>(TerminalWidth(STDERR_FILENO) - 1);
  std::fprintf(stderr, "\r%s\033[K", line.substr(0, width).c_str());
}

}  // namespace millstream::cli
