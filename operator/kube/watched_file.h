#ifndef MILLSTREAM_OPERATOR_KUBE_WATCHED_FILE_H_
#define MILLSTREAM_OPERATOR_KUBE_WATCHED_FILE_H_

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace millstream::kube {

// A small file that somebody else replaces from time to time: the token and the authorities that a kubelet projects
// into a pod (tokens are good for about an hour and are replaced at 80 % of that). Thread-safe. `clock` outlives this.
class WatchedFile {
 public:
  // How old what is read may be. client-go reads tokens anew every minute as well.
  static constexpr absl::Duration kMaxAge = absl::Minutes(1);
  // Certificates of a whole company fit; nothing that belongs here is larger.
  static constexpr size_t kMaxBytes = 1 << 20;

  WatchedFile(std::string path, const Clock* clock) : path_(std::move(path)), clock_(clock) {}

  // The bytes of the file, read at most kMaxAge ago. While it cannot be read, or is empty, what was read before stays
  // in use; NOT_FOUND, PERMISSION_DENIED ... with path and reason only when there is nothing yet.
  absl::StatusOr<std::string> Contents();
  // Reads it anew with the next call: the server has refused what is in use.
  void Expire();

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const Clock* const clock_;
  absl::Mutex mutex_;
  std::string contents_ ABSL_GUARDED_BY(mutex_);
  absl::Duration read_at_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
};

// The bytes of a file, at most WatchedFile::kMaxBytes. Errors name the path.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

}  // namespace millstream::kube

#endif  // MILLSTREAM_OPERATOR_KUBE_WATCHED_FILE_H_
