#include "operator/runtime/object_cache.h"

#include <algorithm>
#include <set>
#include <utility>

namespace millstream::runtime {
namespace {

bool IsNumber(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool IsOlder(const std::string& a, const std::string& b) {
  if (!IsNumber(a) || !IsNumber(b)) return false;
  // Leading zeros do not occur; longer is larger.
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

void DropManagedFields(kube::Json* object) {
  const auto metadata = object->find("metadata");
  if (metadata == object->end() || !metadata->is_object()) return;
  metadata->erase("managedFields");
  const auto annotations = metadata->find("annotations");
  if (annotations == metadata->end() || !annotations->is_object()) return;
  annotations->erase("kubectl.kubernetes.io/last-applied-configuration");
}

ObjectCache::ObjectCache(Handler handler, Slim slim) : handler_(std::move(handler)), slim_(std::move(slim)) {}

bool ObjectCache::synced() const {
  absl::MutexLock lock(&mutex_);
  return synced_;
}

std::string ObjectCache::resource_version() const {
  absl::MutexLock lock(&mutex_);
  return resource_version_;
}

size_t ObjectCache::size() const {
  absl::MutexLock lock(&mutex_);
  return objects_.size();
}

ObjectRef ObjectCache::Get(const kube::ObjectKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = objects_.find(key);
  return found == objects_.end() ? nullptr : found->second;
}

std::vector<ObjectRef> ObjectCache::InNamespace(const std::string& name_space) const {
  absl::MutexLock lock(&mutex_);
  std::vector<ObjectRef> found;
  for (auto at = objects_.lower_bound({name_space, ""}); at != objects_.end() && at->first.name_space == name_space;
       ++at)
    found.push_back(at->second);
  return found;
}

std::vector<ObjectRef> ObjectCache::All() const {
  absl::MutexLock lock(&mutex_);
  std::vector<ObjectRef> found;
  found.reserve(objects_.size());
  for (const auto& [key, object] : objects_) found.push_back(object);
  return found;
}

std::vector<ObjectRef> ObjectCache::OwnedBy(const std::string& uid) const {
  absl::MutexLock lock(&mutex_);
  std::vector<ObjectRef> found;
  const auto owned = by_owner_.find(uid);
  if (owned == by_owner_.end()) return found;
  for (const auto& [key, object] : owned->second) found.push_back(object);
  return found;
}

ObjectRef ObjectCache::Keep(kube::Json object) const {
  if (slim_) slim_(&object);
  return std::make_shared<const kube::Json>(std::move(object));
}

void ObjectCache::Put(const kube::ObjectKey& key, ObjectRef object, bool force, std::vector<Change>* changes) {
  ObjectRef& place = objects_[key];
  if (place != nullptr) {
    const std::string version = kube::ResourceVersionOf(*object);
    const std::string before = kube::ResourceVersionOf(*place);
    if (version == before || (!force && IsOlder(version, before))) return;
    const std::string owner = kube::ControllerUidOf(*place);
    if (!owner.empty() && owner != kube::ControllerUidOf(*object)) {
      const auto owned = by_owner_.find(owner);
      owned->second.erase(key);
      if (owned->second.empty()) by_owner_.erase(owned);
    }
  }
  if (const std::string owner = kube::ControllerUidOf(*object); !owner.empty()) by_owner_[owner][key] = object;
  changes->push_back({place, object});
  place = std::move(object);
}

void ObjectCache::Remove(const kube::ObjectKey& key, std::vector<Change>* changes) {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return;
  if (const auto owned = by_owner_.find(kube::ControllerUidOf(*found->second)); owned != by_owner_.end()) {
    owned->second.erase(key);
    if (owned->second.empty()) by_owner_.erase(owned);
  }
  changes->push_back({found->second, nullptr});
  objects_.erase(found);
}

void ObjectCache::Replace(kube::ObjectList list) {
  std::vector<Change> changes;
  {
    absl::MutexLock lock(&mutex_);
    const bool went_back = IsOlder(list.resource_version, resource_version_);
    std::set<kube::ObjectKey> listed;
    for (kube::Json& item : list.items) {
      const kube::ObjectKey key = kube::KeyOf(item);
      listed.insert(key);
      Put(key, Keep(std::move(item)), went_back, &changes);
    }
    std::vector<kube::ObjectKey> gone;
    for (const auto& [key, object] : objects_) {
      if (listed.contains(key)) continue;
      if (went_back || !IsOlder(list.resource_version, kube::ResourceVersionOf(*object))) gone.push_back(key);
    }
    for (const kube::ObjectKey& key : gone) Remove(key, &changes);
    resource_version_ = list.resource_version;
    synced_ = true;
  }
  Tell(changes);
}

void ObjectCache::Take(kube::WatchEvent event) {
  std::vector<Change> changes;
  {
    absl::MutexLock lock(&mutex_);
    const kube::ObjectKey key = kube::KeyOf(event.object);
    switch (event.type) {
      case kube::WatchEvent::Type::kAdded:
      case kube::WatchEvent::Type::kModified:
        Put(key, Keep(std::move(event.object)), false, &changes);
        break;
      case kube::WatchEvent::Type::kDeleted: {
        // An own write may have made a new one of that name already.
        const auto found = objects_.find(key);
        if (found != objects_.end() && !IsOlder(event.resource_version, kube::ResourceVersionOf(*found->second))) {
          Remove(key, &changes);
        }
        break;
      }
      case kube::WatchEvent::Type::kBookmark:
        break;
    }
    if (!IsOlder(event.resource_version, resource_version_)) resource_version_ = event.resource_version;
  }
  Tell(changes);
}

void ObjectCache::Learn(kube::Json object) {
  std::vector<Change> changes;
  {
    absl::MutexLock lock(&mutex_);
    // The watch has gone past that version: it is in, or it has been changed or deleted since.
    if (!IsOlder(resource_version_, kube::ResourceVersionOf(object))) return;
    const kube::ObjectKey key = kube::KeyOf(object);
    Put(key, Keep(std::move(object)), false, &changes);
  }
  Tell(changes);
}

void ObjectCache::Tell(const std::vector<Change>& changes) const {
  if (!handler_) return;
  for (const Change& change : changes) handler_(change.before, change.after);
}

}  // namespace millstream::runtime
