#include "sidecar/group/net/cluster_client.h"

#include <utility>

namespace millstream::group {
namespace {

constexpr absl::Duration kLongestSetup = absl::Seconds(10);  // even where the call itself may wait longer
// A coordinator and some brokers of transactional ids. Above that the kept ones are closed: reconnecting is cheap.
constexpr size_t kMostKept = 16;

}  // namespace

std::unique_ptr<kafka::TokenSource> NewTokensFor(const kafka::ClusterAccess& access) {
  const bool needed = access.sasl.has_value() && access.sasl->mechanism == kafka::SaslMechanism::kOauthBearer;
  return needed ? kafka::NewTokenSource(access) : nullptr;
}

ClusterClient::ClusterClient(kafka::ClusterAccess access, kafka::TokenSource* tokens, std::string client_id)
    : access_(std::move(access)),
      tokens_(tokens),
      client_id_(std::move(client_id)),
      bootstrap_(ParseBootstrapServers(access_.bootstrap_servers)) {}

absl::StatusOr<BrokerConnection*> ClusterClient::ConnectionTo(const BrokerAddress& to, const IoLimit& limit) {
  if (const auto kept = connections_.find(to); kept != connections_.end()) {
    if (kept->second->Reusable()) return kept->second.get();
    connections_.erase(kept);
  }
  MS_ASSIGN_OR_RETURN(std::unique_ptr<BrokerConnection> connection,
                      BrokerConnection::Open(access_, tokens_, to, client_id_, limit.AtMost(kLongestSetup)));
  if (connections_.size() >= kMostKept) connections_.clear();
  return (connections_[to] = std::move(connection)).get();
}

}  // namespace millstream::group
