#ifndef MILLSTREAM_SIDECAR_GROUP_NET_SCRAM_H_
#define MILLSTREAM_SIDECAR_GROUP_NET_SCRAM_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "sidecar/group/net/secrets.h"

namespace millstream::group {

// The client's side of one SCRAM exchange (RFC 5802 and 7677), without channel binding: what Kafka offers. The server
// proves that it knows the password, too. User name and password are taken as they are: no SASLprep, as in Kafka's own
// clients, so that outside ASCII the bytes given here must be those given when the user was made.
class ScramClient {
 public:
  // `nonce`: fresh random text without a comma.
  ScramClient(HashKind kind, std::string username, std::string password, std::string nonce);

  std::string FirstMessage();
  // The answer to the server's first message. FAILED_PRECONDITION: the message is malformed, of another exchange, or
  // asks for less than 4,096 or more than 1,000,000 iterations (Kafka's own bounds are 4,096 to 16,384).
  absl::StatusOr<std::string> FinalMessage(std::string_view server_first);
  // Checks the server's last message. UNAUTHENTICATED: it refuses, or does not know the password itself.
  absl::Status Verify(std::string_view server_final) const;

 private:
  const HashKind kind_;
  const std::string username_, password_, nonce_;
  std::string first_bare_, server_signature_;
};

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_NET_SCRAM_H_
