#ifndef MILLSTREAM_SIDECAR_GROUP_NET_CLUSTER_CLIENT_H_
#define MILLSTREAM_SIDECAR_GROUP_NET_CLUSTER_CLIENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/status.h"
#include "common/log/kafka/cluster_access.h"
#include "common/log/kafka/live_access.h"
#include "sidecar/group/net/address.h"
#include "sidecar/group/net/broker_connection.h"
#include "sidecar/group/net/io_limit.h"

namespace millstream::group {

// Calls to the brokers of a cluster, over connections that are kept. One thread at a time. Errors as
// BrokerConnection's, with the broker's address in front; INVALID_ARGUMENT: the bootstrap servers cannot be read.
// Connections of an access that is not in force any more are closed before the next call; a call under way ends on its
// own. Brokers know members of a group by their id, so that nothing of a membership depends on a connection.
class ClusterClient {
 public:
  ClusterClient(std::shared_ptr<const kafka::LiveAccess> access, std::string client_id);

  // To the broker at `to`, or to any: bootstrap servers in turn, beginning with the one that answered last.
  template <typename Request>
  absl::StatusOr<typename Request::Response> Call(const std::optional<BrokerAddress>& to, const Request& request,
                                                  const IoLimit& limit) {
    if (to.has_value()) return CallOne(*to, request, limit);
    MS_RETURN_IF_ERROR(bootstrap_.status());
    absl::Status error;
    for (size_t i = 0; i < bootstrap_->size(); ++i) {
      const int64_t left = static_cast<int64_t>(bootstrap_->size() - i);
      auto answer = CallOne((*bootstrap_)[next_], request, limit.AtMost(limit.Left() / left));
      if (answer.ok() || absl::IsCancelled(answer.status())) return answer;
      // The first error stays: the following ones are often the same.
      error.Update(answer.status());
      next_ = (next_ + 1) % bootstrap_->size();
    }
    return error;
  }

 private:
  template <typename Request>
  absl::StatusOr<typename Request::Response> CallOne(const BrokerAddress& to, const Request& request,
                                                     const IoLimit& limit) {
    auto connection = ConnectionTo(to, limit);
    if (!connection.ok()) return Annotate(connection.status(), to.ToString());
    auto answer = (*connection)->Call(request, limit);
    if (answer.ok()) return answer;
    connections_.erase(to);
    return Annotate(answer.status(), to.ToString());
  }

  absl::StatusOr<BrokerConnection*> ConnectionTo(const BrokerAddress& to, const IoLimit& limit);

  const std::shared_ptr<const kafka::LiveAccess> access_;
  const std::string client_id_;
  const absl::StatusOr<std::vector<BrokerAddress>> bootstrap_;
  size_t next_ = 0;
  uint64_t version_ = 0;  // of the access that connections_ were made with
  std::map<BrokerAddress, std::unique_ptr<BrokerConnection>> connections_;
};

// Whether some broker lets this client in, on a connection of its own; asked of the bootstrap servers in turn. Errors
// are those of ClusterClient's calls.
absl::Status TryAccess(const kafka::ClusterAccess& access, const std::string& client_id, const IoLimit& limit);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_NET_CLUSTER_CLIENT_H_
