// The conformance worker of the C++ SDK: does what docs/reference/conformance.md says.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "millstream/gathered.h"
#include "millstream/worker.h"

namespace millstream {
namespace {

using Words = std::vector<std::string>;
using worker::Context;
using worker::MaybeView;

Words Split(std::string_view text, char separator) {
  Words words;
  while (true) {
    const size_t end = text.find(separator);
    words.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end + 1);
  }
}

// A word of a script: ~ is null, % alone is empty, %ff a byte.
std::optional<std::string> Word(std::string_view text) {
  if (text == "~") return std::nullopt;
  if (text == "%") return "";
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = static_cast<unsigned char>(text[i]);
    if (text[i] == '%') {
      std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16);
      i += 2;
    }
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

int64_t Int(std::string_view text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

absl::Status Emit(Context& ctx, const Words& words) {
  const auto key = Word(words[2]), value = Word(words[3]);
  worker::EmitOptions options;
  if (words.size() > 4 && words[4] != "~") options.timestamp_ms = Int(words[4]);
  if (words.size() > 5 && words[5] != "~") options.partition = static_cast<int32_t>(Int(words[5]));
  std::vector<std::pair<std::string, std::optional<std::string>>> headers;
  for (size_t i = 6; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    headers.emplace_back(words[i].substr(0, equals), Word(std::string_view(words[i]).substr(equals + 1)));
  }
  for (const auto& [name, header] : headers) options.headers.emplace_back(name, header);
  return ctx.Emit(words[1], key, value, options);
}

absl::Status Count(Context& ctx, worker::Store store) {
  MS_ASSIGN_OR_RETURN(const MaybeView before, store.Get());
  const std::string count = std::to_string(Int(before.value_or("0")) + 1);
  MS_RETURN_IF_ERROR(store.Put(count));
  return ctx.Emit("out", ctx.key(), count);
}

absl::Status Scan(Context& ctx, worker::Table store, const Words& words) {
  const auto from = Word(words[2]), to = Word(words[3]);
  worker::ScanOptions options;
  options.from = from;
  options.to = to;
  options.limit = static_cast<uint32_t>(Int(words[4]));
  options.reverse = words[5] == "reverse";
  MS_ASSIGN_OR_RETURN(const auto rows, store.Scan(options));
  for (const auto& [key, value] : rows) MS_RETURN_IF_ERROR(ctx.Emit("reads", key, value));
  return absl::OkStatus();
}

absl::Status Get(Context& ctx, worker::Table store, const Words& words) {
  if (words.size() < 3) {
    MS_ASSIGN_OR_RETURN(const MaybeView value, store.Get());
    return ctx.Emit("reads", ctx.key(), value);
  }
  const auto key = Word(words[2]);
  MS_ASSIGN_OR_RETURN(const MaybeView value, store.Get(*key));
  return ctx.Emit("reads", key, value);
}

absl::Status GetMany(Context& ctx, worker::Store store, const Words& words) {
  std::vector<std::string> keys;
  for (size_t i = 2; i < words.size(); ++i) keys.push_back(*Word(words[i]));
  MS_ASSIGN_OR_RETURN(const std::vector<MaybeView> values, store.GetMany({keys.begin(), keys.end()}));
  for (size_t i = 0; i < keys.size(); ++i) MS_RETURN_IF_ERROR(ctx.Emit("reads", keys[i], values[i]));
  return absl::OkStatus();
}

std::string BoundsOf(const worker::Window& window) { return StrCat(window.start_ms, "..", window.end_ms); }

// What a command does with each open window of the record.
template <typename F>
absl::Status ForWindows(Context& ctx, const std::string& store, const F& act) {
  MS_ASSIGN_OR_RETURN(const auto windows, ctx.Windows(store).Windows());
  for (const worker::Window& window : windows) MS_RETURN_IF_ERROR(act(ctx.Windows(store), window));
  return absl::OkStatus();
}

absl::Status DoWindows(Context& ctx, const Words& words) {
  const std::string& name = words[0];
  if (name == "window") {
    MS_ASSIGN_OR_RETURN(const MaybeView value, ctx.Windows(words[1]).Get(ctx.key().value_or(""), Int(words[2])));
    return ctx.Emit("reads", ctx.key(), value);
  }
  if (name == "set_window") {
    const int64_t start = Int(words[2]);
    return ctx.Windows(words[1]).Put({start, start}, *Word(words[3]));
  }
  return ForWindows(ctx, words[1], [&](worker::WindowStore store, const worker::Window& window) -> absl::Status {
    if (name == "set_windows") return store.Put(window, *Word(words[2]));
    if (name == "delete_windows") return store.Delete(window);
    MS_ASSIGN_OR_RETURN(const MaybeView value, store.Get(window));
    if (name == "windows") {
      return ctx.Emit("reads", ctx.key(), value.has_value() ? StrCat(BoundsOf(window), "=", *value) : BoundsOf(window));
    }
    const std::string count = std::to_string(Int(value.value_or("0")) + 1);
    MS_RETURN_IF_ERROR(store.Put(window, count));
    return ctx.Emit("out", ctx.key(), StrCat(BoundsOf(window), "=", count));
  });
}

absl::Status DoSession(Context& ctx, const Words& words) {
  worker::SessionStore store = ctx.Sessions(words[1]);
  if (words[0] == "set_session") return store.Put(*Word(words[2]));
  MS_ASSIGN_OR_RETURN(const std::optional<worker::Window> session, store.Session());
  MS_ASSIGN_OR_RETURN(const std::vector<std::string_view> values, store.Values());
  if (words[0] == "session") {
    if (!session.has_value()) return ctx.Emit("reads", ctx.key(), std::nullopt);
    std::string text = BoundsOf(*session);
    for (size_t i = 0; i < values.size(); ++i) StrAppend(&text, i == 0 ? "=" : ",", values[i]);
    return ctx.Emit("reads", ctx.key(), text);
  }
  int64_t count = 1;
  for (const std::string_view value : values) count += Int(value);
  MS_RETURN_IF_ERROR(store.Put(std::to_string(count)));
  return ctx.Emit("out", ctx.key(), StrCat(BoundsOf(*session), "=", count));
}

// `words` from the clock on: [event|wall [KEY]].
absl::Status DoTimer(Context& ctx, const std::string& name, std::optional<int64_t> time, const Words& words,
                     size_t from) {
  worker::TimerOptions options;
  if (words.size() > from && words[from] == "wall") options.clock = worker::TimerClock::kWallClock;
  const auto key = words.size() > from + 1 ? Word(words[from + 1]) : std::nullopt;
  options.key = key;
  return time.has_value() ? ctx.SetTimer(name, *time, options) : ctx.CancelTimer(name, options);
}

absl::Status DoVisit(Context& ctx, const Words& words) {
  const std::optional<std::string> data = words.size() > 3 ? Word(words[3]) : std::nullopt;
  if (words[2] == "start") return ctx.StartVisit(words[1], data);
  if (words[2] == "stop") return ctx.StopVisit(words[1]);
  return words[2] == "pause" ? ctx.PauseVisit(words[1]) : ctx.ResumeVisit(words[1]);
}

absl::Status DoTime(Context& ctx, const Words& words) {
  const std::string& name = words[0];
  if (name.ends_with("session")) return DoSession(ctx, words);
  if (name == "timer") return DoTimer(ctx, words[1], Int(words[2]), words, 3);
  if (name == "cancel") return DoTimer(ctx, words[1], std::nullopt, words, 2);
  if (name == "visit") return DoVisit(ctx, words);
  if (name == "visit_size") return ctx.StartVisit(words[1], std::string(static_cast<size_t>(Int(words[2])), 'x'));
  if (name != "watermark") return DoWindows(ctx, words);
  const std::optional<int64_t> time = ctx.watermark_ms();
  const std::string text = std::to_string(time.value_or(0));
  return ctx.Emit("out", std::nullopt, time.has_value() ? MaybeView(text) : std::nullopt);
}

bool IsOfTime(std::string_view command) {
  static constexpr std::string_view kCommands[] = {
      "windows",     "count_windows", "set_windows", "delete_windows", "window",    "set_window", "session",
      "set_session", "count_session", "timer",       "cancel",         "watermark", "visit",      "visit_size"};
  return std::find(std::begin(kCommands), std::end(kCommands), command) != std::end(kCommands);
}

// What scripts gather for their task, for the hook.
const worker::Gathered<std::vector<std::string>> gathered;

void Gather(Context& ctx, std::string text) {
  gathered.Change(ctx, [text = std::move(text)](std::vector<std::string>& texts) { texts.push_back(text); });
}

absl::Status Do(Context& ctx, const Words& words) {
  const std::string& name = words[0];
  if (name == "gather") {
    Gather(ctx, *Word(words[1]));
    return absl::OkStatus();
  }
  if (IsOfTime(name)) return DoTime(ctx, words);
  if (name == "join") return Get(ctx, ctx.Join(words[1]), words);
  if (name == "lookup") return Get(ctx, ctx.Lookup(words[1]), words);
  if (name == "scan_table") return Scan(ctx, ctx.Lookup(words[1]), words);
  if (name == "get") return Get(ctx, ctx.State(words[1]), words);
  if (name == "get_many") return GetMany(ctx, ctx.State(words[1]), words);
  if (name == "set") {
    return words.size() > 3 ? ctx.State(words[1]).Put(*Word(words[3]), *Word(words[2]))
                            : ctx.State(words[1]).Put(*Word(words[2]));
  }
  if (name == "set_size") return ctx.State(words[1]).Put(std::string(static_cast<size_t>(Int(words[2])), 'x'));
  if (name == "delete")
    return words.size() > 2 ? ctx.State(words[1]).Delete(*Word(words[2])) : ctx.State(words[1]).Delete();
  if (name == "scan") return Scan(ctx, ctx.State(words[1]), words);
  if (name == "count") return Count(ctx, ctx.State(words[1]));
  if (name == "emit") return Emit(ctx, words);
  if (name == "emit_size") return ctx.Emit(words[1], ctx.key(), std::string(static_cast<size_t>(Int(words[2])), 'x'));
  if (name == "info") {
    return ctx.Emit(
        "out", std::nullopt,
        StrCat(ctx.input(), " ", ctx.task(), " ", ctx.offset(), " ", ctx.timestamp_ms(), " ", ctx.attempt()));
  }
  if (name == "fail") return absl::InternalError(*Word(words[1]));
  if (name == "fail_size") return absl::InternalError(std::string(static_cast<size_t>(Int(words[1])), 'x'));
  if (name == "reject") return worker::RejectRecord(*Word(words[1]));
  if (name == "crash") std::_Exit(3);
  if (name == "sleep") {
    std::this_thread::sleep_for(std::chrono::milliseconds(Int(words[1])));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(StrCat("no command ", name));
}

absl::Status RunScript(Context& ctx, std::string_view script) {
  for (const std::string& line : Split(script, '\n')) MS_RETURN_IF_ERROR(Do(ctx, Split(line, ' ')));
  return absl::OkStatus();
}

absl::Status Script(Context& ctx) { return RunScript(ctx, ctx.value().value_or("")); }

// The script that store `scripts` has for the key of what is due.
absl::Status StoredScript(Context& ctx) {
  MS_ASSIGN_OR_RETURN(const MaybeView script, ctx.State("scripts").Get());
  return script.has_value() ? RunScript(ctx, std::string(*script)) : absl::OkStatus();
}

absl::Status Due(Context& ctx) {
  const bool wall = ctx.timer_clock() == worker::TimerClock::kWallClock;
  MS_RETURN_IF_ERROR(ctx.Emit(
      "out", ctx.key(), StrCat(ctx.timer(), wall ? " wall " : " event ", ctx.timestamp_ms(), " ", ctx.attempt())));
  return StoredScript(ctx);
}

absl::Status Closed(Context& ctx) {
  std::string text = BoundsOf(ctx.closing());
  if (ctx.value().has_value()) StrAppend(&text, "=", *ctx.value());
  MS_RETURN_IF_ERROR(ctx.Emit("out", ctx.key(), text));
  return StoredScript(ctx);
}

absl::Status EmitVisit(Context& ctx) {
  return ctx.Emit(
      "out", ctx.key(),
      StrCat(ctx.visit(), " ", ctx.timestamp_ms(), " ", ctx.attempt(), " ", ctx.visit_data().value_or("~")));
}

absl::Status Visited(Context& ctx) {
  MS_RETURN_IF_ERROR(EmitVisit(ctx));
  MS_RETURN_IF_ERROR(ctx.Emit("reads", ctx.key(), ctx.value()));
  return StoredScript(ctx);
}

absl::StatusOr<std::string> Joined(const std::vector<std::string_view>& values) {
  std::string joined(values[0]);
  for (size_t i = 1; i < values.size(); ++i) StrAppend(&joined, "+", values[i]);
  return joined;
}

absl::Status Echo(Context& ctx) {
  worker::EmitOptions options;
  options.headers = ctx.headers();
  return ctx.Emit("out", ctx.key(), ctx.value(), options);
}

absl::Status Ints(Context& ctx) {
  if (!ctx.value().has_value() || ctx.value()->size() != 8) return absl::DataLossError("an integer has 8 bytes");
  return ctx.Emit("out", ctx.key(), std::to_string(static_cast<int64_t>(ReadBigEndian64(*ctx.value()))));
}

absl::Status SendGathered(Context& ctx) {
  for (const std::string& text : gathered.Take(ctx)) {
    if (text == "fail") return absl::InternalError(text);
    if (!text.starts_with("count:")) {
      MS_RETURN_IF_ERROR(ctx.Emit("out", std::nullopt, text));
      continue;
    }
    const std::string key = text.substr(6);
    MS_ASSIGN_OR_RETURN(const MaybeView before, ctx.State("counts").Get(key));
    MS_RETURN_IF_ERROR(ctx.State("counts").Put(key, std::to_string(Int(before.value_or("0")) + 1)));
  }
  return absl::OkStatus();
}

int Main() {
  worker::App app;
  app.On("script", Script).On("echo", Echo).On("ints", Ints);
  // What the case at hand needs: a manifest without timers, say, refuses a program that handles them.
  const char* needs = std::getenv("CONFORMANCE_NEEDS");
  for (const std::string& feature : Split(needs == nullptr ? "" : needs, ',')) {
    if (feature == "timers") app.OnTimer("tick", Due).OnTimer("other", Due);
    if (feature == "visits") app.OnVisit("walk", Visited).OnVisitEnd("walk", EmitVisit);
    if (feature == "closings") app.OnClose("final", Closed);
    if (feature == "sessionClosings") app.OnClose("stays", Closed);
    if (feature == "hooks") {
      app.OnBegin([](Context&) { return absl::OkStatus(); }).OnFinalize(SendGathered).OnCommitted([](int32_t) {});
    }
    if (feature == "sessions") app.MergeSessions("visits", Joined);
  }
  const absl::Status status = app.Run();
  if (!status.ok()) std::cerr << "conformance_worker: " << status.message() << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace millstream

int main() { return millstream::Main(); }
