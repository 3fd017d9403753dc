#ifndef MILLSTREAM_CLI_PROGRESS_H_
#define MILLSTREAM_CLI_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace millstream::cli {

bool IsTerminal(int descriptor);
// Columns of the terminal behind `descriptor`; 80 if it has none.
int TerminalWidth(int descriptor);

// A bar on standard error while something long goes on; nothing when that is not a terminal. Drawn at most ten times a
// second.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  // Takes the bar away.
  ~ProgressBar();

  // `done` of `total` bytes (nullopt: unknown), and how many records that were.
  void Update(int64_t done, std::optional<int64_t> total, int64_t records);

 private:
  const std::string what_;
  const bool shown_;
  const absl::Duration start_;
  absl::Duration drawn_;
  bool dirty_ = false;
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_PROGRESS_H_
