#ifndef MILLSTREAM_OPERATOR_KUBE_TESTING_FAKE_API_SERVER_H_
#define MILLSTREAM_OPERATOR_KUBE_TESTING_FAKE_API_SERVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "operator/kube/resource.h"
#include "operator/kube/transport.h"

namespace millstream::kube {

// Objects as they were at one moment; they stay as long as it does. For range-for, mostly.
class StoredObjects {
 public:
  class Iterator {
   public:
    using Place = std::vector<std::shared_ptr<const Json>>::const_iterator;
    using iterator_category = std::input_iterator_tag;
    using value_type = Json;
    using difference_type = std::ptrdiff_t;
    using pointer = const Json*;
    using reference = const Json&;

    explicit Iterator(Place at) : at_(at) {}
    const Json& operator*() const { return **at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    Place at_;
  };

  explicit StoredObjects(std::vector<std::shared_ptr<const Json>> objects) : objects_(std::move(objects)) {}
  Iterator begin() const { return Iterator(objects_.begin()); }
  Iterator end() const { return Iterator(objects_.end()); }
  size_t size() const { return objects_.size(); }
  bool empty() const { return objects_.empty(); }
  const Json& front() const { return *objects_.front(); }
  const Json& operator[](size_t index) const { return *objects_[index]; }

 private:
  std::vector<std::shared_ptr<const Json>> objects_;
};

// An API server in memory, for simulations: objects with uid, generation and resource version; lists by pages; watches;
// server-side apply; merge patches; deletion with preconditions and finalizers; owners and garbage. No schemas, no
// admission, no controllers: a test plays those through Edit.
//
// What it simplifies: a watch gives what has happened since its version and ends, it never waits (so one thread runs
// everything); server-side apply merges maps, takes lists as a whole, and knows what this manager applied before; label
// selectors are `a=b,c=d`. Thread-safe.
class FakeApiServer {
 public:
  // What happens to one call. kLostAnswer: it is carried out and the answer is lost. kSilence: nothing ever comes,
  // which ends with the caller's deadline.
  struct Fault {
    enum class Kind { kRefuse, kNoConnection, kLostAnswer, kCut, kSilence };
    Kind kind = Kind::kRefuse;
    int status = 503;  // kRefuse: 409, 429, 500, 503, 401 ...
    size_t bytes = 0;  // kCut: of the body of a watch, before the connection breaks
    std::string body;  // kRefuse: the answer; empty: a plain Status
  };
  using Faults = std::function<std::optional<Fault>(const HttpCall& call)>;

  // `clock` (may be none) gives creationTimestamp and deletionTimestamp; it outlives the server.
  explicit FakeApiServer(const Clock* clock = nullptr) : clock_(clock) {}
  // A connection to it, with faults of its own (none: none). The server outlives it.
  std::unique_ptr<Transport> Connect(Faults faults = nullptr);

  // The test's own hand: makes or changes an object as some controller or user would, and collects garbage. `change`
  // gets null for an object that is not there, and makes it, or leaves it, null.
  void Edit(const Resource& resource, const ObjectKey& key, const std::function<void(Json* object)>& change);
  Json Read(const Resource& resource, const ObjectKey& key) const;  // null: not there
  // The same without a copy; nullptr: not there.
  std::shared_ptr<const Json> Look(const Resource& resource, const ObjectKey& key) const;
  // As they are now, by key: later changes do not show.
  StoredObjects All(const Resource& resource) const;
  // Of the last change of anything, and of that kind alone, 0: there was none.
  int64_t version() const;
  int64_t LastChange(const Resource& resource) const;
  // A page of a list has at most so many objects, whatever was asked for.
  void LimitPages(size_t limit) { max_page_ = limit; }
  // How often a piece of a watch has ended within an event.
  int64_t split_events() const { return split_events_; }
  // Watches and continued lists from before now are answered with 410.
  void ForgetHistory();
  // Removes what is owned by an object that is gone, until nothing is left to remove. How many.
  int CollectGarbage();

  // Writes that changed something, by "verb resource".
  std::map<std::string, int> writes() const;

 private:
  friend class FakeTransport;
  struct Path {
    std::string collection;  // "apps/v1/statefulsets"
    ObjectKey key;           // an empty name: the collection
    std::string subresource;
  };
  struct Stored {
    std::shared_ptr<const Json> object;   // never changed, only replaced
    std::map<std::string, Json> applied;  // by field manager
  };
  struct Event {
    int64_t version = 0;
    std::string collection, name_space, type;
    std::shared_ptr<const Json> object;  // text only for those who watch
  };
  using Parameters = std::map<std::string, std::string>;

  HttpAnswer Handle(const HttpCall& call);
  absl::StatusOr<std::string> WatchBody(const HttpCall& call, HttpAnswer* refusal);
  static bool ParseTarget(const std::string& target, Path* path, Parameters* parameters);

  HttpAnswer List(const Path& path, const Parameters& parameters) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpAnswer Create(const Path& path, Json object) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpAnswer Replace(const Path& path, Json object) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpAnswer Patch(const Path& path, const Json& patch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpAnswer Apply(const Path& path, const std::string& manager, Json object) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpAnswer Delete(const Path& path, const Json& options) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes `object` what is stored, with new version and generation, tells watches; nothing if nothing has changed.
  std::shared_ptr<const Json> Store(const Path& path, Json object, const std::string& verb)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const Path& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(const Path& path, std::string_view type, std::shared_ptr<const Json> object)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Stored* FindStored(const Path& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Events older than that are forgotten, as etcd's compaction does after five minutes.
  static constexpr size_t kMaxHistory = 10'000;

  std::string Timestamp() const;

  const Clock* const clock_;
  std::atomic<size_t> max_page_{SIZE_MAX};
  std::atomic<int64_t> split_events_{0};
  mutable absl::Mutex mutex_;
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 100;
  int64_t uids_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t oldest_ ABSL_GUARDED_BY(mutex_) = 0;  // watches from before that are answered with 410
  std::map<std::string, std::map<ObjectKey, Stored>> objects_ ABSL_GUARDED_BY(mutex_);  // by collection
  std::deque<Event> history_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> last_changes_ ABSL_GUARDED_BY(mutex_);  // by collection
  std::map<std::string, int> writes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millstream::kube

#endif  // MILLSTREAM_OPERATOR_KUBE_TESTING_FAKE_API_SERVER_H_
