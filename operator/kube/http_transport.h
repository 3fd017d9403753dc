#ifndef MILLSTREAM_OPERATOR_KUBE_HTTP_TRANSPORT_H_
#define MILLSTREAM_OPERATOR_KUBE_HTTP_TRANSPORT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "operator/kube/config.h"
#include "operator/kube/transport.h"

namespace millstream::kube {

// The transport to a real API server, on common/http. Adds the bearer token and the user agent. Token, authorities and
// client certificate that are files are read again every minute; the token also, and at once, after an answer of 401,
// with which the call is then sent a second time. A call that may be repeated is sent a second time when its connection
// breaks: a kept one is closed by the server when it was idle for long. No call is sent more than twice.
// `clock` outlives it.
//
// INVALID_ARGUMENT and the errors of ReadSmallFile: the configuration cannot be used; names what and where.
absl::StatusOr<std::unique_ptr<Transport>> NewHttpTransport(const ClientConfig& config, const std::string& user_agent,
                                                            const Clock* clock);

}  // namespace millstream::kube

#endif  // MILLSTREAM_OPERATOR_KUBE_HTTP_TRANSPORT_H_
