// Outcomes as text, JSON and JUnit.
#include <algorithm>
#include <array>
#include <cstdio>

#include "cli/conform/suite.h"
#include "common/base/strings.h"
#include "sidecar/protocol/utf8.h"

namespace millstream::cli::conform {
namespace {

constexpr size_t kShownFrames = 24;
constexpr size_t kLongestText = 64 << 10;

std::string Seconds(absl::Duration time) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.3f", absl::ToDoubleSeconds(time));
  return text.data();
}

void Indent(std::string_view text, std::string_view margin, std::string* out) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    StrAppend(out, margin, text.substr(0, end), "\n");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::string Details(const Outcome& outcome, bool all_frames) {
  std::string text;
  const CaseResult& result = outcome.result;
  if (!result.passed) {
    StrAppend(&text, "  ", outcome.what->about, "\n  ", outcome.what->file, ":", result.line, "\n");
    Indent(result.problem, "    ", &text);
  }
  const size_t frames = result.transcript.size();
  const size_t first = all_frames || frames <= kShownFrames ? 0 : frames - kShownFrames;
  if (frames > 0)
    StrAppend(&text, "  frames", first > 0 ? StrCat(" (the last ", kShownFrames, " of ", frames, ")") : "", ":\n");
  for (size_t i = first; i < frames; ++i) Indent(result.transcript[i], "    ", &text);
  if (!result.output.empty()) {
    StrAppend(&text, "  the program printed:\n");
    Indent(result.output, "    ", &text);
  }
  return text;
}

std::string Xml(std::string_view text) {
  std::string escaped;
  for (const char c : protocol::RepairUtf8(text, kLongestText)) {
    switch (c) {
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        // What XML cannot hold.
        escaped += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return escaped;
}

size_t Count(const std::vector<Outcome>& outcomes, Verdict verdict) {
  return static_cast<size_t>(std::count_if(outcomes.begin(), outcomes.end(),
                                           [&](const Outcome& outcome) { return outcome.verdict == verdict; }));
}

std::string Why(const Outcome& outcome) {
  if (outcome.verdict == Verdict::kFixed)
    return StrCat("it passes now, take it off knownFailures (", outcome.reason, ")");
  return outcome.reason;
}

}  // namespace

std::string ToText(const Outcome& outcome, bool frames) {
  std::string text = StrCat(Name(outcome.verdict), " ", outcome.what->name);
  if (!outcome.reason.empty()) StrAppend(&text, ": ", Why(outcome));
  StrAppend(&text, "\n");
  if (frames || outcome.verdict == Verdict::kFailed) StrAppend(&text, Details(outcome, frames));
  return text;
}

std::string Summary(const std::vector<Outcome>& outcomes) {
  const size_t failed = Count(outcomes, Verdict::kFailed) + Count(outcomes, Verdict::kFixed);
  std::string text = StrCat(Count(outcomes, Verdict::kPassed), " passed, ", failed, " failed");
  if (const size_t known = Count(outcomes, Verdict::kKnownFailure)) StrAppend(&text, ", ", known, " known failures");
  if (const size_t skipped = Count(outcomes, Verdict::kSkipped)) StrAppend(&text, ", ", skipped, " not applicable");
  return text;
}

std::string ToJsonText(const std::vector<Outcome>& outcomes) {
  Json cases = Json::array();
  for (const Outcome& outcome : outcomes) {
    Json one = {{"name", outcome.what->name},
                {"verdict", std::string(Name(outcome.verdict))},
                {"about", outcome.what->about},
                {"seconds", absl::ToDoubleSeconds(outcome.result.took)}};
    if (!outcome.reason.empty()) one["reason"] = outcome.reason;
    if (!outcome.result.passed && outcome.verdict != Verdict::kSkipped) {
      one["problem"] = outcome.result.problem;
      one["place"] = StrCat(outcome.what->file, ":", outcome.result.line);
      one["frames"] = outcome.result.transcript;
      one["output"] = outcome.result.output;
    }
    cases.push_back(std::move(one));
  }
  const size_t failed = Count(outcomes, Verdict::kFailed) + Count(outcomes, Verdict::kFixed);
  return Json{{"cases", cases},
              {"passed", Count(outcomes, Verdict::kPassed)},
              {"failed", failed},
              {"knownFailures", Count(outcomes, Verdict::kKnownFailure)},
              {"skipped", Count(outcomes, Verdict::kSkipped)}}
      .dump(1, ' ', false, Json::error_handler_t::replace);
}

std::string ToJUnit(const std::vector<Outcome>& outcomes, std::string_view suite_name) {
  absl::Duration took;
  for (const Outcome& outcome : outcomes) took += outcome.result.took;
  const size_t failed = Count(outcomes, Verdict::kFailed) + Count(outcomes, Verdict::kFixed);
  const size_t skipped = Count(outcomes, Verdict::kSkipped) + Count(outcomes, Verdict::kKnownFailure);
  std::string xml = StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"",
                           Xml(suite_name), "\" tests=\"", outcomes.size(), "\" failures=\"", failed, "\" skipped=\"",
                           skipped, "\" time=\"", Seconds(took), "\">\n");
  for (const Outcome& outcome : outcomes) {
    StrAppend(&xml, "<testcase classname=\"", Xml(suite_name), "\" name=\"", Xml(outcome.what->name), "\" time=\"",
              Seconds(outcome.result.took), "\">");
    if (outcome.verdict == Verdict::kFailed) {
      StrAppend(&xml, "<failure message=\"", Xml(outcome.result.problem), "\">", Xml(Details(outcome, false)),
                "</failure>");
    } else if (outcome.verdict == Verdict::kFixed) {
      StrAppend(&xml, "<failure message=\"", Xml(Why(outcome)), "\"/>");
    } else if (!outcome.reason.empty()) {
      StrAppend(&xml, "<skipped message=\"", Xml(Why(outcome)), "\"/>");
    }
    StrAppend(&xml, "</testcase>\n");
  }
  return xml + "</testsuite>\n</testsuites>\n";
}

}  // namespace millstream::cli::conform
