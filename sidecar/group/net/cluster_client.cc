#include "sidecar/group/net/cluster_client.h"

#include <utility>

#include "sidecar/group/wire/api_versions.h"

namespace millstream::group {
namespace {

constexpr absl::Duration kLongestSetup = absl::Seconds(10);  // even where the call itself may wait longer
// A coordinator and some brokers of transactional ids. Above that the kept ones are closed: reconnecting is cheap.
constexpr size_t kMostKept = 16;

}  // namespace

ClusterClient::ClusterClient(std::shared_ptr<const kafka::LiveAccess> access, std::string client_id)
    : access_(std::move(access)),
      client_id_(std::move(client_id)),
      bootstrap_(ParseBootstrapServers(access_->Now()->access.bootstrap_servers)) {}

absl::StatusOr<BrokerConnection*> ClusterClient::ConnectionTo(const BrokerAddress& to, const IoLimit& limit) {
  const std::shared_ptr<const kafka::AccessInForce> access = access_->Now();
  if (std::exchange(version_, access->version) != access->version) connections_.clear();
  if (const auto kept = connections_.find(to); kept != connections_.end()) {
    if (kept->second->Reusable()) return kept->second.get();
    connections_.erase(kept);
  }
  MS_ASSIGN_OR_RETURN(
      std::unique_ptr<BrokerConnection> connection,
      BrokerConnection::Open(access->access, access->tokens.get(), to, client_id_, limit.AtMost(kLongestSetup)));
  if (connections_.size() >= kMostKept) connections_.clear();
  return (connections_[to] = std::move(connection)).get();
}

absl::Status TryAccess(const kafka::ClusterAccess& access, const std::string& client_id, const IoLimit& limit) {
  ClusterClient client(std::make_shared<kafka::LiveAccess>(access), client_id);
  return client.Call(std::nullopt, wire::ApiVersionsRequest{}, limit).status();
}

}  // namespace millstream::group
