#include "sdk/cpp/session.h"

#include <utility>
#include <variant>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sdk/cpp/batch_run.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/error_codes.h"

namespace millstream::worker {
namespace {

// The sidecar answers HELLO at once; longer means that nobody serves the socket.
constexpr absl::Duration kWelcomeTimeout = absl::Seconds(10);
// How often an idle worker looks whether it was told to stop (it is woken as well).
constexpr absl::Duration kIdleWait = absl::Seconds(5);

// What ERROR means for this program: refused for good, or worth another attempt.
absl::Status StatusOf(const protocol::Error& error) {
  const std::string text = StrCat("the sidecar says ", error.code, ": ", error.message);
  const bool final = error.code == protocol::kVersionMismatch || error.code == protocol::kRefused ||
                     error.code == protocol::kNotAllowed;
  return final ? absl::FailedPreconditionError(text) : absl::UnavailableError(text);
}

}  // namespace

Session::Session(std::unique_ptr<Link> link, const HandlerMap& handlers, const AppOptions& options,
                 const std::atomic<bool>& stop)
    : link_(std::move(link)), handlers_(handlers), options_(options), stop_(stop) {}

Session::~Session() = default;

absl::Status Session::Run() {
  absl::Status status = Greet();
  if (status.ok()) status = Serve();
  if (!absl::IsUnavailable(status)) return status;
  // The connection broke while writing: an ERROR that says why may have come before.
  while (true) {
    auto last = Receive(absl::ZeroDuration());
    if (!last.ok() || !last->has_value()) return status;
    if (const auto* error = std::get_if<protocol::Error>(&(*last)->message)) return StatusOf(*error);
  }
}

absl::Status Session::Greet() {
  protocol::Hello hello;
  hello.min_version = protocol::kMinVersion;
  hello.max_version = protocol::kMaxVersion;
  hello.sdk = "millstream-cpp";
  hello.language = "c++";
  hello.version = "0.1.0";
  hello.name = options_.name;
  hello.parallel = options_.parallel;
  hello.inputs.emplace();
  for (const auto& [input, handler] : handlers_) hello.inputs->push_back(input);
  MS_RETURN_IF_ERROR(link_->Send(protocol::EncodeFrame(hello)));

  const absl::Duration deadline = SystemClock().Monotonic() + kWelcomeTimeout;
  while (!welcomed_) {
    const absl::Duration left = deadline - SystemClock().Monotonic();
    if (left <= absl::ZeroDuration()) return absl::UnavailableError("the sidecar did not answer HELLO");
    MS_ASSIGN_OR_RETURN(std::optional<ReceivedMessage> received, Receive(left));
    if (!received.has_value()) continue;
    if (const auto* error = std::get_if<protocol::Error>(&received->message)) return StatusOf(*error);
    auto* welcome = std::get_if<protocol::Welcome>(&received->message);
    if (welcome == nullptr) return absl::InternalError("the sidecar's first frame is not WELCOME");
    welcome_ = std::move(*welcome);
    welcomed_ = true;
  }
  link_->set_cap(welcome_.frame_cap);
  for (const protocol::NamedTopic& input : welcome_.inputs) {
    const auto handler = handlers_.find(input.name);
    by_input_.push_back(handler == handlers_.end() ? nullptr : &handler->second);
  }
  run_ = std::make_unique<BatchRun>(this);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ReceivedMessage>> Session::Receive(absl::Duration timeout) {
  MS_ASSIGN_OR_RETURN(std::optional<protocol::Frame> frame, link_->Receive(timeout));
  if (!frame.has_value()) return std::nullopt;
  absl::StatusOr<protocol::SidecarMessage> message = protocol::DecodeSidecarMessage(frame->payload);
  if (!message.ok()) {
    link_->Send(protocol::EncodeFrame(protocol::Error{protocol::kBadFrame, std::string(message.status().message())}))
        .IgnoreError();
    return message.status();
  }
  return ReceivedMessage{*std::move(message), std::move(frame->buffer)};
}

absl::Status Session::Serve() {
  while (true) {
    if (stop_ && !said_goodbye_) {
      said_goodbye_ = leaving_ = true;
      MS_RETURN_IF_ERROR(link_->Send(protocol::EncodeFrame(protocol::Goodbye{"the program stops"})));
    }
    const bool work = !pending_.empty();
    if (leaving_ && !work) return absl::OkStatus();
    MS_ASSIGN_OR_RETURN(std::optional<ReceivedMessage> received, Receive(work ? absl::ZeroDuration() : kIdleWait));
    if (received.has_value()) {
      MS_RETURN_IF_ERROR(Handle(*std::move(received)));
    } else if (work) {
      MS_RETURN_IF_ERROR(RunFront());
    }
  }
}

absl::Status Session::Handle(ReceivedMessage received) {
  if (auto* batch = std::get_if<protocol::Batch>(&received.message)) {
    pending_.push_back({std::move(*batch), std::move(received.buffer)});
    return absl::OkStatus();
  }
  if (const auto* cancel = std::get_if<protocol::Cancel>(&received.message)) {
    for (Pending& pending : pending_) {
      if (pending.batch.seq == cancel->seq) pending.cancelled = true;
    }
    return absl::OkStatus();
  }
  if (const auto* ping = std::get_if<protocol::Ping>(&received.message))
    return link_->Send(protocol::EncodeFrame(protocol::Pong{ping->nonce}));
  if (const auto* error = std::get_if<protocol::Error>(&received.message)) return StatusOf(*error);
  if (std::holds_alternative<protocol::Goodbye>(received.message)) {
    leaving_ = true;
    if (said_goodbye_) return absl::OkStatus();
    said_goodbye_ = true;
    return link_->Send(protocol::EncodeFrame(protocol::Goodbye{"leaving"}));
  }
  return absl::OkStatus();  // OPEN, CLOSE: nothing is kept between batches; answers nobody waits for any more
}

absl::StatusOr<ReceivedMessage> Session::Ask(std::string_view frame, uint64_t seq, uint64_t rid) {
  MS_RETURN_IF_ERROR(link_->Send(frame));
  while (true) {
    MS_ASSIGN_OR_RETURN(std::optional<ReceivedMessage> received, Receive(kIdleWait));
    if (!received.has_value()) continue;  // the sidecar's deadline ends it, should the answer never come
    const auto* values = std::get_if<protocol::Values>(&received->message);
    const auto* rows = std::get_if<protocol::Rows>(&received->message);
    const bool mine = (values != nullptr && values->rid == rid && values->seq == seq) ||
                      (rows != nullptr && rows->rid == rid && rows->seq == seq);
    if (mine) return *std::move(received);
    MS_RETURN_IF_ERROR(Handle(*std::move(received)));
    if (pending_.front().cancelled) return absl::CancelledError("the batch is void");
  }
}

absl::Status Session::RunFront() {
  Pending& front = pending_.front();
  std::string frame;
  if (!front.cancelled) {
    absl::StatusOr<std::string> result = run_->Run(front.batch);
    if (!result.ok() && !absl::IsCancelled(result.status())) return result.status();
    if (result.ok()) frame = *std::move(result);
  }
  // A void batch is ended by an empty result.
  if (frame.empty()) {
    protocol::Result nothing;
    nothing.seq = front.batch.seq;
    frame = protocol::EncodeFrame(nothing);
  }
  MS_RETURN_IF_ERROR(link_->Send(frame));
  pending_.pop_front();
  return absl::OkStatus();
}

}  // namespace millstream::worker
