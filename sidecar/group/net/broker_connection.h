#ifndef MILLSTREAM_SIDECAR_GROUP_NET_BROKER_CONNECTION_H_
#define MILLSTREAM_SIDECAR_GROUP_NET_BROKER_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/log/kafka/cluster_access.h"
#include "common/log/kafka/oauth.h"
#include "sidecar/group/net/address.h"
#include "sidecar/group/net/io_limit.h"
#include "sidecar/group/net/stream.h"
#include "sidecar/group/wire/message.h"

namespace millstream::group {

// One connection to a broker, ready for requests: one at a time, answered in order. One thread at a time.
class BrokerConnection {
 public:
  // Connects, encrypts, checks that the broker speaks what is used here, authenticates.
  // UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED: the network; UNAUTHENTICATED, FAILED_PRECONDITION: a person has to mend
  // something. `tokens`: for OAUTHBEARER, else null.
  static absl::StatusOr<std::unique_ptr<BrokerConnection>> Open(const kafka::ClusterAccess& access,
                                                                kafka::TokenSource* tokens,
                                                                const BrokerAddress& address,
                                                                const std::string& client_id, const IoLimit& limit);

  // UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED; DATA_LOSS: the answer is not one. Any error ends the connection.
  template <typename Request>
  absl::StatusOr<typename Request::Response> Call(const Request& request, const IoLimit& limit) {
    auto answer = Exchange(Request::kApi, Request::kVersion, wire::EncodeMessage(request), limit);
    if (!answer.ok()) return Annotate(answer.status(), Request::kName);
    auto response = wire::DecodeMessage<typename Request::Response>(*answer);
    if (!response.ok()) return Broken(response.status());
    return response;
  }

  // Good for another request: it has not failed, the broker has not closed it, its SASL session lasts a while.
  bool Reusable() const;

 private:
  BrokerConnection(std::unique_ptr<Stream> stream, std::string client_id)
      : stream_(std::move(stream)), client_id_(std::move(client_id)) {}

  absl::Status CheckVersions(const IoLimit& limit);
  absl::Status Authenticate(const kafka::SaslAccess& access, kafka::TokenSource* tokens, const IoLimit& limit);
  absl::StatusOr<std::string> Exchange(wire::ApiKey api, int16_t version, const std::string& body,
                                       const IoLimit& limit);
  absl::Status Read(size_t size, std::string* out, const IoLimit& limit);
  absl::Status Broken(const absl::Status& why);

  const std::unique_ptr<Stream> stream_;
  const std::string client_id_;
  int32_t correlation_id_ = 0;
  bool broken_ = false;
  absl::Duration good_until_ = absl::InfiniteDuration();  // of the SASL session (KIP-368)
};

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_NET_BROKER_CONNECTION_H_
