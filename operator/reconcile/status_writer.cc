#include "operator/reconcile/status_writer.h"

#include <optional>
#include <utility>

#include "common/base/status.h"
#include "operator/model/status.h"

namespace millstream::reconcile {

absl::Status WriteStatusIfNews(const Surroundings& around, const StatusInput& input, ProcessorMemory* memory,
                               Json* after) {
  *after = StatusOf(input);
  memory->conditions.clear();
  for (const Json& condition : after->at("conditions")) {
    memory->conditions[condition.at("type")] = condition.at("status");
  }
  const Json before = input.processor.value("status", Json::object());
  const absl::Duration now = around.clock->Monotonic();
  std::optional<Json> written = model::StatusToWrite(before, *after, now - memory->status_written);
  if (!written) return absl::OkStatus();
  Json object = input.processor;
  object["status"] = *std::move(written);
  absl::StatusOr<Json> answer = around.client->ReplaceStatus(kube::kStreamProcessors, object);
  // It went while we looked at it.
  if (absl::IsNotFound(answer.status())) return absl::OkStatus();
  MS_RETURN_IF_ERROR(answer.status());
  memory->status_written = now;
  around.world->Learn(kube::kStreamProcessors, *std::move(answer));
  return absl::OkStatus();
}

}  // namespace millstream::reconcile
