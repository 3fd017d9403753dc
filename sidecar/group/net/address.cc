#include "sidecar/group/net/address.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::group {
namespace {

constexpr int kDefaultPort = 9092;

absl::StatusOr<BrokerAddress> ParseOne(std::string_view text) {
  const std::string_view whole = text;
  const auto wrong = [whole] {
    return absl::InvalidArgumentError(StrCat("bootstrap server '", whole, "' is not host:port"));
  };
  if (const size_t scheme = text.find("://"); scheme != text.npos) text.remove_prefix(scheme + 3);
  BrokerAddress address;
  std::string_view port;
  if (!text.empty() && text.front() == '[') {
    const size_t end = text.find(']');
    if (end == text.npos) return wrong();
    address.host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    if (!text.empty() && text.front() != ':') return wrong();
    if (!text.empty()) port = text.substr(1);
  } else {
    const size_t colon = text.rfind(':');
    address.host = text.substr(0, colon);
    if (colon != text.npos) port = text.substr(colon + 1);
    if (address.host.find(':') != std::string::npos) return wrong();
  }
  address.port = kDefaultPort;
  if (!port.empty() && !absl::SimpleAtoi(ToAbsl(port), &address.port)) return wrong();
  if (address.host.empty() || address.port < 1 || address.port > 65535) return wrong();
  return address;
}

}  // namespace

std::string BrokerAddress::ToString() const {
  return host.find(':') == std::string::npos ? StrCat(host, ":", port) : StrCat("[", host, "]:", port);
}

absl::StatusOr<std::vector<BrokerAddress>> ParseBootstrapServers(std::string_view text) {
  std::vector<BrokerAddress> addresses;
  for (const absl::string_view part : absl::StrSplit(ToAbsl(text), ',')) {
    const absl::string_view trimmed = absl::StripAsciiWhitespace(part);
    if (trimmed.empty()) continue;
    MS_ASSIGN_OR_RETURN(BrokerAddress address, ParseOne(ToStd(trimmed)));
    addresses.push_back(std::move(address));
  }
  if (addresses.empty()) return absl::InvalidArgumentError("no bootstrap server is named");
  return addresses;
}

}  // namespace millstream::group
