#include "sidecar/group/net/broker_connection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/group/net/sasl.h"
#include "sidecar/group/net/tcp_stream.h"
#include "sidecar/group/net/tls_stream.h"
#include "sidecar/group/wire/api_versions.h"
#include "sidecar/group/wire/find_coordinator.h"
#include "sidecar/group/wire/heartbeat.h"
#include "sidecar/group/wire/init_producer_id.h"
#include "sidecar/group/wire/join_group.h"
#include "sidecar/group/wire/leave_group.h"
#include "sidecar/group/wire/sasl.h"
#include "sidecar/group/wire/sync_group.h"

namespace millstream::group {
namespace {

// The largest answer is a JoinGroup with everybody's metadata: under 512 KB by design, above which a topic's usual
// limit would stop it. More than this is no Kafka broker: "HTTP" read as a length is 1.2 GB.
constexpr int32_t kMaxAnswerBytes = 16 << 20;
constexpr size_t kReadStep = 64 << 10;  // memory grows with what came, not with what was announced
constexpr int kMostSaslSteps = 8;       // SCRAM needs three

struct NeededApi {
  std::string_view name;
  wire::ApiKey api;
  int16_t version;
};
template <typename Request>
constexpr NeededApi Needed(std::string_view name) {
  return {name, Request::kApi, Request::kVersion};
}
constexpr NeededApi kNeeded[] = {
    Needed<wire::FindCoordinatorRequest>("FindCoordinator"),
    Needed<wire::JoinGroupRequest>("JoinGroup"),
    Needed<wire::SyncGroupRequest>("SyncGroup"),
    Needed<wire::HeartbeatRequest>("Heartbeat"),
    Needed<wire::LeaveGroupRequest>("LeaveGroup"),
    Needed<wire::InitProducerIdRequest>("InitProducerId"),
};

}  // namespace

absl::StatusOr<std::unique_ptr<BrokerConnection>> BrokerConnection::Open(const kafka::ClusterAccess& access,
                                                                         kafka::TokenSource* tokens,
                                                                         const BrokerAddress& address,
                                                                         const std::string& client_id,
                                                                         const IoLimit& limit) {
  MS_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, ConnectTcp(address, limit));
  if (access.tls.has_value()) {
    MS_ASSIGN_OR_RETURN(stream, StartTls(std::move(stream), *access.tls, address.host, limit));
  }
  std::unique_ptr<BrokerConnection> connection(new BrokerConnection(std::move(stream), client_id));
  MS_RETURN_IF_ERROR(connection->CheckVersions(limit));
  if (access.sasl.has_value()) MS_RETURN_IF_ERROR(connection->Authenticate(*access.sasl, tokens, limit));
  return connection;
}

absl::Status BrokerConnection::CheckVersions(const IoLimit& limit) {
  MS_ASSIGN_OR_RETURN(const wire::ApiVersionsResponse answer, Call(wire::ApiVersionsRequest{}, limit));
  if (answer.error != wire::ErrorCode::kNone) return wire::ErrorStatus(answer.error, "ApiVersions");
  for (const NeededApi& needed : kNeeded) {
    const auto range = std::find_if(answer.ranges.begin(), answer.ranges.end(), [&](const wire::ApiRange& candidate) {
      return candidate.key == static_cast<int16_t>(needed.api);
    });
    if (range == answer.ranges.end()) {
      return absl::FailedPreconditionError(
          StrCat("the broker does not offer ", needed.name, "; Kafka brokers from 2.5 to 4.4 are supported"));
    }
    if (needed.version < range->min || needed.version > range->max) {
      return absl::FailedPreconditionError(StrCat("the broker speaks ", needed.name, " ", range->min, " to ",
                                                  range->max, ", version ", needed.version,
                                                  " is needed; Kafka brokers from 2.5 to 4.4 are supported"));
    }
  }
  return absl::OkStatus();
}

absl::Status BrokerConnection::Authenticate(const kafka::SaslAccess& access, kafka::TokenSource* tokens,
                                            const IoLimit& limit) {
  const std::string mechanism(MechanismName(access.mechanism));
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<SaslExchange> exchange, NewSaslExchange(access, tokens));
  wire::SaslHandshakeRequest handshake;
  handshake.mechanism = mechanism;
  MS_ASSIGN_OR_RETURN(const wire::SaslHandshakeResponse chosen, Call(handshake, limit));
  if (chosen.error != wire::ErrorCode::kNone) {
    return wire::ErrorStatus(
        chosen.error, StrCat("SASL ", mechanism, " (the broker offers ", absl::StrJoin(chosen.mechanisms, ", "), ")"));
  }
  const absl::Duration started = SystemClock().Monotonic();
  wire::SaslAuthenticateRequest step;
  MS_ASSIGN_OR_RETURN(step.payload, exchange->Start());
  for (int i = 0; i < kMostSaslSteps; ++i) {
    MS_ASSIGN_OR_RETURN(const wire::SaslAuthenticateResponse answer, Call(step, limit));
    if (answer.error != wire::ErrorCode::kNone) {
      const std::string detail = answer.error_message.empty() ? "" : StrCat(" (", answer.error_message, ")");
      return wire::ErrorStatus(answer.error, StrCat("SASL ", mechanism, detail));
    }
    MS_ASSIGN_OR_RETURN(step.payload, exchange->Step(answer.payload));
    if (exchange->done()) {
      if (answer.session_lifetime_ms > 0) {
        good_until_ = started + absl::Milliseconds(answer.session_lifetime_ms) * 4 / 5;
      }
      return absl::OkStatus();
    }
  }
  return absl::FailedPreconditionError(StrCat("SASL ", mechanism, ": the exchange does not end"));
}

bool BrokerConnection::Reusable() const {
  return !broken_ && SystemClock().Monotonic() < good_until_ && !stream_->Stale();
}

absl::Status BrokerConnection::Broken(const absl::Status& why) {
  broken_ = true;
  return absl::DataLossError(std::string(why.message()));
}

absl::Status BrokerConnection::Read(size_t size, std::string* out, const IoLimit& limit) {
  out->clear();
  while (out->size() < size) {
    const size_t had = out->size();
    out->resize(had + std::min(size - had, kReadStep));
    absl::StatusOr<size_t> got = stream_->ReadSome(out->data() + had, out->size() - had, limit);
    if (!got.ok()) return got.status();
    if (*got == 0) return absl::UnavailableError("the broker closed the connection");
    out->resize(had + *got);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> BrokerConnection::Exchange(wire::ApiKey api, int16_t version, const std::string& body,
                                                       const IoLimit& limit) {
  MS_CHECK(!broken_);
  broken_ = true;  // until the whole answer is here
  const int32_t id = correlation_id_++;
  MS_RETURN_IF_ERROR(stream_->WriteAll(wire::FrameRequest(api, version, id, client_id_, body), limit));
  std::string head;
  MS_RETURN_IF_ERROR(Read(8, &head, limit));
  wire::Reader reader(head);
  int32_t size = 0, answered = 0;
  reader.Int32(size);
  reader.Int32(answered);
  if (size < 4 || size > kMaxAnswerBytes) {
    return absl::DataLossError(StrCat("an answer of ", size, " bytes: this is no Kafka broker, or it expects TLS"));
  }
  if (answered != id) return absl::DataLossError(StrCat("an answer to request ", answered, " instead of ", id));
  std::string answer;
  MS_RETURN_IF_ERROR(Read(static_cast<size_t>(size) - 4, &answer, limit));
  broken_ = false;
  return answer;
}

}  // namespace millstream::group
