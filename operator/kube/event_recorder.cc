#include "operator/kube/event_recorder.h"

#include "common/base/log_line.h"
#include "common/base/strings.h"
#include "operator/kube/api_error.h"
#include "operator/kube/lease.h"

namespace millstream::kube {
namespace {
constexpr size_t kMaxNamePart = 200;  // of 253, the rest is the number
}  // namespace

EventRecorder::EventRecorder(Client* client, const Clock* clock, std::string controller, std::string instance)
    : client_(client), clock_(clock), controller_(std::move(controller)), instance_(std::move(instance)) {}

void EventRecorder::Record(const Json& regarding, const EventText& text) {
  if (!IsNews(UidOf(regarding), text)) return;
  const absl::Status written = client_->Create(kEvents, MakeEvent(regarding, text)).status();
  if (written.ok() || IsNamespaceTerminating(written)) return;
  LogWarning("an event could not be written", {{"object", KeyOf(regarding).Text()},
                                               {"reason", text.reason},
                                               {"note", text.note},
                                               {"error", std::string(written.message())}});
}

void EventRecorder::Forget(const std::string& uid) {
  absl::MutexLock lock(&mutex_);
  const auto begin = said_.lower_bound({uid, ""});
  auto end = begin;
  while (end != said_.end() && end->first.first == uid) ++end;
  said_.erase(begin, end);
}

bool EventRecorder::IsNews(const std::string& uid, const EventText& text) {
  absl::MutexLock lock(&mutex_);
  if (said_.size() >= kMaxRemembered) said_.clear();
  std::string& last = said_[{uid, text.reason}];
  if (last == text.note && !last.empty()) return false;
  last = text.note;
  return true;
}

Json EventRecorder::MakeEvent(const Json& regarding, const EventText& text) {
  const ObjectKey key = KeyOf(regarding);
  const absl::Time now = clock_->WallTime();
  int64_t number = 0;
  {
    absl::MutexLock lock(&mutex_);
    number = ++number_;
  }
  // As client-go names them: time makes them unique, the number those of one moment.
  const std::string name = StrCat(CutText(key.name, kMaxNamePart), ".",
                                  absl::Hex(static_cast<uint64_t>(absl::ToUnixNanos(now))), ".", number);
  return {{"apiVersion", kEvents.ApiVersion()},
          {"kind", std::string(kEvents.kind)},
          {"metadata", {{"name", name}, {"namespace", key.name_space.empty() ? "default" : key.name_space}}},
          {"eventTime", FormatMicroTime(now)},
          {"type", text.warning ? "Warning" : "Normal"},
          {"reason", text.reason},
          {"action", text.action},
          {"note", CutText(text.note, kMaxNoteBytes)},
          {"reportingController", controller_},
          {"reportingInstance", instance_},
          {"regarding",
           {{"apiVersion", TextAt(regarding, {"apiVersion"})},
            {"kind", TextAt(regarding, {"kind"})},
            {"namespace", key.name_space},
            {"name", key.name},
            {"uid", UidOf(regarding)},
            {"resourceVersion", ResourceVersionOf(regarding)}}}};
}

std::string CutText(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  size_t end = bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end));
}

}  // namespace millstream::kube
