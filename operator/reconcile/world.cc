#include "operator/reconcile/world.h"

#include <algorithm>
#include <utility>

#include "common/base/strings.h"

namespace millstream::reconcile {
namespace {

// Of everything a processor consists of (model::SelectorOf), so that nobody else's objects are ever in memory.
constexpr char kOurs[] = "app.kubernetes.io/name=streamprocessor";
// So seldom is asked again for a kind that the cluster does not know: its definition may be installed later.
constexpr absl::Duration kOptionalDelay = absl::Minutes(1);

constexpr kube::Resource kWatched[] = {kube::kStreamProcessors,
                                       kube::kStatefulSets,
                                       kube::kPods,
                                       kube::kJobs,
                                       kube::kConfigMaps,
                                       kube::kServices,
                                       kube::kServiceAccounts,
                                       kube::kPodDisruptionBudgets,
                                       kube::kNetworkPolicies,
                                       kube::kPersistentVolumeClaims,
                                       kube::kPodMonitors};

bool Same(const kube::Resource& a, const kube::Resource& b) { return a.plural == b.plural && a.group == b.group; }

bool CannotBeRead(const absl::Status& status) { return absl::IsNotFound(status) || absl::IsPermissionDenied(status); }

std::string WhyNotSynced(const kube::Resource& resource, const std::string& name_space, const absl::Status& error) {
  const std::string where = name_space.empty() ? "" : StrCat(" in namespace ", name_space);
  if (error.ok()) return StrCat(resource.Name(), where, ": the first list is under way");
  if (absl::IsNotFound(error) && Same(resource, kube::kStreamProcessors)) {
    return "the definition streamprocessors.millstream.dev is not installed: kubectl apply --server-side -f "
           "crds/streamprocessors.yaml (the chart does it with crds.install=true)";
  }
  if (absl::IsNotFound(error)) return StrCat(resource.Name(), where, ": this API server does not know them");
  return StrCat(resource.Name(), where, ": ", std::string(error.message()));
}

}  // namespace

World::World(WorldOptions options, kube::Client* client, const Clock* clock, WorldNews news)
    : options_(std::move(options)), news_(std::move(news)) {
  std::vector<std::string> namespaces = options_.namespaces;
  if (namespaces.empty()) namespaces.push_back("");
  for (const std::string& name_space : namespaces) {
    for (const kube::Resource& resource : kWatched) {
      if (Same(resource, kube::kPodMonitors) && !options_.pod_monitors) continue;
      Watch(resource, name_space, client, clock);
    }
  }
}

void World::Watch(const kube::Resource& resource, const std::string& name_space, kube::Client* client,
                  const Clock* clock) {
  Watched watched{resource, name_space, Same(resource, kube::kPodMonitors), nullptr, nullptr};
  watched.cache = std::make_unique<runtime::ObjectCache>(HandlerFor(resource),
                                                         [resource](Json* object) { Pack(resource, object); });
  kube::Selection selection;
  selection.name_space = name_space;
  if (!Same(resource, kube::kStreamProcessors)) selection.label_selector = kOurs;
  watched.reflector = std::make_unique<runtime::Reflector>(resource, std::move(selection), client, watched.cache.get(),
                                                           clock, options_.seed + watched_.size());
  watched_.push_back(std::move(watched));
}

runtime::ObjectCache::Handler World::HandlerFor(const kube::Resource& resource) const {
  if (Same(resource, kube::kStreamProcessors)) {
    return [this](const runtime::ObjectRef& before, const runtime::ObjectRef& after) {
      news_.processor(before == nullptr ? Json() : Unpack(*before), after == nullptr ? Json() : Unpack(*after));
    };
  }
  return [this](const runtime::ObjectRef& before, const runtime::ObjectRef& after) {
    for (const runtime::ObjectRef& object : {before, after}) {
      if (object == nullptr) continue;
      const std::string processor = ProcessorNameOf(*object);
      if (!processor.empty()) news_.child({kube::KeyOf(*object).name_space, processor});
    }
  };
}

absl::Duration World::Step(size_t reflector, const http::Interruption& interruption) {
  const Watched& watched = watched_[reflector];
  const absl::Duration delay = watched.reflector->Step(interruption);
  if (!watched.optional || !CannotBeRead(watched.reflector->last_error())) return delay;
  return std::max(delay, kOptionalDelay);
}

absl::Status World::synced() const {
  for (const Watched& watched : watched_) {
    if (watched.cache->synced()) continue;
    const absl::Status error = watched.reflector->last_error();
    // One look is enough to know that they are not there.
    if (watched.optional && CannotBeRead(error)) continue;
    return absl::UnavailableError(WhyNotSynced(watched.resource, watched.name_space, error));
  }
  return absl::OkStatus();
}

const World::Watched* World::Find(const kube::Resource& resource, const std::string& name_space) const {
  for (const Watched& watched : watched_) {
    if (!Same(watched.resource, resource)) continue;
    if (watched.name_space.empty() || watched.name_space == name_space) return &watched;
  }
  return nullptr;
}

bool World::Knows(const kube::Resource& resource, const std::string& name_space) const {
  const Watched* watched = Find(resource, name_space);
  return watched != nullptr && watched->cache->synced();
}

Json World::Get(const kube::Resource& resource, const kube::ObjectKey& key) const {
  const Watched* watched = Find(resource, key.name_space);
  if (watched == nullptr) return Json();
  const runtime::ObjectRef found = watched->cache->Get(key);
  return found == nullptr ? Json() : Unpack(*found);
}

std::string World::VersionOf(const kube::Resource& resource, const kube::ObjectKey& key) const {
  const Watched* watched = Find(resource, key.name_space);
  if (watched == nullptr) return "";
  const runtime::ObjectRef found = watched->cache->Get(key);
  return found == nullptr ? "" : kube::ResourceVersionOf(*found);
}

std::vector<Json> World::Of(const kube::Resource& resource, const kube::ObjectKey& processor,
                            const std::function<bool(const Json& packed)>& wanted) const {
  std::vector<Json> found;
  const Watched* watched = Find(resource, processor.name_space);
  if (watched == nullptr) return found;
  for (const runtime::ObjectRef& object : watched->cache->InNamespace(processor.name_space)) {
    if (ProcessorNameOf(*object) == processor.name && wanted(*object)) found.push_back(Unpack(*object));
  }
  return found;
}

std::vector<kube::ObjectKey> World::Processors() const {
  std::vector<kube::ObjectKey> keys;
  for (const Watched& watched : watched_) {
    if (!Same(watched.resource, kube::kStreamProcessors)) continue;
    for (const runtime::ObjectRef& object : watched.cache->All()) keys.push_back(kube::KeyOf(*object));
  }
  return keys;
}

void World::Learn(const kube::Resource& resource, Json object) {
  const Watched* watched = Find(resource, kube::KeyOf(object).name_space);
  if (watched != nullptr) watched->cache->Learn(std::move(object));
}

kube::ObjectKey KeyFromText(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return {"", text};
  return {text.substr(0, slash), text.substr(slash + 1)};
}

}  // namespace millstream::reconcile
