#ifndef MILLSTREAM_SIDECAR_GROUP_NET_OAUTH_TOKEN_H_
#define MILLSTREAM_SIDECAR_GROUP_NET_OAUTH_TOKEN_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/log/kafka/cluster_access.h"
#include "sidecar/group/net/io_limit.h"

namespace millstream::group {

// Access tokens by the client credentials grant (RFC 6749, section 4.4): asked for at the token endpoint, kept for four
// fifths of their life. Thread-safe; `access` is of mechanism OAUTHBEARER.
class OauthTokenSource {
 public:
  explicit OauthTokenSource(kafka::SaslAccess access);

  // UNAUTHENTICATED: the endpoint refuses, in its words. UNAVAILABLE, DEADLINE_EXCEEDED: it cannot be reached.
  // FAILED_PRECONDITION: its answer is not a bearer token.
  absl::StatusOr<std::string> Token(const IoLimit& limit);

 private:
  absl::StatusOr<std::string> Fetch(const IoLimit& limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const kafka::SaslAccess access_;
  absl::Mutex mutex_;  // held while fetching: whoever comes second waits for the same token
  std::string token_ ABSL_GUARDED_BY(mutex_);
  absl::Duration good_until_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_NET_OAUTH_TOKEN_H_
