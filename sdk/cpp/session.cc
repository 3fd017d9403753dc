#include "sdk/cpp/session.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "millstream/version.h"
#include "sdk/cpp/batch_run.h"
#include "sdk/cpp/row_key.h"
#include "sdk/cpp/user_code.h"
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
  const protocol::ErrorCode& known = protocol::FindErrorCode(error.code);
  const std::string text = StrCat("the sidecar says ", error.code, ": ", error.message, ". What to do: ", known.remedy);
  return known.final ? absl::FailedPreconditionError(text) : absl::UnavailableError(text);
}

}  // namespace

Session::Session(std::unique_ptr<Link> link, const Program& program, const AppOptions& options, const StopState& stop)
    : BatchHost(program), link_(std::move(link)), options_(options), stop_(stop) {}

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
  hello.version = kVersion;
  hello.name = options_.name;
  hello.parallel = options_.parallel;
  hello.inputs.emplace();
  for (const auto& [input, handler] : program().inputs) hello.inputs->push_back(input);
  hello.capabilities = program().Capabilities();
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
    if (welcome->version < protocol::kMinVersion || welcome->version > protocol::kMaxVersion)
      return Refuse(protocol::kBadFrame, StrCat("WELCOME has protocol version ", welcome->version, ", this SDK speaks ",
                                                protocol::kMinVersion, " to ", protocol::kMaxVersion));
    MS_RETURN_IF_ERROR(CheckManifest(*welcome));
    Bind(std::move(*welcome));
    welcomed_ = true;
  }
  for (const std::string& wanted : program().Capabilities()) {
    const auto& offered = welcome().capabilities;
    if (std::find(offered.begin(), offered.end(), wanted) != offered.end()) continue;
    options_.logger(LogSeverity::kWarning, "the program has a hook that this sidecar does not call",
                    {{"hook", wanted}});
  }
  link_->set_cap(welcome().frame_cap);
  run_ = std::make_unique<BatchRun>(this);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ReceivedMessage>> Session::Receive(absl::Duration timeout) {
  absl::StatusOr<std::optional<protocol::Frame>> frame = link_->Receive(timeout);
  // Lengths: zero, or beyond the cap. Everything else is the connection's.
  if (absl::IsInvalidArgument(frame.status())) return Refuse(protocol::kBadFrame, ToStd(frame.status().message()));
  if (absl::IsResourceExhausted(frame.status()))
    return Refuse(protocol::kFrameTooLarge, ToStd(frame.status().message()));
  if (!frame.ok()) return frame.status();
  if (!frame->has_value()) return std::nullopt;
  absl::StatusOr<protocol::SidecarMessage> message = protocol::DecodeSidecarMessage((*frame)->payload);
  if (!message.ok()) return Refuse(protocol::kBadFrame, ToStd(message.status().message()));
  return ReceivedMessage{*std::move(message), std::move((*frame)->buffer)};
}

absl::Status Session::CheckManifest(const protocol::Welcome& welcome) {
  const absl::Status fits = CheckFits(program(), welcome);
  if (fits.ok()) return fits;
  link_->Send(protocol::EncodeFrame(protocol::Error{protocol::kWorkerFailed, std::string(fits.message())}))
      .IgnoreError();
  return fits;
}

absl::Status Session::Refuse(const char* code, std::string_view problem) {
  link_->Send(protocol::EncodeFrame(protocol::Error{code, std::string(problem)})).IgnoreError();
  return absl::InternalError(StrCat("the sidecar broke the protocol: ", problem));
}

absl::Status Session::Serve() {
  while (true) {
    MS_RETURN_IF_ERROR(LeaveIfTold());
    const bool work = !pending_.empty() || !committed_.empty();
    if (leaving_ && !work) return absl::OkStatus();
    absl::Duration wait = work ? absl::ZeroDuration() : kIdleWait;
    if (leave_at_.has_value()) wait = std::clamp(*leave_at_ - SystemClock().Monotonic(), absl::ZeroDuration(), wait);
    MS_ASSIGN_OR_RETURN(std::optional<ReceivedMessage> received, Receive(wait));
    if (received.has_value()) {
      MS_RETURN_IF_ERROR(Handle(*std::move(received)));
    } else if (!committed_.empty()) {
      CallCommitted();
    } else if (work) {
      MS_RETURN_IF_ERROR(RunFront());
    }
  }
}

absl::Status Session::LeaveIfTold() {
  if (said_goodbye_) return absl::OkStatus();
  if (!leave_at_.has_value() && stop_.signalled()) {
    leave_at_ = SystemClock().Monotonic() + options_.stop_timeout;
  }
  if (!stop_.leave && (!leave_at_.has_value() || SystemClock().Monotonic() < *leave_at_)) return absl::OkStatus();
  said_goodbye_ = leaving_ = true;
  return link_->Send(protocol::EncodeFrame(protocol::Goodbye{"the program stops"}));
}

absl::Status Session::Handle(ReceivedMessage received) {
  if (auto* batch = std::get_if<protocol::Batch>(&received.message)) {
    return Take(std::move(*batch), std::move(received.buffer));
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
  if (std::holds_alternative<protocol::Welcome>(received.message))
    return Refuse(protocol::kBadFrame, "WELCOME came a second time");
  if (const auto* begin = std::get_if<protocol::BeginTransaction>(&received.message))
    return TakeHook("BEGIN", begin->seq, begin->task, program().begin);
  if (const auto* finalize = std::get_if<protocol::FinalizeTransaction>(&received.message))
    return TakeHook("FINALIZE", finalize->seq, finalize->task, program().finalize);
  if (const auto* committed = std::get_if<protocol::Committed>(&received.message)) {
    for (const auto& [task, seq] : committed->tasks) committed_.push_back(task);
  }
  // Nothing but what was gathered is kept between batches.
  if (const auto* open = std::get_if<protocol::Open>(&received.message)) memory().BeginAnew(open->task);
  if (const auto* close = std::get_if<protocol::Close>(&received.message)) memory().BeginAnew(close->task);
  return absl::OkStatus();  // an answer nobody waits for any more, too
}

absl::Status Session::CheckInFlight(uint64_t seq, TaskId task) {
  for (const Pending& other : pending_) {
    if (other.batch.seq == seq) return Refuse(protocol::kBadFrame, StrCat("batch ", seq, " came twice"));
    if (other.cancelled) continue;  // it no longer counts: the sidecar sends the next one at once
    if (other.batch.task == task)
      return Refuse(protocol::kBadFrame, StrCat("batch ", seq, ": one of task ", task.value(), " is in flight"));
  }
  return absl::OkStatus();
}

// Queues a batch that agrees with WELCOME and with what is in flight.
absl::Status Session::Take(protocol::Batch batch, std::shared_ptr<const void> buffer) {
  MS_RETURN_IF_ERROR(CheckInFlight(batch.seq, batch.task));
  const auto valid = std::count_if(pending_.begin(), pending_.end(),
                                   [](const Pending& other) { return !other.cancelled && other.hook == nullptr; });
  if (valid >= options_.parallel)
    return Refuse(protocol::kBadFrame,
                  StrCat("batch ", batch.seq, " is more than the ", options_.parallel, " this worker takes at once"));
  if (const std::string wrong = WrongIds(batch); !wrong.empty())
    return Refuse(protocol::kBadFrame, StrCat("batch ", batch.seq, " names ", wrong));
  const uint64_t generation = memory().GenerationOf(batch.task);
  pending_.push_back({std::move(batch), std::move(buffer), nullptr, generation});
  return absl::OkStatus();
}

absl::Status Session::TakeHook(std::string_view kind, uint64_t seq, TaskId task, const Handler& hook) {
  if (!hook) return Refuse(protocol::kBadFrame, StrCat(kind, ", which HELLO did not ask for"));
  MS_RETURN_IF_ERROR(CheckInFlight(seq, task));
  Pending& pending = pending_.emplace_back();
  pending.batch.seq = seq;
  pending.batch.task = task;
  pending.hook = &hook;
  pending.generation = memory().GenerationOf(task);
  return absl::OkStatus();
}

void Session::CallCommitted() {
  const TaskId task = committed_.front();
  committed_.pop_front();
  if (!program().committed) return;
  const absl::Status status = CallUserCode([&] {
    program().committed(task.value());
    return absl::OkStatus();
  });
  if (status.ok()) return;
  options_.logger(LogSeverity::kError,
                  "the hook for committed transactions failed; it is not called again for this one",
                  {{"task", std::to_string(task.value())}, {"error", std::string(status.message())}});
}

std::string Session::WrongIds(const protocol::Batch& batch) const {
  using Type = protocol::RecordItem::Type;
  const auto& stores = welcome().stores;
  const auto is_type = [&](uint32_t store, std::string_view type) {
    return store < stores.size() && stores[store].type == type;
  };
  for (const protocol::RecordItem& item : batch.items) {
    if (item.type == Type::kRecord && item.input >= welcome().inputs.size())
      return StrCat("input ", item.input, ", there are ", welcome().inputs.size());
    if (item.type == Type::kVisit && item.visit >= welcome().visits.size())
      return StrCat("a row of visit ", item.visit, ", there are ", welcome().visits.size());
    if (item.type == Type::kClosing && !is_type(item.store, "Window") && !is_type(item.store, "Session"))
      return StrCat("a closing window of store ", item.store, ", which has none");
    for (const protocol::ItemWindow& window : item.windows) {
      if (!is_type(window.store, window.session ? "Session" : "Window"))
        return StrCat("a ", window.session ? "session" : "window", " of store ", window.store, ", which has none");
    }
  }
  const size_t readable = stores.size() + welcome().joins.size() + welcome().lookups.size();
  for (const auto& state : batch.state) {
    if (state.store >= readable) return StrCat("state of store ", state.store, ", there are ", readable);
    const bool windowed = state.store < stores.size() && IsWindowed(stores[state.store]);
    if (windowed ? !state.values.empty() : state.windowed)
      return StrCat("state of store ", state.store, " of the other form: its type is ",
                    state.store < stores.size() ? stores[state.store].type : "KeyValue");
  }
  return "";
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

absl::Status Session::Look() {
  while (true) {
    MS_ASSIGN_OR_RETURN(std::optional<ReceivedMessage> received, Receive(absl::ZeroDuration()));
    if (!received.has_value()) return absl::OkStatus();
    MS_RETURN_IF_ERROR(Handle(*std::move(received)));
    if (pending_.front().cancelled) return absl::CancelledError("the batch is void");
  }
}

absl::StatusOr<std::string> Session::RunBatch(const Pending& front) {
  const bool hook = front.hook != nullptr;
  MS_ASSIGN_OR_RETURN(std::string result, hook ? run_->RunHook(front.batch, front.generation, *front.hook)
                                               : run_->Run(front.batch, front.generation));
  // Not what the sidecar may ever count, if it cannot be remembered: the session ends, and its records come again.
  MS_RETURN_IF_ERROR(Annotate(run_->ChangeGathered(), "changing what was gathered"));
  return result;
}

absl::Status Session::RunFront() {
  Pending& front = pending_.front();
  std::string frame;
  if (!front.cancelled) {
    absl::StatusOr<std::string> result = RunBatch(front);
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
