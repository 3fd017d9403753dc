#ifndef MILLSTREAM_CLI_KUBERNETES_TAR_WRITER_H_
#define MILLSTREAM_CLI_KUBERNETES_TAR_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace millstream::cli {

// An archive in memory, in the ustar format of POSIX.1-1988: what every tar reads.
class TarWriter {
 public:
  // `mtime`: seconds since 1970, of every entry.
  explicit TarWriter(int64_t mtime) : mtime_(mtime) {}
  // `path` has at most 99 bytes; a longer one is cut.
  void Add(std::string_view path, std::string_view content);
  // The archive with its end. Nothing is added after that.
  std::string Finish();

 private:
  const int64_t mtime_;
  std::string bytes_;
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_KUBERNETES_TAR_WRITER_H_
