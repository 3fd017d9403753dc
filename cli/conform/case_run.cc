#include "cli/conform/case_run.h"

#include <algorithm>
#include <csignal>
#include <variant>

#include "cli/conform/match.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/message_json.h"

namespace millstream::cli::conform {
namespace {

const char kStandardWelcome[] = R"({
  "protocol": 1, "processor": "conformance",
  "inputs": [{"name": "script", "topic": "script"}, {"name": "echo", "topic": "echo"}, {"name": "ints", "topic": "ints"}],
  "outputs": [{"name": "out", "topic": "out", "max_bytes": 1048576}, {"name": "reads", "topic": "reads", "max_bytes": 1048576}],
  "stores": [{"name": "counts", "type": "KeyValue", "prefetched": true, "max_value_bytes": 1048576},
             {"name": "archive", "type": "KeyValue", "prefetched": false, "max_value_bytes": 1048576}],
  "joins": [], "lookups": [], "capabilities": [],
  "limits": {"frame": 16777216, "deadline_ms": 60000, "min_timestamp": 0, "max_timestamp": 253402300799999}
})";

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) StrAppend(&text, text.empty() ? "" : ",", name);
  return text;
}

std::vector<std::string> NamesIn(const Json& list) {
  std::vector<std::string> names;
  for (const Json& entry : list) names.push_back(entry.value("name", std::string()));
  return names;
}

// Ids are one space over the three lists.
std::vector<std::string> ReadableIn(const Json& welcome) {
  std::vector<std::string> names;
  for (const char* list : {"stores", "joins", "lookups"}) {
    for (std::string& name : NamesIn(welcome[list])) names.push_back(std::move(name));
  }
  return names;
}

absl::Status Fails(std::string_view problem) { return absl::FailedPreconditionError(ToAbsl(problem)); }

absl::Status Fails(const std::vector<std::string>& lines) {
  if (lines.empty()) return absl::OkStatus();
  std::string text;
  for (const std::string& line : lines) StrAppend(&text, text.empty() ? "" : "\n", line);
  return absl::FailedPreconditionError(text);
}

std::string Line(const Json& message) { return ShowJson(message); }

Json MessageOf(const WorkerFrame& frame) { return Json::parse(protocol::ToJson(frame.message)); }

// One fresh map over another, maps merged, everything else replaced.
Json Merged(Json base, const Json& over) {
  if (over.is_object()) base.merge_patch(over);
  return base;
}

}  // namespace

CaseRun::CaseRun(const Case& what, const CaseOptions& options)
    : case_(what),
      options_(options),
      welcome_(Merged(Json::parse(kStandardWelcome), what.welcome)),
      inputs_(NamesIn(welcome_["inputs"])),
      outputs_(NamesIn(welcome_["outputs"])),
      visits_(NamesIn(welcome_.value("visits", Json::array()))),
      stores_(ReadableIn(welcome_)),
      writable_(welcome_["stores"].size()),
      shapes_(ShapesIn(welcome_)),
      model_(stores_.size(), what.page),
      program_(options.command, {StrCat("CONFORMANCE_NEEDS=", Joined(what.needs))}) {}

CaseResult CaseRun::Run() {
  const absl::Duration started = SystemClock().Monotonic();
  CaseResult result;
  result.line = case_.line;
  absl::Status status = [&]() -> absl::Status {
    for (const auto& [store, rows] : case_.data.items()) {
      const size_t id = StoreId(store);
      if (id == kNone) return Fails(StrCat("data: there is no store ", store));
      for (const auto& [key, value] : rows.items()) {
        MS_ASSIGN_OR_RETURN(const std::string raw_key, ReadRow(ShapeOf(shapes_, id), key));
        MS_ASSIGN_OR_RETURN(const std::string raw_value, ReadBytes(value));
        model_.Put(id, raw_key, raw_value);
      }
    }
    MS_ASSIGN_OR_RETURN(door_, WorkerDoor::Open());
    MS_RETURN_IF_ERROR(program_.Start(door_->path()));
    if (case_.handshake) MS_RETURN_IF_ERROR(Greet());
    for (const Step& step : case_.steps) {
      result.line = step.line;
      MS_RETURN_IF_ERROR(Annotate(Do(step), step.kind));
    }
    return absl::OkStatus();
  }();
  result.passed = status.ok();
  result.problem = std::string(status.message());
  result.transcript = std::move(transcript_);
  result.output = program_.Output();
  result.took = SystemClock().Monotonic() - started;
  return result;
}

absl::Status CaseRun::Do(const Step& step) {
  const Json& argument = step.argument;
  const std::string& kind = step.kind;
  if (kind == "hello") return Accept(argument);
  if (kind == "accept") return Greet();
  if (kind == "signal") return Signal(argument);
  if (kind == "exit") return Exit(argument);
  if (kind == "restart") {
    link_.reset();
    return program_.Start(door_->path());
  }
  if (link_ == nullptr) return Fails("there is no connection");
  if (kind == "welcome") return SendWelcome(argument);
  if (kind == "batch") return SendBatch(argument);
  if (kind == "result") return AwaitResult(argument);
  if (kind == "expect") return Expect(argument);
  if (kind == "answer") return Answer(argument);
  if (kind == "ping") return Ping(argument);
  if (kind == "quiet") return Quiet(absl::Milliseconds(argument.get<int64_t>()));
  if (kind == "refused") return Refused(argument);
  if (kind == "hostile") return Hostile(argument);
  if (kind == "ended") return Ended();
  if (kind == "disconnect") {
    link_.reset();
    return absl::OkStatus();
  }
  if (kind == "bytes") {
    MS_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(argument));
    NoteSent(bytes);
    return SendBytes(bytes);
  }
  MS_CHECK(kind == "send");
  MS_ASSIGN_OR_RETURN(const std::string frame, ReadFrame(argument));
  NoteSent(frame);
  return SendBytes(frame);
}

void CaseRun::NoteHook(uint64_t seq, TaskId task) {
  Flight& flight = flights_.emplace_back();
  flight.seq = flight.sent_as = seq;
  flight.task = task.value();
  flight.hook = true;
  next_seq_ = std::max(next_seq_, seq + 1);
}

// What follows from a frame that was written out by hand, if it is one: the RESULT of a BATCH, BEGIN, FINALIZE, LOAD or
// STORE is legal, after CANCEL it is dropped, and after GOODBYE the worker leaves.
void CaseRun::NoteSent(std::string_view frame) {
  if (frame.size() <= protocol::kFrameHeaderBytes) return;
  const auto message = protocol::DecodeSidecarMessage(frame.substr(protocol::kFrameHeaderBytes));
  if (!message.ok()) return;
  if (std::holds_alternative<protocol::Goodbye>(*message)) leaving_ = true;
  if (const auto* cancel = std::get_if<protocol::Cancel>(&*message)) {
    Flight* flight = FindFlight(cancel->seq);
    if (flight != nullptr) flight->cancelled = true;
  }
  if (const auto* begin = std::get_if<protocol::BeginTransaction>(&*message)) return NoteHook(begin->seq, begin->task);
  if (const auto* end = std::get_if<protocol::FinalizeTransaction>(&*message)) return NoteHook(end->seq, end->task);
  if (const auto* load = std::get_if<protocol::Load>(&*message)) return NoteHook(load->seq, load->task);
  if (const auto* store = std::get_if<protocol::Store>(&*message)) return NoteHook(store->seq, store->task);
  const auto* batch = std::get_if<protocol::Batch>(&*message);
  if (batch == nullptr || FindFlight(batch->seq) != nullptr) return;
  Flight& flight = flights_.emplace_back();
  flight.seq = flight.sent_as = batch->seq;
  flight.task = batch->task.value();
  flight.flags = batch->flags;
  flight.records.resize(batch->items.size());
  next_seq_ = std::max(next_seq_, batch->seq + 1);
}

absl::Status CaseRun::Accept(const Json& hello_pattern) {
  auto link = door_->Accept(options_.timeout, [&] { return !program_.running(); });
  if (!link.ok()) return Fails(link.status().message().data());
  link_ = *std::move(link);
  flights_.clear();
  read_.reset();
  leaving_ = false;
  MS_ASSIGN_OR_RETURN(const WorkerFrame frame, Next("HELLO", options_.timeout));
  const auto* hello = std::get_if<protocol::Hello>(&frame.message);
  if (hello == nullptr) return Fails(StrCat("expected HELLO first, got ", Line(MessageOf(frame))));
  if (hello->min_version > protocol::kMaxVersion || hello->max_version < protocol::kMinVersion)
    return Fails(StrCat("HELLO: the worker speaks ", hello->min_version, " to ", hello->max_version));
  if (hello->sdk.empty() || hello->language.empty() || hello->version.empty())
    return Fails("HELLO: sdk, language and version are to be named");
  return Fails(Differences(hello_pattern, MessageOf(frame), "HELLO", false));
}

absl::Status CaseRun::SendWelcome(const Json& overrides) {
  Json welcome = Merged(welcome_, overrides);
  if (!welcome.contains("session")) welcome["session"] = next_session_++;
  MS_ASSIGN_OR_RETURN(const std::string frame, ReadFrame(Json::array({"WELCOME", welcome})));
  return SendBytes(frame);
}

absl::Status CaseRun::Greet() {
  MS_RETURN_IF_ERROR(Annotate(Accept(Json::object()), "handshake"));
  MS_RETURN_IF_ERROR(SendWelcome(Json::object()));
  MS_ASSIGN_OR_RETURN(const std::string frame, ReadFrame(Json::array({"OPEN", 0u})));
  return SendBytes(frame);
}

absl::Status CaseRun::SendBytes(std::string_view bytes) {
  if (bytes.size() > protocol::kFrameHeaderBytes) {
    const std::string_view payload = bytes.substr(protocol::kFrameHeaderBytes);
    const auto message = protocol::DecodeSidecarMessage(payload);
    Log(StrCat("-> ", message.ok() ? Line(Json::parse(protocol::ToJson(*message)))
                                   : StrCat("bytes ", ShowHex(bytes.substr(0, 64)), bytes.size() > 64 ? "..." : "")));
  } else {
    Log(StrCat("-> bytes ", ShowHex(bytes)));
  }
  const absl::Status sent = link_->Send(bytes, options_.timeout);
  // A worker that ended the connection in between may have said why: the next step sees it.
  return absl::IsUnavailable(sent) ? absl::OkStatus() : sent;
}

absl::StatusOr<WorkerFrame> CaseRun::Next(std::string_view wanted, absl::Duration timeout) {
  absl::Duration deadline = SystemClock().Monotonic() + timeout;
  while (true) {
    absl::StatusOr<WorkerFrame> frame = link_->Receive(deadline - SystemClock().Monotonic());
    if (absl::IsOutOfRange(frame.status())) Log("<- end of the connection");
    if (!frame.ok()) return Annotate(frame.status(), StrCat("waiting for ", wanted));
    const Json message = MessageOf(*frame);
    Log(StrCat("<- ", Line(message)));
    if (message["kind"] == std::string(wanted)) {
      MS_RETURN_IF_ERROR(Absorb(*frame, wanted).status());
      return frame;
    }
    MS_ASSIGN_OR_RETURN(const bool absorbed, Absorb(*frame, wanted));
    if (!absorbed) return frame;
    // A worker that says how it gets on is waited for as long as it does.
    if (!wanted.empty() && Progressed(*frame)) deadline = SystemClock().Monotonic() + timeout;
  }
}

// Whether it is an EXTEND that says more than the one before of its batch.
bool CaseRun::Progressed(const WorkerFrame& frame) {
  const auto* extend = std::get_if<protocol::Extend>(&frame.message);
  if (extend == nullptr) return false;
  const std::vector<uint32_t>& all = FindFlight(extend->seq)->extends;
  return all.size() < 2 || all.back() > all[all.size() - 2];
}

// What a worker may send at any time; checks it, and gives false for what a step has to want.
absl::StatusOr<bool> CaseRun::Absorb(const WorkerFrame& frame, std::string_view wanted) {
  if (const auto* ping = std::get_if<protocol::Ping>(&frame.message)) {
    MS_RETURN_IF_ERROR(SendBytes(protocol::EncodeFrame(protocol::Pong{ping->nonce})));
    return true;
  }
  if (const auto* extend = std::get_if<protocol::Extend>(&frame.message)) {
    Flight* flight = FindFlight(extend->seq);
    if (flight == nullptr) return Fails(StrCat("EXTEND of seq ", extend->seq, ", which was not sent"));
    if (!flight->extends.empty() && extend->done < flight->extends.back())
      return Fails(StrCat("EXTEND goes back from ", flight->extends.back(), " to ", extend->done));
    flight->extends.push_back(extend->done);
    return true;
  }
  const auto* get = std::get_if<protocol::Get>(&frame.message);
  const auto* scan = std::get_if<protocol::Scan>(&frame.message);
  if (get != nullptr || scan != nullptr) {
    const uint64_t seq = get != nullptr ? get->seq : scan->seq;
    const uint64_t rid = get != nullptr ? get->rid : scan->rid;
    const uint32_t store = get != nullptr ? get->store : scan->store;
    Flight* flight = FindFlight(seq);
    if (flight == nullptr) return Fails(StrCat("a read for seq ", seq, ", which was not sent"));
    if (store >= stores_.size()) return Fails(StrCat("a read of store ", store, ", which WELCOME does not list"));
    for (const auto& [written, ops] : get != nullptr ? get->new_ops : scan->new_ops) {
      if (written >= writable_) return Fails(StrCat("new ops of ", written, ", which is no store"));
    }
    if (std::count(flight->requests.begin(), flight->requests.end(), rid) > 0)
      return Fails(StrCat("request ", rid, " of seq ", seq, " is open already"));
    flight->requests.push_back(rid);
    if (wanted == "GET" || wanted == "SCAN") return false;
    MS_RETURN_IF_ERROR(AnswerRead(frame));
    return true;
  }
  if (const auto* result = std::get_if<protocol::Result>(&frame.message)) {
    Flight* flight = FindFlight(result->seq);
    if (flight == nullptr) return Fails(StrCat("RESULT of seq ", result->seq, ", which was not sent"));
    if (flight->cancelled) {
      flight->ended = true;
      model_.Forget(result->seq);
      return true;
    }
    if (flight->ended) return Fails(StrCat("a second RESULT of seq ", result->seq));
    return false;
  }
  return std::holds_alternative<protocol::Goodbye>(frame.message) && leaving_;
}

absl::Status CaseRun::AnswerRead(const WorkerFrame& frame) {
  const auto* get = std::get_if<protocol::Get>(&frame.message);
  const auto* scan = std::get_if<protocol::Scan>(&frame.message);
  Flight* flight = FindFlight(get != nullptr ? get->seq : scan->seq);
  std::erase(flight->requests, get != nullptr ? get->rid : scan->rid);
  if (flight->cancelled) {
    const std::string cancelled = "cancelled";
    return SendBytes(get != nullptr
                         ? protocol::EncodeFrame(protocol::Values{get->seq, get->rid, {}, cancelled})
                         : protocol::EncodeFrame(protocol::Rows{scan->seq, scan->rid, {}, std::nullopt, cancelled}));
  }
  return SendBytes(get != nullptr ? protocol::EncodeFrame(model_.Answer(*get))
                                  : protocol::EncodeFrame(model_.Answer(*scan)));
}

absl::Status CaseRun::Expect(const Json& pattern) {
  const std::string kind = pattern.value("kind", std::string());
  MS_ASSIGN_OR_RETURN(WorkerFrame frame, Next(kind, options_.timeout));
  Json message = MessageOf(frame);
  // Row keys of windowed stores are written as in `data`.
  const auto* get = std::get_if<protocol::Get>(&frame.message);
  if (get != nullptr && ShapeOf(shapes_, get->store).windowed()) {
    message["keys"] = Json::array();
    for (const std::string_view key : get->keys) message["keys"].push_back(ShowRow(ShapeOf(shapes_, get->store), key));
  }
  MS_RETURN_IF_ERROR(Fails(Differences(pattern, message, kind, false)));
  if (const auto* result = std::get_if<protocol::Result>(&frame.message)) FindFlight(result->seq)->ended = true;
  if (const auto* checkpoint = std::get_if<protocol::Checkpoint>(&frame.message)) Answered(checkpoint->seq);
  if (const auto* stored = std::get_if<protocol::Stored>(&frame.message)) Answered(stored->seq);
  if (kind == "GET" || kind == "SCAN") read_ = std::move(frame);
  return absl::OkStatus();
}

absl::Status CaseRun::Answer(const Json& argument) {
  if (!read_.has_value()) return Fails("no GET or SCAN was waited for");
  const WorkerFrame frame = *std::move(read_);
  read_.reset();
  if (argument == "auto") return AnswerRead(frame);
  const auto* get = std::get_if<protocol::Get>(&frame.message);
  const auto* scan = std::get_if<protocol::Scan>(&frame.message);
  Flight* flight = FindFlight(get != nullptr ? get->seq : scan->seq);
  const uint64_t rid = get != nullptr ? get->rid : scan->rid;
  std::erase(flight->requests, rid);
  if (argument.contains("frame")) {
    MS_ASSIGN_OR_RETURN(const std::string recorded, ReadBytes(argument["frame"]));
    MS_ASSIGN_OR_RETURN(const std::string readdressed, ReadFrameFor(recorded, flight->sent_as, rid));
    return SendBytes(readdressed);
  }
  const std::optional<std::string> error =
      argument.contains("error") ? std::optional(argument["error"].get<std::string>()) : std::nullopt;
  if (get != nullptr && !argument.contains("rows")) {
    protocol::Values values{get->seq, get->rid, {}, error};
    for (const Json& value : argument.value("values", Json::array())) {
      MS_ASSIGN_OR_RETURN(std::optional<std::string> bytes, ReadMaybeBytes(value));
      values.values.push_back(std::move(bytes));
    }
    return SendBytes(protocol::EncodeFrame(values));
  }
  protocol::Rows rows{flight->sent_as, rid, {}, std::nullopt, error};
  for (const Json& row : argument.value("rows", Json::array())) {
    MS_ASSIGN_OR_RETURN(std::string key, ReadBytes(row[0]));
    MS_ASSIGN_OR_RETURN(std::string value, ReadBytes(row[1]));
    rows.rows.emplace_back(std::move(key), std::move(value));
  }
  if (argument.contains("cursor")) {
    MS_ASSIGN_OR_RETURN(rows.cursor, ReadMaybeBytes(argument["cursor"]));
  }
  return SendBytes(protocol::EncodeFrame(rows));
}

absl::Status CaseRun::Ping(const Json& nonce) {
  MS_RETURN_IF_ERROR(SendBytes(protocol::EncodeFrame(protocol::Ping{nonce.get<uint64_t>()})));
  return Expect({{"kind", "PONG"}, {"nonce", nonce}});
}

absl::Status CaseRun::Quiet(absl::Duration time) {
  const absl::StatusOr<WorkerFrame> frame = Next("", time);
  if (absl::IsDeadlineExceeded(frame.status())) return absl::OkStatus();
  if (!frame.ok()) return frame.status();
  return Fails(StrCat("nothing was to come, got ", Line(MessageOf(*frame))));
}

absl::Status CaseRun::Refused(const Json& codes) {
  MS_ASSIGN_OR_RETURN(const WorkerFrame frame, Next("ERROR", options_.timeout));
  const Json pattern = {{"kind", "ERROR"},
                        {"code", {{"oneOf", codes.is_array() ? codes : Json::array({codes})}}},
                        {"message", {{"not", ""}}}};
  MS_RETURN_IF_ERROR(Fails(Differences(pattern, MessageOf(frame), "ERROR", false)));
  return Ended();
}

absl::Status CaseRun::Hostile(const Json& frames) {
  for (const auto& [name, notation] : frames.items()) {
    const auto one = [&]() -> absl::Status {
      MS_RETURN_IF_ERROR(ServeOne());
      MS_ASSIGN_OR_RETURN(const std::string bytes, notation.is_array() ? ReadFrame(notation) : ReadBytes(notation));
      MS_RETURN_IF_ERROR(SendBytes(bytes));
      MS_RETURN_IF_ERROR(Refused({"BadFrame", "FrameTooLarge"}));
      return Annotate(Greet(), "connecting again");
    };
    MS_RETURN_IF_ERROR(Annotate(one(), name));
  }
  return ServeOne();
}

absl::Status CaseRun::Ended() {
  leaving_ = true;
  const absl::StatusOr<WorkerFrame> frame = Next("the end of the connection", options_.timeout);
  if (frame.ok()) return Fails(StrCat("expected the end of the connection, got ", Line(MessageOf(*frame))));
  if (!absl::IsOutOfRange(frame.status())) return frame.status();
  link_.reset();
  return absl::OkStatus();
}

absl::Status CaseRun::Signal(const Json& name) {
  leaving_ = true;
  Log(StrCat("-- signal ", name.dump()));
  program_.Signal(name == "KILL" ? SIGKILL : name == "INT" ? SIGINT : SIGTERM);
  return absl::OkStatus();
}

absl::Status CaseRun::Exit(const Json& code) {
  const std::optional<int> got = program_.WaitForExit(options_.timeout);
  if (!got.has_value()) return Fails("the program still runs");
  Log(StrCat("-- the program ended with exit code ", *got));
  return Fails(Differences(code, *got, "exit code", false));
}

void CaseRun::Answered(uint64_t seq) {
  if (Flight* flight = FindFlight(seq)) flight->ended = true;
}

Flight* CaseRun::FindFlight(uint64_t seq) {
  const auto found = std::find_if(flights_.begin(), flights_.end(), [&](const Flight& f) { return f.sent_as == seq; });
  return found == flights_.end() ? nullptr : &*found;
}

size_t CaseRun::StoreId(std::string_view name) const {
  const auto found = std::find(stores_.begin(), stores_.end(), name);
  return found == stores_.end() ? kNone : static_cast<size_t>(found - stores_.begin());
}

void CaseRun::Log(std::string line) { transcript_.push_back(std::move(line)); }

}  // namespace millstream::cli::conform
