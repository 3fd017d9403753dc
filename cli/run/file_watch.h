#ifndef MILLSTREAM_CLI_RUN_FILE_WATCH_H_
#define MILLSTREAM_CLI_RUN_FILE_WATCH_H_

#include <cstdint>
#include <string>
#include <vector>

namespace millstream::cli {

// Notices changes of a program's files: those named in its command and everything beside and below them, without hidden
// folders, caches and node_modules. It looks when asked, at no more than kMaxFiles files.
class FileWatch {
 public:
  static constexpr int kMaxFiles = 5'000;  // a look of a few milliseconds

  explicit FileWatch(const std::vector<std::string>& command);
  // True when something changed since the last call.
  bool Changed();
  // Folders and files it looks at; empty: the command names no file.
  const std::vector<std::string>& places() const { return places_; }

 private:
  uint64_t Fingerprint() const;

  std::vector<std::string> places_;
  uint64_t last_;
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_RUN_FILE_WATCH_H_
