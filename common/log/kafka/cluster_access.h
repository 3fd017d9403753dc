#ifndef MILLSTREAM_COMMON_LOG_KAFKA_CLUSTER_ACCESS_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_CLUSTER_ACCESS_H_

#include <map>
#include <optional>
#include <string>

namespace millstream::kafka {

// Encryption, and the client's own certificate. PEM texts, not paths: secrets are read where they are resolved, and
// again there when they were rotated (live_access.h).
struct TlsAccess {
  std::string ca_pem;           // certificates to trust; empty: the system's
  std::string certificate_pem;  // the client's certificate with its chain; empty: none (no mutual TLS)
  std::string key_pem;          // its private key; set if and only if the certificate is

  friend bool operator==(const TlsAccess&, const TlsAccess&) = default;
};

enum class SaslMechanism { kPlain, kScramSha256, kScramSha512, kOauthBearer };

struct SaslAccess {
  SaslMechanism mechanism = SaslMechanism::kScramSha512;
  std::string username, password;  // PLAIN and SCRAM
  // OAUTHBEARER with the client credentials grant (RFC 6749, section 4.4).
  std::string token_endpoint, client_id, client_secret, scope;

  friend bool operator==(const SaslAccess&, const SaslAccess&) = default;
};

// How to reach a Kafka cluster, and as whom: the manifest's kafka block with every secret resolved. Plain values, used
// both by the log on librdkafka and by the group client, which speaks the protocol itself.
struct ClusterAccess {
  std::string bootstrap_servers;  // "host:port,host:port"; IPv6 addresses in brackets
  std::optional<TlsAccess> tls;   // unset: no encryption
  std::optional<SaslAccess> sasl;
  std::map<std::string, std::string> config;  // further librdkafka properties of the manifest

  friend bool operator==(const ClusterAccess&, const ClusterAccess&) = default;
};

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_CLUSTER_ACCESS_H_
