#include "sidecar/engine/result_check.h"

#include <algorithm>

#include "common/base/bytes.h"
#include "common/base/strings.h"
#include "sidecar/engine/welcome.h"
#include "sidecar/engine/windows.h"
#include "sidecar/protocol/error_codes.h"

namespace millstream::engine {

std::optional<ProtocolFault> CheckStore(const EngineOptions& options, uint32_t store) {
  if (store < options.spec.ids()) return std::nullopt;
  return ProtocolFault{protocol::kUnknownStore, StrCat("id ", store, " is beyond the ", options.spec.ids(),
                                                       " stores, joins and lookups of WELCOME")};
}

std::optional<ProtocolFault> CheckOps(const EngineOptions& options, const protocol::StateOps& ops) {
  for (const auto& of_store : ops) {
    if (auto fault = CheckStore(options, of_store.first)) return fault;
    if (of_store.first >= options.spec.ManifestStores()) {
      return ProtocolFault{protocol::kBadFrame,
                           StrCat("a write to '", options.spec.ReadableName(options.spec.ReadableOf(of_store.first)),
                                  "', which is a join or lookup: they are read-only")};
    }
    const spec::StoreSpec& store = options.spec.stores[of_store.first];
    if (store.type == spec::StoreType::kKeyValue) continue;
    for (const protocol::StateOp& op : of_store.second) {
      if (ParseRowKey(store, op.key)) continue;
      return ProtocolFault{protocol::kBadFrame, StrCat("'", Readable(op.key), "' is no row of store '", store.name,
                                                       "': a key and the start of one of its windows (of a session "
                                                       "start and end), 8 bytes each")};
    }
  }
  return std::nullopt;
}

namespace {

std::optional<ProtocolFault> CheckEffects(const EngineOptions& options, const protocol::Result& result) {
  if (auto fault = CheckOps(options, result.ops)) return fault;
  if (!result.timers.empty() && !options.spec.timers) {
    return ProtocolFault{protocol::kBadFrame, StrCat("RESULT of batch ", result.seq,
                                                     " sets timers, which the processor has not: add timers: {} under "
                                                     "spec")};
  }
  for (const protocol::VisitOp& visit : result.visits) {
    if (visit.visit < options.spec.visits.size()) continue;
    return ProtocolFault{protocol::kBadFrame, StrCat("RESULT of batch ", result.seq, " names visit ", visit.visit,
                                                     ", beyond the ", options.spec.visits.size(), " of WELCOME")};
  }
  for (const protocol::OutputRecord& output : result.outputs) {
    if (output.output < options.spec.outputs.size()) continue;
    return ProtocolFault{protocol::kUnknownOutput, StrCat("output id ", output.output, " is beyond the ",
                                                          options.spec.outputs.size(), " of WELCOME")};
  }
  return std::nullopt;
}

// Windows, timers and visits belong to a record's time, and hooks have none.
std::optional<ProtocolFault> CheckHookEffects(const EngineOptions& options, const protocol::Result& result) {
  if (auto fault = CheckEffects(options, result)) return fault;
  const bool windows = std::any_of(result.ops.begin(), result.ops.end(), [&](const auto& of_store) {
    return !of_store.second.empty() && options.spec.stores[of_store.first].type != spec::StoreType::kKeyValue;
  });
  if (!windows && result.timers.empty() && result.visits.empty()) return std::nullopt;
  const char* does = windows ? "writes to windows" : result.timers.empty() ? "starts or stops visits" : "sets timers";
  return ProtocolFault{protocol::kBadFrame,
                       StrCat("RESULT of hook ", result.seq, " ", does, ", which only the handling of a record can")};
}

}  // namespace

std::optional<ProtocolFault> CheckFrame(const EngineOptions& options, const Batch& batch,
                                        const protocol::Result& result) {
  const size_t items = batch.FrameItems();
  const bool hook = batch.hook != Batch::Hook::kNone;
  if (hook && result.done == 0) return CheckHookEffects(options, result);
  if (result.done > items || (result.failure && result.done >= items)) {
    return ProtocolFault{protocol::kBadFrame, StrCat("RESULT of batch ", result.seq, " speaks of item ", result.done,
                                                     ", the batch has ", items)};
  }
  const bool writes =
      std::any_of(result.ops.begin(), result.ops.end(), [](const auto& of_store) { return !of_store.second.empty(); });
  const bool effects = writes || !result.outputs.empty() || !result.timers.empty() || !result.visits.empty();
  if (result.done == 0 && effects) {
    return ProtocolFault{protocol::kBadFrame,
                         StrCat("RESULT of batch ", result.seq,
                                " has effects of no item: they must be dropped with the item that failed")};
  }
  return CheckEffects(options, result);
}

absl::Status CheckLimits(const EngineOptions& options, const OutputRouter& router, const Batch& batch,
                         const protocol::Result& result, int64_t wall_ms) {
  for (const auto& [store, ops] : result.ops) {
    const int64_t most = StoreMaxBytes(options, store);
    for (const protocol::StateOp& op : ops) {
      const int64_t size = static_cast<int64_t>(op.key.size() + (op.value ? op.value->size() : 0));
      if (size <= most) continue;
      return absl::InvalidArgumentError(StrCat("key and value of ", size, " bytes for key '", Readable(op.key),
                                               "' of store '", options.spec.stores[store].name,
                                               "', which takes at most ", most));
    }
  }
  for (const protocol::TimerOp& timer : result.timers) {
    if (!timer.time_ms || (*timer.time_ms >= options.min_timestamp_ms && *timer.time_ms <= options.max_timestamp_ms)) {
      continue;
    }
    return absl::InvalidArgumentError(StrCat("time ", *timer.time_ms, " ms of timer '", Readable(timer.name),
                                             "' is not within ", options.min_timestamp_ms, " and ",
                                             options.max_timestamp_ms));
  }
  const auto of_item = [&batch](int64_t time) {
    return std::any_of(batch.items.begin(), batch.items.end(),
                       [time](const Item& item) { return item.record.timestamp_ms == time; });
  };
  for (const protocol::OutputRecord& output : result.outputs) {
    absl::Status fits = router.Check(output, wall_ms, of_item);
    if (!fits.ok()) return fits;
  }
  return absl::OkStatus();
}

}  // namespace millstream::engine
