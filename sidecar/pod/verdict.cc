#include "sidecar/pod/verdict.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "common/base/strings.h"
#include "nlohmann/json.hpp"

namespace millstream::pod {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxMessageBytes = 2000;
constexpr size_t kMaxHeadBytes = 3000;  // with reason and message: some room for the lists
constexpr size_t kMaxItemBytes = 400;

std::string Cut(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + "...";
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string ToJson(const Verdict& verdict) {
  Json json = {{"ok", verdict.ok},
               {"reason", verdict.reason},
               {"message", Cut(verdict.message, kMaxMessageBytes)},
               {"retry", verdict.retry}};
  // Escapes may make it longer than it is.
  for (size_t most = kMaxMessageBytes; Dump(json).size() > kMaxHeadBytes; most /= 2)
    json["message"] = Cut(verdict.message, most);
  if (verdict.tasks > 0) json["tasks"] = verdict.tasks;
  size_t left_out = 0;
  for (const auto& [name, items] : {std::pair("warnings", &verdict.warnings), std::pair("created", &verdict.created),
                                    std::pair("deleted", &verdict.deleted)}) {
    if (items->empty()) continue;
    json[name] = Json::array();
    for (const std::string& item : *items) {
      json[name].push_back(Cut(item, kMaxItemBytes));
      if (Dump(json).size() <= kMaxVerdictBytes - 32) continue;  // room for "leftOut"
      json[name].erase(json[name].size() - 1);
      ++left_out;
    }
  }
  if (left_out > 0) json["leftOut"] = left_out;
  return Dump(json);
}

int ExitCodeOf(const Verdict& verdict) { return verdict.ok ? 0 : verdict.retry ? 3 : 1; }

absl::Status WriteTerminationMessage(const std::string& path, const std::string& message) {
  if (path.empty()) return absl::OkStatus();
  // The kubelet makes it; outside of a pod there is none.
  const bool of_kubelet = path == kTerminationLog;
  const int file = open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | (of_kubelet ? 0 : O_CREAT), 0644);
  if (file < 0) {
    if (of_kubelet && (errno == ENOENT || errno == EACCES)) return absl::OkStatus();
    return absl::UnavailableError(StrCat(path, ": ", std::strerror(errno)));
  }
  absl::Cleanup close_file = [file] { close(file); };
  for (size_t written = 0; written < message.size();) {
    const ssize_t more = write(file, message.data() + written, message.size() - written);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return absl::UnavailableError(StrCat(path, ": ", std::strerror(errno)));
    written += static_cast<size_t>(more);
  }
  return absl::OkStatus();
}

}  // namespace millstream::pod
