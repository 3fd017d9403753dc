#include "common/log/kafka/client.h"

#include <unistd.h>

#include <chrono>
#include <future>
#include <thread>

#include "common/base/clock.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/kafka/properties.h"

namespace millstream::kafka {
namespace {

// One line per facility and client in this time: librdkafka repeats itself while a broker is away.
constexpr absl::Duration kLogPause = absl::Seconds(10);
// Older trouble is not the reason of what fails now.
constexpr absl::Duration kTroubleFresh = absl::Minutes(1);
// Facilities are constants of librdkafka, some fifty; this bounds the map whatever it does.
constexpr size_t kMostFacilities = 256;

LogLevel ToLogLevel(int syslog_level) {
  if (syslog_level <= 2) return LogLevel::kError;
  if (syslog_level <= 4) return LogLevel::kWarning;
  if (syslog_level <= 6) return LogLevel::kInfo;
  return LogLevel::kDebug;
}

absl::Status Apply(const Properties& properties, std::string_view what, rd_kafka_conf_t* conf) {
  char error[512];
  for (const auto& [name, value] : properties) {
    if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), error, sizeof(error)) != RD_KAFKA_CONF_OK) {
      // Values may be secrets: the texts of librdkafka name them only for properties with a fixed set of values.
      return absl::InvalidArgumentError(StrCat("Kafka ", what, ": property ", name, ": ", error));
    }
  }
  return absl::OkStatus();
}

}  // namespace

ClientContext::ClientContext(const KafkaLogOptions& log_options)
    : options(log_options),
      access(options.live_access ? options.live_access : std::make_shared<LiveAccess>(options.access)) {
  if (options.metrics == nullptr) return;
  sockets_closed = options.metrics->GetCounter("millstream_kafka_sockets_closed_total",
                                               "Sockets to brokers that were closed, by either side", {});
  abandoned = options.metrics->GetCounter("millstream_kafka_clients_abandoned_total",
                                          "Clients of librdkafka that did not end in time and were left behind", {});
}

void ClientContext::CountRenewed(const char* kind) const {
  if (options.metrics == nullptr) return;
  options.metrics
      ->GetCounter("millstream_kafka_clients_renewed_total",
                   "Clients of librdkafka that took the place of one with older secrets", {{"client", kind}})
      ->Add();
}

absl::StatusOr<std::unique_ptr<Client>> Client::New(std::shared_ptr<const ClientContext> context, ClientSpec spec) {
  auto state = std::make_shared<State>();
  state->what = spec.what;
  state->clock = &SystemClock();
  state->context = context;
  state->access = context->access->Now();
  const ClusterAccess& access = state->access->access;
  const bool with_tokens = state->access->tokens != nullptr;
  state->sink = spec.sink;

  Owned<rd_kafka_conf_t> conf(rd_kafka_conf_new());
  rd_kafka_conf_set_opaque(conf.get(), state.get());
  rd_kafka_conf_set_log_cb(conf.get(), &Client::OnLog);
  rd_kafka_conf_set_closesocket_cb(conf.get(), &Client::OnCloseSocket);
  if (spec.sink != nullptr) rd_kafka_conf_set_dr_msg_cb(conf.get(), &Client::OnDelivery);
  if (with_tokens) {
    rd_kafka_conf_set_oauthbearer_token_refresh_cb(conf.get(), &Client::OnTokenRefresh);
    rd_kafka_conf_enable_sasl_queue(conf.get(), 1);
  }
  MS_RETURN_IF_ERROR(Apply(CommonDefaults(), spec.what, conf.get()));
  MS_RETURN_IF_ERROR(Apply(spec.defaults, spec.what, conf.get()));
  MS_RETURN_IF_ERROR(Apply(UserProperties(access), spec.what, conf.get()));
  MS_RETURN_IF_ERROR(Apply(AccessProperties(access, context->options.client_id), spec.what, conf.get()));
  MS_RETURN_IF_ERROR(Apply(spec.fixed, spec.what, conf.get()));

  char error[512];
  rd_kafka_t* const handle = rd_kafka_new(spec.type, conf.get(), error, sizeof(error));
  if (handle == nullptr) return absl::InvalidArgumentError(StrCat("Kafka ", spec.what, ": ", error));
  conf.release();  // owned by the handle now
  std::unique_ptr<Client> client(new Client(context, std::move(state), handle));
  if (with_tokens) {
    const Owned<rd_kafka_error_t> failed(rd_kafka_sasl_background_callbacks_enable(handle));
    if (failed) return absl::InternalError(StrCat("Kafka ", spec.what, ": ", rd_kafka_error_string(failed.get())));
  }
  return client;
}

Client::~Client() {
  state_->sink = nullptr;
  std::promise<void> ended;
  std::future<void> end = ended.get_future();
  // The thread owns what the callbacks use, so that it may outlive us.
  std::thread([handle = handle_, state = state_, ended = std::move(ended)]() mutable {
    rd_kafka_destroy_flags(handle, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    ended.set_value();
  }).detach();
  if (end.wait_for(absl::ToChronoMilliseconds(kDestroyWait)) == std::future_status::ready) return;
  LogWarning("a Kafka client does not end and is left behind",
             {{"client", state_->what}, {"waited", absl::FormatDuration(kDestroyWait)}});
  if (context_->abandoned != nullptr) context_->abandoned->Add();
}

std::string Client::ConnectionTrouble() const {
  absl::MutexLock lock(&state_->mutex);
  const absl::Duration ago = state_->clock->Monotonic() - state_->trouble_at;
  if (state_->trouble.empty() || ago > kTroubleFresh) return "";
  return StrCat("; last error of a connection, ", absl::ToInt64Seconds(ago), " s ago: ", state_->trouble);
}

void Client::LogLine(State& state, int level, const char* facility, const char* text) {
  const LogLevel to = ToLogLevel(level);
  if (!LogEnabled(to)) return;
  if (to != LogLevel::kDebug) {
    absl::MutexLock lock(&state.mutex);
    const absl::Duration now = state.clock->Monotonic();
    if (state.quiet_until.size() > kMostFacilities) state.quiet_until.clear();
    absl::Duration& until = state.quiet_until[facility];
    if (now < until) return;
    until = now + kLogPause;
  }
  Log(to, "Kafka client", {{"client", state.what}, {"facility", facility}, {"text", text}});
}

void Client::OnLog(const rd_kafka_t* client, int level, const char* facility, const char* text) {
  if (client == nullptr) return;
  State& state = *static_cast<State*>(rd_kafka_opaque(client));
  // There is no error callback: it would fill the queue of a client that nobody polls, and says no more than these.
  if (std::string_view(facility) == "FAIL") NoteTrouble(state, text);
  LogLine(state, level, facility, text);
}

void Client::NoteTrouble(State& state, std::string text) {
  absl::MutexLock lock(&state.mutex);
  state.trouble = std::move(text);
  state.trouble_at = state.clock->Monotonic();
}

void Client::OnDelivery(rd_kafka_t*, const rd_kafka_message_t* message, void* opaque) {
  if (DeliverySink* const sink = static_cast<State*>(opaque)->sink.load()) sink->Delivered(*message);
}

int Client::OnCloseSocket(int socket, void* opaque) {
  State& state = *static_cast<State*>(opaque);
  ++state.sockets_closed;
  if (state.context->sockets_closed != nullptr) state.context->sockets_closed->Add();
  return close(socket);
}

void Client::OnTokenRefresh(rd_kafka_t* client, const char*, void* opaque) {
  State& state = *static_cast<State*>(opaque);
  const absl::StatusOr<Token> token = state.access->tokens->Get();
  if (!token.ok()) {
    NoteTrouble(state, std::string(token.status().message()));
    LogLine(state, /*level=*/4, "OAUTHBEARER", token.status().ToString().c_str());
    rd_kafka_oauthbearer_set_token_failure(client, std::string(token.status().message()).c_str());
    return;
  }
  char error[512];
  if (rd_kafka_oauthbearer_set_token(client, token->text.c_str(), absl::ToUnixMillis(token->expires),
                                     token->principal.c_str(), nullptr, 0, error,
                                     sizeof(error)) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    rd_kafka_oauthbearer_set_token_failure(client, error);
  }
}

}  // namespace millstream::kafka
