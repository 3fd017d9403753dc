#ifndef MILLSTREAM_SIDECAR_GROUP_NET_SASL_H_
#define MILLSTREAM_SIDECAR_GROUP_NET_SASL_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/log/kafka/cluster_access.h"
#include "common/log/kafka/oauth.h"

namespace millstream::group {

// The client's side of one SASL exchange: Start gives the first message, Step one for every answer until `done`.
class SaslExchange {
 public:
  virtual ~SaslExchange() = default;
  virtual absl::StatusOr<std::string> Start() = 0;
  // UNAUTHENTICATED, FAILED_PRECONDITION: the server's answer is not what the mechanism asks for.
  virtual absl::StatusOr<std::string> Step(std::string_view answer) = 0;
  virtual bool done() const = 0;
};

// "SCRAM-SHA-512"
std::string_view MechanismName(kafka::SaslMechanism mechanism);

// `tokens` is used for OAUTHBEARER only and may be null otherwise; the token is got here. Errors are its own.
absl::StatusOr<std::unique_ptr<SaslExchange>> NewSaslExchange(const kafka::SaslAccess& access,
                                                              kafka::TokenSource* tokens);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_NET_SASL_H_
