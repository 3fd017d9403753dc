#ifndef MILLSTREAM_COMMON_LOG_KAFKA_OAUTH_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_OAUTH_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/log/kafka/cluster_access.h"

namespace millstream::kafka {

// An access token for SASL OAUTHBEARER.
struct Token {
  std::string text;       // as it goes to the broker; a secret
  std::string principal;  // whom it is for, as far as we know
  absl::Time expires;
};

// Fetches tokens with the client credentials grant (RFC 6749, section 4.4) and keeps the last one while more than a
// tenth of its life is left, so that the clients of a process ask the token endpoint once and not each. Thread-safe.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // Blocks up to 10 s. Errors name the endpoint and what it answered, never the secret. UNAVAILABLE: no answer;
  // UNAUTHENTICATED: the endpoint refuses; INVALID_ARGUMENT: the answer is not one of RFC 6749, section 5.1.
  virtual absl::StatusOr<Token> Get() = 0;
};

// Precondition: access.sasl is set, with mechanism OAUTHBEARER.
std::unique_ptr<TokenSource> NewTokenSource(const ClusterAccess& access);

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_OAUTH_H_
