#include "common/log/kafka/properties.h"

#include <algorithm>
#include <cstdlib>

#include "common/base/protected_config.h"
#include "common/base/status.h"

namespace millstream::kafka {
namespace {

// A reader below this cannot fetch from several partitions at a time; what a broker sends is whole batches.
constexpr int64_t kLeastBuffer = 1 << 20;

constexpr int64_t kSocketTimeoutMs = 20'000;

std::string Number(int64_t number) { return std::to_string(number); }

std::string_view MechanismName(SaslMechanism mechanism) {
  switch (mechanism) {
    case SaslMechanism::kPlain:
      return "PLAIN";
    case SaslMechanism::kScramSha256:
      return "SCRAM-SHA-256";
    case SaslMechanism::kScramSha512:
      return "SCRAM-SHA-512";
    case SaslMechanism::kOauthBearer:
      return "OAUTHBEARER";
  }
  return "";
}

}  // namespace

absl::Status CheckConfig(const ClusterAccess& access) {
  for (const auto& [name, value] : access.config) {
    MS_RETURN_IF_ERROR(Annotate(CheckNotProtected(name), "kafka.config"));
  }
  return absl::OkStatus();
}

Properties CommonDefaults() {
  return {
      // Small requests go out at once; librdkafka before 2.10 waits for Nagle by default.
      {"socket.nagle.disable", "true"},
      {"socket.keepalive.enable", "true"},
      // A broker that went away without a word is noticed in this time, not in a minute.
      {"socket.timeout.ms", Number(kSocketTimeoutMs)},
      {"reconnect.backoff.ms", "50"},
      {"reconnect.backoff.max.ms", "2000"},
      {"topic.metadata.refresh.interval.ms", "60000"},
      // Our errors say it; these lines would repeat it.
      {"log.connection.close", "false"},
  };
}

Properties UserProperties(const ClusterAccess& access) { return {access.config.begin(), access.config.end()}; }

Properties AccessProperties(const ClusterAccess& access, const std::string& client_id) {
  Properties out = {{"bootstrap.servers", access.bootstrap_servers},
                    {"client.id", client_id},
                    // One answer with a large record may be larger than what is asked for (KIP-74).
                    {"receive.message.max.bytes", "1100000000"},
                    {"allow.auto.create.topics", "false"}};
  const bool tls = access.tls.has_value(), sasl = access.sasl.has_value();
  out.emplace_back("security.protocol", tls ? sasl ? "sasl_ssl" : "ssl" : sasl ? "sasl_plaintext" : "plaintext");
  if (tls) {
    if (!access.tls->ca_pem.empty()) out.emplace_back("ssl.ca.pem", access.tls->ca_pem);
    if (!access.tls->certificate_pem.empty()) {
      out.emplace_back("ssl.certificate.pem", access.tls->certificate_pem);
      out.emplace_back("ssl.key.pem", access.tls->key_pem);
    }
    out.emplace_back("ssl.endpoint.identification.algorithm", "https");
  }
  if (sasl) {
    out.emplace_back("sasl.mechanism", MechanismName(access.sasl->mechanism));
    if (access.sasl->mechanism != SaslMechanism::kOauthBearer) {
      out.emplace_back("sasl.username", access.sasl->username);
      out.emplace_back("sasl.password", access.sasl->password);
    }
  }
  return out;
}

Properties AdminProperties() {
  return {
      {"group.id", "millstream.reader"},  // as readers: it joins nothing and commits nothing
      {"enable.auto.commit", "false"},
      {"enable.auto.offset.store", "false"},
      {"message.max.bytes", "1000"},  // of producers; must not be above fetch.max.bytes
  };
}

Properties ReaderProperties(bool read_committed, int64_t max_buffered_bytes) {
  const int64_t buffer = std::max(max_buffered_bytes, kLeastBuffer);
  // Half waits in the queue of all partitions together (they share one, so that this bound is one of the reader); the
  // rest is for answers on their way and for what a paused partition has left.
  const int64_t fetch = buffer / 4;
  return {
      // librdkafka wants an id even where no group is joined and nothing is committed.
      {"group.id", "millstream.reader"},
      {"isolation.level", read_committed ? "read_committed" : "read_uncommitted"},
      {"enable.auto.commit", "false"},
      {"enable.auto.offset.store", "false"},
      {"enable.partition.eof", "true"},
      {"auto.offset.reset", "error"},
      {"queued.max.messages.kbytes", Number(buffer / 2 / 1024)},
      {"queued.min.messages", "100000"},
      {"message.max.bytes", "1000"},  // of producers; must not be above fetch.max.bytes
      {"fetch.max.bytes", Number(fetch)},
      {"fetch.message.max.bytes", Number(std::min<int64_t>(fetch, 1 << 20))},
  };
}

Properties ProducerDefaults() {
  return {
      {"linger.ms", "5"},
      {"batch.size", Number(kDefaultBatchBytes)},
      {"retry.backoff.ms", "20"},
      {"retry.backoff.max.ms", "1000"},
  };
}

Properties ProducerProperties() {
  return {
      {"enable.idempotence", "true"},
      {"delivery.report.only.error", "false"},
      // What a topic takes is the topic's to say: the broker refuses, and the error names the record.
      {"message.max.bytes", "1000000000"},
      // Back-pressure: Append waits when so much is under way.
      {"queue.buffering.max.messages", "200000"},
      {"queue.buffering.max.kbytes", Number(64 << 10)},
      // A topic that was just made is unknown to some brokers for a moment; one that is gone is reported after it.
      {"topic.metadata.propagation.max.ms", "5000"},
  };
}

Properties TransactionProperties(const ClusterAccess& access, const std::string& transactional_id,
                                 absl::Duration transaction_timeout) {
  // librdkafka refuses more: no request may outlast the transaction it belongs to.
  int64_t socket_timeout_ms = kSocketTimeoutMs;
  if (const auto set = access.config.find("socket.timeout.ms"); set != access.config.end()) {
    socket_timeout_ms = std::atoll(set->second.c_str());
  }
  return {
      {"socket.timeout.ms", Number(std::min(socket_timeout_ms, absl::ToInt64Milliseconds(transaction_timeout)))},
      {"transactional.id", transactional_id},
      {"transaction.timeout.ms", Number(absl::ToInt64Milliseconds(transaction_timeout))},
  };
}

}  // namespace millstream::kafka
