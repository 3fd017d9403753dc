#ifndef MILLSTREAM_OPERATOR_RUNTIME_OBJECT_CACHE_H_
#define MILLSTREAM_OPERATOR_RUNTIME_OBJECT_CACHE_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "operator/kube/client.h"

namespace millstream::runtime {

// Never changed once it is in a cache; whoever holds one keeps it.
using ObjectRef = std::shared_ptr<const kube::Json>;

// The objects of one resource as far as this process knows: a list, then the events of watches on top, and what its own
// writes were answered. Thread-safe.
class ObjectCache {
 public:
  // Something happened to the object: `before` null: it is new, `after` null: it is gone. Called by the thread that
  // brought the news, outside the lock; must not wait.
  using Handler = std::function<void(const ObjectRef& before, const ObjectRef& after)>;
  // `slim` (may be none) takes out of an object what nobody reads, before it is kept: managedFields, above all.
  using Slim = std::function<void(kube::Json* object)>;
  explicit ObjectCache(Handler handler = nullptr, Slim slim = nullptr);

  // The first list is in: from then on absence means absence. Before, nothing may be concluded from this cache.
  bool synced() const;
  std::string resource_version() const;  // where the next watch begins
  size_t size() const;
  ObjectRef Get(const kube::ObjectKey& key) const;  // null: not there
  std::vector<ObjectRef> InNamespace(const std::string& name_space) const;
  std::vector<ObjectRef> All() const;
  // Those whose controlling owner has that uid.
  std::vector<ObjectRef> OwnedBy(const std::string& uid) const;

  // A whole list: what is not in it is gone, unless an own write after the list made it. One that is older than what is
  // known (etcd was restored from a backup) counts all the same, and then entirely.
  void Replace(kube::ObjectList list);
  void Take(kube::WatchEvent event);
  // What a write of our own was answered: what is read next is not older than it. Ignored where the watch knows more.
  void Learn(kube::Json object);

 private:
  struct Change {
    ObjectRef before, after;
  };
  // `force`: also where what is there seems to be newer.
  void Put(const kube::ObjectKey& key, ObjectRef object, bool force, std::vector<Change>* changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const kube::ObjectKey& key, std::vector<Change>* changes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ObjectRef Keep(kube::Json object) const;
  void Tell(const std::vector<Change>& changes) const;

  const Handler handler_;
  const Slim slim_;
  mutable absl::Mutex mutex_;
  bool synced_ ABSL_GUARDED_BY(mutex_) = false;
  std::string resource_version_ ABSL_GUARDED_BY(mutex_);
  std::map<kube::ObjectKey, ObjectRef> objects_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::map<kube::ObjectKey, ObjectRef>> by_owner_ ABSL_GUARDED_BY(mutex_);
};

// Whether version `a` is known to be before `b`. Versions of one resource are decimal numbers that grow (promised from
// Kubernetes 1.35 on, KEP-5504, and true of etcd before); of anything else nothing is known.
bool IsOlder(const std::string& a, const std::string& b);

// Takes managedFields and kubectl's last-applied-configuration out of an object.
void DropManagedFields(kube::Json* object);

}  // namespace millstream::runtime

#endif  // MILLSTREAM_OPERATOR_RUNTIME_OBJECT_CACHE_H_
