#include "sidecar/engine/welcome.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/strings.h"

namespace millstream::engine {
namespace {

std::string Listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) StrAppend(&out, out.empty() ? "" : ", ", "'", name, "'");
  return out.empty() ? "none" : out;
}

absl::Status CheckInputs(const spec::StreamProcessorSpec& spec, const std::vector<std::string>& handled) {
  std::vector<std::string> declared;
  for (const spec::InputSpec& input : spec.inputs) declared.push_back(input.name);
  for (const std::string& name : handled) {
    if (spec.FindInput(name) == nullptr) {
      return absl::InvalidArgumentError(StrCat("the worker has a handler for '", name,
                                               "', which is not an input of processor ", spec.name,
                                               "; its inputs are: ", Listed(declared)));
    }
  }
  for (const std::string& name : declared) {
    if (std::find(handled.begin(), handled.end(), name) == handled.end()) {
      return absl::InvalidArgumentError(StrCat("the worker has no handler for input '", name, "' of processor ",
                                               spec.name, "; it handles: ", Listed(handled)));
    }
  }
  return absl::OkStatus();
}

bool Names(const std::vector<std::string>& capabilities, std::string_view capability) {
  return std::find(capabilities.begin(), capabilities.end(), capability) != capabilities.end();
}

// A row of a visit is an item that older workers do not know.
absl::Status CheckVisits(const spec::StreamProcessorSpec& spec, const protocol::Hello& hello) {
  if (spec.visits.empty() || Names(hello.capabilities, protocol::kVisitsCapability)) return absl::OkStatus();
  std::vector<std::string> names;
  for (const spec::VisitSpec& visit : spec.visits) names.push_back(visit.name);
  return absl::InvalidArgumentError(StrCat("processor ", spec.name, " has visits (", Listed(names),
                                           ") and the worker has no handler for them: add one for each, or take "
                                           "spec.visits out; an SDK that cannot does not know visits yet"));
}

int64_t MillisOf(absl::Duration duration) { return absl::ToInt64Milliseconds(duration); }

int64_t At(const std::vector<int64_t>& values, size_t index) {
  return index < values.size() ? values[index] : kDefaultRecordBytes;
}

}  // namespace

int64_t OutputMaxBytes(const EngineOptions& options, size_t output) { return At(options.output_max_bytes, output); }
int64_t StoreMaxBytes(const EngineOptions& options, size_t store) { return At(options.store_max_bytes, store); }

absl::StatusOr<protocol::Welcome> WelcomeFor(const EngineOptions& options, const protocol::Hello& hello) {
  const spec::StreamProcessorSpec& spec = options.spec;
  if (hello.inputs) {
    absl::Status fits = CheckInputs(spec, *hello.inputs);
    if (!fits.ok()) return fits;
  }
  if (absl::Status fits = CheckVisits(spec, hello); !fits.ok()) return fits;
  if (spec.external_store && !Names(hello.capabilities, protocol::kExternalStoreCapability)) {
    return absl::InvalidArgumentError(
        StrCat("processor ", spec.name, " keeps its state in a database of the worker's (externalStore), and the ",
               "worker has none: give the program one (docs/guides/external-store.md tells which SDKs can), or leave ",
               "externalStore out"));
  }
  const auto given = std::find_if(spec.stores.begin(), spec.stores.end(),
                                  [](const spec::StoreSpec& store) { return store.session && store.session->final; });
  if (given != spec.stores.end() && !Names(hello.capabilities, protocol::kSessionClosingsCapability)) {
    return absl::InvalidArgumentError(
        StrCat("store ", given->name, " gives its sessions when they close (emit: Final), and the worker's SDK cannot ",
               "take them: use a later one, or leave emit out"));
  }
  protocol::Welcome welcome;
  welcome.processor = spec.name;
  for (const spec::InputSpec& input : spec.inputs) welcome.inputs.push_back({input.name, input.topic});
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    welcome.outputs.push_back({spec.outputs[i].name, spec.outputs[i].topic, OutputMaxBytes(options, i)});
  }
  for (size_t i = 0; i < spec.ManifestStores(); ++i) {
    const spec::StoreSpec& store = spec.stores[i];
    const bool prefetched = std::any_of(spec.inputs.begin(), spec.inputs.end(), [&](const spec::InputSpec& input) {
      return std::find(input.prefetch.begin(), input.prefetch.end(), store.name) != input.prefetch.end();
    });
    protocol::StoreInfo& info = welcome.stores.emplace_back();
    info.name = store.name;
    info.type = std::string(spec::ToString(store.type));
    info.prefetched = prefetched || store.type != spec::StoreType::kKeyValue;
    info.max_value_bytes = StoreMaxBytes(options, i);
    if (store.window) {
      info.window = {MillisOf(store.window->size), MillisOf(store.window->advance), MillisOf(store.window->grace),
                     MillisOf(store.window->retention), store.window->final};
    }
    if (store.session)
      info.session = {MillisOf(store.session->gap), MillisOf(store.session->grace), MillisOf(store.session->retention),
                      store.session->final};
  }
  welcome.timers = spec.timers;
  for (const spec::VisitSpec& visit : spec.visits)
    welcome.visits.push_back({visit.name, static_cast<uint32_t>(visit.store)});
  for (const spec::TableSpec& join : spec.joins) welcome.joins.push_back({join.name, join.topic});
  for (const spec::TableSpec& lookup : spec.lookups) welcome.lookups.push_back({lookup.name, lookup.topic});
  for (const std::string_view capability :
       {protocol::kBeginCapability, protocol::kFinalizeCapability, protocol::kCommittedCapability}) {
    // With an external store STORE is what closes a transaction.
    const bool used = !spec.external_store || capability == protocol::kCommittedCapability;
    if (used && Names(hello.capabilities, capability)) welcome.capabilities.emplace_back(capability);
  }
  if (spec.external_store) welcome.capabilities.emplace_back(protocol::kExternalStoreCapability);
  if (given != spec.stores.end()) welcome.capabilities.emplace_back(protocol::kSessionClosingsCapability);
  if (!spec.visits.empty()) welcome.capabilities.emplace_back(protocol::kVisitsCapability);
  welcome.deadline_ms = absl::ToInt64Milliseconds(spec.batch.deadline);
  welcome.min_timestamp_ms = options.min_timestamp_ms;
  welcome.max_timestamp_ms = options.max_timestamp_ms;
  return welcome;
}

}  // namespace millstream::engine
