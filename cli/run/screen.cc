#include "cli/run/screen.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/progress.h"
#include "cli/text_format.h"
#include "common/base/strings.h"
#include "nlohmann/json.hpp"

namespace millstream::cli {
namespace {

constexpr absl::Duration kTerminalInterval = absl::Milliseconds(250);
constexpr absl::Duration kPlainInterval = absl::Seconds(10);
constexpr absl::Duration kJsonInterval = absl::Seconds(1);

std::string Words(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) {
    const bool plain = !word.empty() && word.find_first_of(" \t\n'\"\\$&|;<>()*?`") == std::string::npos;
    StrAppend(&line, line.empty() ? "" : " ", plain ? word : StrCat("'", word, "'"));
  }
  return line;
}

// Cut at `width` columns without cutting a character in two.
std::string Cut(std::string text, size_t width) {
  if (text.size() <= width) return text;
  size_t at = width;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  text.resize(at);
  return text;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string StateOf(const host::SidecarStatus& status) {
  if (status.restoring > 0 && !status.restores.empty()) {
    int64_t left = 0;
    absl::Duration time = absl::ZeroDuration();
    for (const host::RestoreReport& report : status.restores) {
      left += report.bytes_left;
      if (report.time_left.has_value()) time = std::max(time, *report.time_left);
    }
    return StrCat("restoring ", status.restoring, " tasks, ", HumanBytes(static_cast<double>(left)), " left",
                  time > absl::ZeroDuration()
                      ? StrCat(", about ", absl::FormatDuration(absl::Ceil(time, absl::Seconds(1))))
                      : std::string());
  }
  if (status.restoring > 0) return StrCat("opening ", status.restoring, " tasks");
  if (status.view) return "serving";
  if (status.engine.paused) return "paused";
  if (status.engine.workers == 0) return "waiting for the worker";
  if (status.engine.tasks.empty()) return "no task is assigned here";
  if (status.stopped > 0) return StrCat(status.stopped, " of ", status.engine.tasks.size(), " tasks stopped");
  return "running";
}

std::string LastError(const host::SidecarStatus& status) {
  if (!status.conditions.empty())
    return StrCat(status.conditions.front().reason, ": ", FirstLine(status.conditions.front().message));
  return FirstLine(status.engine.last_error);
}

}  // namespace

std::string FirstScreen(const std::string& data, const std::string& kafka, const std::string& data_option,
                        const std::vector<RunningView>& processors) {
  std::string screen =
      kafka.empty() ? StrCat("millstream: topics and state are in ", data, "; Ctrl-C ends\n")
                    : StrCat("millstream: topics are on Kafka at ", kafka, ", state is in ", data, "; Ctrl-C ends\n");
  for (const RunningView& view : processors) {
    const spec::StreamProcessorSpec& spec = *view.spec;
    StrAppend(&screen, "\n", spec.QualifiedName(), "  ", ToString(spec.guarantee), ", ", view.tasks,
              view.tasks == 1 ? " task" : " tasks", "\n");
    for (const spec::InputSpec& input : spec.inputs)
      StrAppend(&screen, input.loop ? "  loop    " : "  input   ", input.topic, "\n");
    for (const spec::TableSpec& join : spec.joins) StrAppend(&screen, "  join    ", join.topic, "\n");
    for (const spec::TableSpec& lookup : spec.lookups) StrAppend(&screen, "  lookup  ", lookup.topic, "\n");
    for (const spec::StoreSpec& store : spec.stores) {
      if (!store.internal) StrAppend(&screen, "  store   ", store.name, "\n");
    }
    for (size_t i = 0; i < spec.outputs.size(); ++i) {
      if (spec.outputs[i].loop) continue;
      StrAppend(&screen, "  output  ", spec.outputs[i].topic, " (", view.output_partitions[i],
                view.output_partitions[i] == 1 ? " partition" : " partitions", ")\n");
    }
    if (!spec.is_view()) StrAppend(&screen, "  worker  ", Words(view.command), "\n");
  }
  screen += "\nIn another terminal:\n";
  for (const RunningView& view : processors) {
    const spec::StreamProcessorSpec& spec = *view.spec;
    const std::string& topic = !spec.is_view()       ? spec.inputs.front().topic
                               : !spec.joins.empty() ? spec.joins.front().topic
                                                     : spec.lookups.front().topic;
    StrAppend(&screen, "  echo 'alice={\"amount\": 1}' | millstream produce ", topic, " --format keyvalue", data_option,
              "\n");
    if (!spec.outputs.empty() && !spec.outputs.front().loop)
      StrAppend(&screen, "  millstream consume ", spec.outputs.front().topic, " --follow", data_option, "\n");
    const bool key_value = spec.ManifestStores() == 0 || spec.stores.front().type == spec::StoreType::kKeyValue;
    if (spec.readables() > 0 && key_value) {
      StrAppend(&screen, "  millstream state get ", spec.ReadableName(0), " alice",
                processors.size() > 1 ? StrCat(" --processor ", spec.name) : std::string(), data_option, "\n");
      if (!view.http.empty())
        StrAppend(&screen, "  curl http://", view.http, "/v1/stores/", spec.ReadableName(0), "/keys/alice\n");
    }
    if (!view.http.empty()) StrAppend(&screen, "  curl http://", view.http, "/v1/tasks\n");
  }
  return screen;
}

Screen::~Screen() { Finish(); }

void Screen::Print(std::string_view line) {
  std::fprintf(stderr, "%s%.*s\n", drawn_ ? "\r\033[K" : "", static_cast<int>(line.size()), line.data());
  drawn_ = false;
  if (kind_ == Kind::kTerminal && !last_line_.empty()) Draw(last_line_);
}

void Screen::Finish() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
  last_line_.clear();
}

void Screen::Draw(const std::string& line) {
  // The cursor goes back to the first column: a log line of another thread then covers the status instead of following
  // it.
  std::fprintf(stderr, "\r\033[K%s\r", Cut(line, static_cast<size_t>(TerminalWidth(STDERR_FILENO) - 1)).c_str());
  std::fflush(stderr);
  last_line_ = line;
  drawn_ = true;
}

double Screen::RateOf(absl::Duration now, const std::string& name, const host::SidecarStatus& status) {
  const auto [entry, fresh] = rates_.try_emplace(name, Rate{now, status.engine.records_committed, 0});
  Rate& rate = entry->second;
  const absl::Duration since = now - rate.at;
  if (since < absl::Milliseconds(900)) return rate.per_second;
  rate.per_second = static_cast<double>(status.engine.records_committed - rate.records) / absl::ToDoubleSeconds(since);
  rate.at = now;
  rate.records = status.engine.records_committed;
  return rate.per_second;
}

void Screen::ShowChanges(const std::string& name, const host::SidecarStatus& status) {
  const std::string state = StateOf(status);
  // While restoring only the numbers move.
  const std::string kind = state.substr(0, state.find_first_of("0123456789"));
  if (said_[name] != kind) {
    said_[name] = kind;
    Print(StrCat(name, ": ", state));
  }
  // Failures of records and stopped tasks are in the log lines, with their tracebacks. Conditions of other kinds are
  // not.
  std::string news;
  for (const host::Condition& condition : status.conditions) {
    if (condition.reason == "TaskStopped") continue;
    // The time a worker is away grows; that is not news.
    if (errors_[name] != condition.reason) Print(StrCat(name, ": ", condition.reason, ": ", condition.message));
    news = condition.reason;
    break;
  }
  errors_[name] = news;
}

void Screen::Show(absl::Duration now, const std::vector<std::pair<std::string, host::SidecarStatus>>& statuses) {
  const bool terminal = kind_ == Kind::kTerminal;
  looked_at_ = now;
  for (const auto& [name, status] : statuses) {
    if (kind_ == Kind::kPlain) ShowChanges(name, status);
  }
  if (now - drawn_at_ < (terminal ? kTerminalInterval : kind_ == Kind::kPlain ? kPlainInterval : kJsonInterval)) return;
  drawn_at_ = now;
  std::string line;
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [name, status] : statuses) {
    const double rate = RateOf(now, name, status);
    StrAppend(&line, line.empty() ? "" : "  |  ", name, ": ", StateOf(status), "  ",
              WithCommas(static_cast<int64_t>(rate)), " records/s  lag ", WithCommas(status.engine.lag_records), "  ",
              WithCommas(static_cast<int64_t>(status.engine.records_committed)), " done");
    if (const std::string error = LastError(status); terminal && !error.empty()) StrAppend(&line, "  ! ", error);
    list.push_back({{"processor", name},
                    {"state", StateOf(status)},
                    {"recordsPerSecond", rate},
                    {"lag", status.engine.lag_records},
                    {"records", status.engine.records_committed},
                    {"transactions", status.engine.transactions},
                    {"workers", status.engine.workers},
                    {"lastError", LastError(status)}});
  }
  if (terminal) {
    Draw(line);
  } else if (kind_ == Kind::kJson) {
    std::printf("%s\n", list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    std::fflush(stdout);
  } else if (line != last_line_) {
    last_line_ = line;
    Print(line);
  }
}

}  // namespace millstream::cli
