#include "common/spec/findings.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/base/strings.h"
#include "common/spec/manifest.h"

namespace millstream::spec {

std::string Child(std::string_view path, std::string_view key) {
  bool plain = !key.empty() && key.find_first_of(".[] /") == std::string_view::npos;
  if (!plain) return StrCat(path, "[", key, "]");
  return path.empty() ? std::string(key) : StrCat(path, ".", key);
}

std::string Child(std::string_view path, size_t index) { return StrCat(path, "[", index, "]"); }

void Findings::Error(Judge judge, Position at, std::string_view path, std::string message) {
  has_errors_ = true;
  Add(Severity::kError, judge, at, path, std::move(message));
}

void Findings::Warning(Position at, std::string_view path, std::string message) {
  Add(Severity::kWarning, Judge::kCode, at, path, std::move(message));
}

void Findings::Note(Position at, std::string_view path, std::string message) {
  Add(Severity::kNote, Judge::kCode, at, path, std::move(message));
}

void Findings::Add(Severity severity, Judge judge, Position at, std::string_view path, std::string message) {
  if (diagnostics_.size() >= kMaxDiagnostics) {
    ++left_out_;
    left_out_error_ = left_out_error_ || severity == Severity::kError;
    return;
  }
  diagnostics_.push_back({severity, judge, file_, at.line, at.column, std::string(path), std::move(message)});
}

std::vector<Diagnostic> Findings::Take() {
  auto order = [](const Diagnostic& d) { return std::tie(d.line, d.column, d.path, d.message); };
  std::stable_sort(diagnostics_.begin(), diagnostics_.end(),
                   [&](const Diagnostic& a, const Diagnostic& b) { return order(a) < order(b); });
  diagnostics_.erase(std::unique(diagnostics_.begin(), diagnostics_.end(),
                                 [&](const Diagnostic& a, const Diagnostic& b) { return order(a) == order(b); }),
                     diagnostics_.end());
  if (left_out_ > 0) {
    diagnostics_.push_back({left_out_error_ ? Severity::kError : Severity::kNote, Judge::kCode, file_, 0, 0, "",
                            StrCat(left_out_, " more findings are left out: correct the first ones and try again")});
  }
  return std::exchange(diagnostics_, {});
}

}  // namespace millstream::spec
