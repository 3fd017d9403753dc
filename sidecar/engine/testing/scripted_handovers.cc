#include "sidecar/engine/testing/scripted_handovers.h"

#include <algorithm>
#include <variant>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/testing/scripted_handler.h"
#include "sidecar/engine/testing/scripted_time.h"
#include "sidecar/engine/testing/scripted_visits.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/frame.h"

namespace millstream::engine::testing {

std::string DueOutput(const protocol::Batch& batch, const protocol::RecordItem& item) {
  const std::string key =
      item.key_index >= 0 ? std::string(batch.keys.at(static_cast<size_t>(item.key_index))) : std::string();
  switch (item.type) {
    case protocol::RecordItem::Type::kVisit:
      return item.key_index >= 0 ? VisitedOutput(item.value.value(), key) : VisitEndOutput(item.value.value());
    case protocol::RecordItem::Type::kTimer:
      return TimerOutput(key, item.name, item.timestamp_ms);
    default:
      return ClosingOutput(key, item.closing.start_ms, item.closing.value.value);
  }
}

std::string RecordName(int64_t id) { return StrCat("record ", id); }

void Handovers::Sent(const std::string& process, WorkerId worker, std::string_view frame) {
  const absl::StatusOr<protocol::SidecarMessage> message =
      protocol::DecodeSidecarMessage(frame.substr(protocol::kFrameHeaderBytes));
  MS_CHECK_OK(message);
  auto& out = out_[{process, worker}];
  if (const auto* cancel = std::get_if<protocol::Cancel>(&*message)) {
    Lose(out[cancel->seq]);
    out.erase(cancel->seq);
  }
  const auto* batch = std::get_if<protocol::Batch>(&*message);
  if (batch == nullptr) return;
  std::vector<std::string>& names = out[batch->seq];
  for (const protocol::RecordItem& item : batch->items) {
    names.push_back(item.type == protocol::RecordItem::Type::kRecord ? RecordName(Input::Decode(item.value.value()).id)
                                                                     : DueOutput(*batch, item));
  }
}

void Handovers::Answered(const std::string& process, WorkerId worker, const protocol::Result& result) {
  const auto of = out_.find({process, worker});
  if (of == out_.end()) return;
  const auto batch = of->second.find(result.seq);
  if (batch == of->second.end()) return;
  const bool over = std::any_of(result.outputs.begin(), result.outputs.end(),
                                [](const auto& output) { return output.value && output.value->size() >= kTooLarge; });
  if (over) Lose(batch->second);
  of->second.erase(batch);
}

void Handovers::WorkerGone(const std::string& process, WorkerId worker) {
  const auto of = out_.find({process, worker});
  if (of == out_.end()) return;
  for (const auto& [seq, names] : of->second) Lose(names);
  out_.erase(of);
}

void Handovers::ProcessGone(const std::string& process) {
  std::erase_if(out_, [&](const auto& of) { return of.first.first == process; });
}

}  // namespace millstream::engine::testing
