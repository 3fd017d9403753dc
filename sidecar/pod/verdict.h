#ifndef MILLSTREAM_SIDECAR_POD_VERDICT_H_
#define MILLSTREAM_SIDECAR_POD_VERDICT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace millstream::pod {

// What a Job has to say to whoever made it, in the message of its termination.
struct Verdict {
  bool ok = false;
  std::string reason;   // one word for a condition
  std::string message;  // for a person, with the way out
  bool retry = false;   // nobody has to change anything for another attempt to do better
  int tasks = 0;        // of the processor; 0: not known
  std::vector<std::string> created, deleted, warnings;
};

// What the kubelet takes of a termination message.
inline constexpr size_t kMaxVerdictBytes = 4096;

// One JSON object, at most kMaxVerdictBytes: the message is cut, lists lose their ends, and "leftOut" counts what is
// not told.
std::string ToJson(const Verdict& verdict);

// 0 ok, 1 not, 3 not, and another attempt may do better.
int ExitCodeOf(const Verdict& verdict);

// Where the kubelet looks for it unless told otherwise.
inline constexpr char kTerminationLog[] = "/dev/termination-log";

// Replaces the content of the file. Empty path: nothing; nor is it an error if kTerminationLog is not there: this is no
// pod.
absl::Status WriteTerminationMessage(const std::string& path, const std::string& message);

}  // namespace millstream::pod

#endif  // MILLSTREAM_SIDECAR_POD_VERDICT_H_
