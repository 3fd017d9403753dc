#include "sidecar/engine/testing/scripted_visits.h"

#include "common/base/strings.h"

namespace millstream::engine::testing {

bool StartsVisit(int64_t id) { return id % 17 == 3; }

std::string VisitedOutput(std::string_view data, std::string_view key) { return StrCat("v|", data, "|", key); }
std::string VisitEndOutput(std::string_view data) { return StrCat("v|", data, "."); }
bool IsVisitOutput(std::string_view output) { return output.starts_with("v|"); }

void VisitModel::Handled(const std::optional<std::string>& key, int64_t id, const std::map<Bytes, Bytes>& rows) {
  std::erase_if(must_, [&](const Bytes& row) { return !rows.contains(row); });
  if (!key || !StartsVisit(id)) return;
  last_ = StrCat(id);
  allowed_.insert(last_);
  must_.clear();
  for (const auto& [row, value] : rows) must_.insert(row);
}

std::string VisitModel::Check(const std::map<std::string, int>& came, bool once,
                              const std::function<bool(const std::string&)>& may_be_lost) const {
  for (const auto& [output, times] : came) {
    const std::string data = output.substr(2, output.find_first_of("|.", 2) - 2);
    if (!allowed_.contains(data)) return StrCat(output, ": no record started that visit");
    if (times > 1 && once) return StrCat(output, " came ", times, " times");
  }
  if (last_.empty()) return "";
  const auto missing = [&](const std::string& output) { return !came.contains(output) && !may_be_lost(output); };
  if (missing(VisitEndOutput(last_))) return StrCat("visit ", last_, " has no end");
  for (const Bytes& row : must_) {
    if (missing(VisitedOutput(last_, row))) return StrCat("visit ", last_, " passed over ", row);
  }
  return "";
}

}  // namespace millstream::engine::testing
