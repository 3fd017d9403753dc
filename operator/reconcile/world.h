#ifndef MILLSTREAM_OPERATOR_RECONCILE_WORLD_H_
#define MILLSTREAM_OPERATOR_RECONCILE_WORLD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/http/interruption.h"
#include "operator/kube/client.h"
#include "operator/reconcile/packed.h"
#include "operator/runtime/object_cache.h"
#include "operator/runtime/reflector.h"

namespace millstream::reconcile {

struct WorldOptions {
  std::vector<std::string> namespaces;  // empty: the whole cluster
  // Whether there are PodMonitors to look after. That their definition is missing is no obstacle; without the option
  // nobody looks for them, for want of the right to (those of a former configuration go with their processor).
  bool pod_monitors = false;
  uint64_t seed = 0;
};

// Who wants to know what changed. Called by any thread; must not wait.
struct WorldNews {
  // Whole objects; null: there was none, there is none any more.
  std::function<void(const Json& before, const Json& after)> processor;
  // Something about a child, pod or claim of the processor of that key.
  std::function<void(const kube::ObjectKey& processor)> child;
};

// The processors of the namespaces in our care and everything that is theirs, as caches know it, and what keeps these
// as the API server is. Thread-safe; each reflector is stepped by one thread at a time. `client` and `clock` outlive
// it.
class World {
 public:
  World(WorldOptions options, kube::Client* client, const Clock* clock, WorldNews news);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  size_t reflectors() const { return watched_.size(); }
  // One list or watch of that reflector; how long to wait before the next.
  absl::Duration Step(size_t reflector, const http::Interruption& interruption);
  // OK: from now on absence means absence. Else what is missing, why, and what to do.
  absl::Status synced() const;

  // Null: not there, as far as is known.
  Json Get(const kube::Resource& resource, const kube::ObjectKey& key) const;
  // Its resourceVersion, which costs nothing; empty: not there, as far as is known.
  std::string VersionOf(const kube::Resource& resource, const kube::ObjectKey& key) const;
  // Everything of that kind with the labels of a processor, whoever owns it: children, pods, claims. By name.
  std::vector<Json> Of(const kube::Resource& resource, const kube::ObjectKey& processor) const {
    return Of(resource, processor, [](const Json&) { return true; });
  }
  // Those of which `wanted` says so, by their names, uid, owner and version alone.
  std::vector<Json> Of(const kube::Resource& resource, const kube::ObjectKey& processor,
                       const std::function<bool(const Json& packed)>& wanted) const;
  std::vector<kube::ObjectKey> Processors() const;
  // What a write of our own was answered.
  void Learn(const kube::Resource& resource, Json object);
  // Whether that kind can be read: PodMonitors exist only where their definition does.
  bool Knows(const kube::Resource& resource, const std::string& name_space) const;

 private:
  struct Watched {
    kube::Resource resource;
    std::string name_space;  // empty: all
    bool optional = false;
    std::unique_ptr<runtime::ObjectCache> cache;
    std::unique_ptr<runtime::Reflector> reflector;
  };
  void Watch(const kube::Resource& resource, const std::string& name_space, kube::Client* client, const Clock* clock);
  runtime::ObjectCache::Handler HandlerFor(const kube::Resource& resource) const;
  const Watched* Find(const kube::Resource& resource, const std::string& name_space) const;

  const WorldOptions options_;
  const WorldNews news_;
  std::vector<Watched> watched_;
};

// "namespace/name", as work queues know processors, and back.
kube::ObjectKey KeyFromText(const std::string& text);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_WORLD_H_
