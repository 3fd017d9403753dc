#ifndef MILLSTREAM_SIDECAR_GROUP_NET_ADDRESS_H_
#define MILLSTREAM_SIDECAR_GROUP_NET_ADDRESS_H_

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace millstream::group {

struct BrokerAddress {
  std::string host;  // a name or an address, IPv6 without brackets
  int port = 0;

  std::string ToString() const;  // "host:9092", "[::1]:9092"
  friend auto operator<=>(const BrokerAddress&, const BrokerAddress&) = default;
};

// "a:9092,b:9093,[::1]:9092"; without a port it is 9092. A scheme as in "PLAINTEXT://a:9092" is skipped, as librdkafka
// does. INVALID_ARGUMENT names the part that is wrong.
absl::StatusOr<std::vector<BrokerAddress>> ParseBootstrapServers(std::string_view text);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_NET_ADDRESS_H_
