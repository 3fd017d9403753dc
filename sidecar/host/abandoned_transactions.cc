#include "sidecar/host/abandoned_transactions.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace millstream::host {
namespace {

constexpr size_t kMostRemembered = 10'000;

// "<id>/<process start>" of the tag "<id>/<process start>/<number>" in the metadata of an offset; empty if there is
// none.
std::string WriterIn(const std::string& metadata) {
  const nlohmann::json parsed = nlohmann::json::parse(metadata, nullptr, false);
  if (!parsed.is_object()) return "";
  const auto tag = parsed.find("tag");
  if (tag == parsed.end() || !tag->is_string()) return "";
  const std::string text = tag->get<std::string>();
  return text.substr(0, text.rfind('/') == std::string::npos ? 0 : text.rfind('/'));
}

// A process has two writers, "...-a" and "...-b"; others have one.
std::vector<std::string> IdsOf(const std::string& writer) {
  const std::string id = writer.substr(0, writer.rfind('/'));
  if (!id.ends_with("-a") && !id.ends_with("-b")) return {id};
  const std::string stem = id.substr(0, id.size() - 1);
  return {stem + "a", stem + "b"};
}

bool Overlap(const std::vector<std::string>& left, const std::vector<std::string>& right) {
  return std::find_first_of(left.begin(), left.end(), right.begin(), right.end()) != left.end();
}

}  // namespace

bool AbandonedTransactions::End(const std::vector<std::string>& ids, const char* whose) {
  const absl::Duration start = SystemClock().Monotonic();
  const absl::Status ended = foreign_.end(ids);
  const int64_t took = absl::ToInt64Milliseconds(SystemClock().Monotonic() - start);
  if (ended.ok()) {
    LogInfo("no transaction is open any more", {{"of", whose}, {"transactional_id", ids.front()}, {"took_ms", took}});
  } else {
    LogWarning("transactions that may be open could not be ended; they end by their timeout",
               {{"of", whose}, {"error", ended.ToString()}});
  }
  return ended.ok();
}

void AbandonedTransactions::EndOwn() {
  if (foreign_.end && !own_.empty()) (void)End(own_, "an earlier run of this process");
}

absl::Status AbandonedTransactions::EndWritersOf(const std::vector<TopicPartition>& inputs) {
  if (!foreign_.end) return absl::OkStatus();
  const std::optional<std::vector<std::string>> present = present_();
  if (!present.has_value()) return absl::OkStatus();
  MS_ASSIGN_OR_RETURN(const auto committed, foreign_.offsets_now(inputs));
  for (const auto& [of, offset] : committed) {
    const std::string writer = WriterIn(offset.metadata);
    if (writer.empty()) continue;
    const std::vector<std::string> ids = IdsOf(writer);
    if (Overlap(ids, own_) || Overlap(ids, *present)) continue;
    const std::string process = ids.front() + writer.substr(writer.rfind('/'));
    {
      absl::MutexLock lock(&mutex_);
      if (ended_.size() >= kMostRemembered) ended_.clear();
      if (!ended_.insert(process).second) continue;
    }
    if (End(ids, "a process that is gone")) continue;
    absl::MutexLock lock(&mutex_);
    ended_.erase(process);
  }
  return absl::OkStatus();
}

}  // namespace millstream::host
