#include "common/base/status.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/cord.h"
#include "common/base/strings.h"

namespace millstream {
namespace {

constexpr absl::string_view kRecoveryUrl = "millstream.dev/recovery";
constexpr absl::string_view kOutcomeUrl = "millstream.dev/unknown-outcome";

}  // namespace

absl::Status WithRecovery(absl::Status status, Recovery recovery) {
  if (!status.ok()) status.SetPayload(kRecoveryUrl, absl::Cord(std::to_string(static_cast<int>(recovery))));
  return status;
}

Recovery RecoveryOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRecoveryUrl);
  if (!payload) return Recovery::kNone;
  return static_cast<Recovery>(std::atoi(std::string(*payload).c_str()));
}

absl::Status WithUnknownOutcome(absl::Status status) {
  if (!status.ok()) status.SetPayload(kOutcomeUrl, absl::Cord("1"));
  return WithRecovery(std::move(status), Recovery::kRecreate);
}

bool IsOutcomeUnknown(const absl::Status& status) { return status.GetPayload(kOutcomeUrl).has_value(); }

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), StrCat(context, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { annotated.SetPayload(url, payload); });
  return annotated;
}

namespace internal {

void CheckFailed(const char* file, int line, const char* condition, std::string_view detail) {
  std::fprintf(stderr, "%s:%d: check failed: %s %.*s\n", file, line, condition, static_cast<int>(detail.size()),
               detail.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace internal
}  // namespace millstream
