#include "operator/kube/testing/fake_api_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/strings.h"
#include "common/http/message.h"

namespace millstream::kube {
namespace {

HttpAnswer Answer(const Json& object, int status = 200) { return {status, "", object.dump()}; }

HttpAnswer Refusal(int status, std::string_view reason, std::string_view message) {
  return Answer({{"apiVersion", "v1"},
                 {"kind", "Status"},
                 {"status", "Failure"},
                 {"reason", std::string(reason)},
                 {"message", std::string(message)},
                 {"code", status}},
                status);
}

HttpAnswer NotFound(const ObjectKey& key) { return Refusal(404, "NotFound", StrCat(key.Text(), " not found")); }

int64_t Number(const std::string& text) {
  int64_t number = 0;
  return absl::SimpleAtoi(text, &number) ? number : 0;
}

std::string Decoded(std::string_view text) { return http::PercentDecode(text).value_or(std::string(text)); }

bool Matches(const Json& labels, const std::string& selector) {
  if (selector.empty()) return true;
  for (const absl::string_view term : absl::StrSplit(selector, ',')) {
    const std::pair<std::string, std::string> wanted = absl::StrSplit(term, absl::MaxSplits('=', 1));
    if (TextAt(labels, {wanted.first}) != wanted.second) return false;
  }
  return true;
}

const Json& LabelsOf(const Json& object) {
  static const Json* const none = new Json();
  const Json* labels = Find(object, {"metadata", "labels"});
  return labels == nullptr ? *none : *labels;
}

// Takes out of `object` what `before` had applied and `now` does not apply any more.
void DropUnapplied(Json* object, const Json& before, const Json& now) {
  if (!object->is_object() || !before.is_object()) return;
  for (const auto& [key, value] : before.items()) {
    if (!object->contains(key)) continue;
    if (!now.is_object() || !now.contains(key)) {
      object->erase(key);
    } else if (value.is_object()) {
      DropUnapplied(&(*object)[key], value, now[key]);
    }
  }
}

void MergeMaps(Json* object, const Json& from) {
  for (const auto& [key, value] : from.items()) {
    Json& place = (*object)[key];
    if (place.is_object() && value.is_object()) {
      MergeMaps(&place, value);
    } else {
      place = value;
    }
  }
}

// Whether `a` and `b` have the same, but for those fields, which `same` decides about.
template <typename Same>
bool SameBut(const Json& a, const Json& b, std::initializer_list<std::string_view> apart, const Same& same) {
  static const Json* const none = new Json();
  if (!a.is_object() || !b.is_object()) return a == b;
  const auto size = [&apart](const Json& object) {
    return object.size() - std::count_if(apart.begin(), apart.end(), [&](auto key) { return object.contains(key); });
  };
  if (size(a) != size(b)) return false;
  for (auto item = a.begin(); item != a.end(); ++item) {
    if (std::find(apart.begin(), apart.end(), item.key()) != apart.end()) continue;
    const auto other = b.find(item.key());
    if (other == b.end() || *other != *item) return false;
  }
  for (const std::string_view field : apart) {
    const Json* mine = Find(a, {field});
    const Json* other = Find(b, {field});
    if (!same(mine == nullptr ? *none : *mine, other == nullptr ? *none : *other)) return false;
  }
  return true;
}

// But for what changes with every write.
bool SameEssence(const Json& a, const Json& b) {
  const auto any = [](const Json&, const Json&) { return true; };
  return SameBut(a, b, {"metadata"}, [&any](const Json& metadata, const Json& other) {
    return SameBut(metadata, other, {"resourceVersion", "generation"}, any);
  });
}

bool SameButStatusAndMetadata(const Json& a, const Json& b) {
  return SameBut(a, b, {"status", "metadata"}, [](const Json&, const Json&) { return true; });
}

bool HasFinalizers(const Json& object) {
  const Json* finalizers = Find(object, {"metadata", "finalizers"});
  return finalizers != nullptr && finalizers->is_array() && !finalizers->empty();
}

}  // namespace

// One connection.
class FakeTransport : public Transport {
 public:
  FakeTransport(FakeApiServer* server, FakeApiServer::Faults faults) : server_(server), faults_(std::move(faults)) {}

  absl::StatusOr<HttpAnswer> Do(const HttpCall& call) override {
    using Kind = FakeApiServer::Fault::Kind;
    const std::optional<FakeApiServer::Fault> fault = faults_ ? faults_(call) : std::nullopt;
    if (!fault) return server_->Handle(call);
    if (fault->kind == Kind::kRefuse) return RefusalOf(*fault);
    if (fault->kind == Kind::kSilence) return absl::DeadlineExceededError("no answer");
    if (fault->kind == Kind::kLostAnswer) (void)server_->Handle(call);
    return absl::UnavailableError("the connection broke");
  }

  absl::StatusOr<HttpAnswer> Stream(const HttpCall& call, absl::Duration, const http::Interruption& interruption,
                                    const PieceSink& sink) override {
    using Kind = FakeApiServer::Fault::Kind;
    const std::optional<FakeApiServer::Fault> fault = faults_ ? faults_(call) : std::nullopt;
    if (fault && fault->kind == Kind::kRefuse) return RefusalOf(*fault);
    if (fault && fault->kind == Kind::kSilence) return absl::DeadlineExceededError("nothing arrived");
    if (fault && fault->kind != Kind::kCut) return absl::UnavailableError("the connection broke");
    if (interruption.interrupted()) return absl::CancelledError("interrupted");
    HttpAnswer refusal;
    const absl::StatusOr<std::string> body = server_->WatchBody(call, &refusal);
    if (!body.ok()) return refusal;
    const std::string_view sent = fault ? std::string_view(*body).substr(0, fault->bytes) : std::string_view(*body);
    // In two pieces, wherever that cuts.
    if (sent.size() > 1 && sent[sent.size() / 2 - 1] != '\n') ++server_->split_events_;
    for (const std::string_view piece : {sent.substr(0, sent.size() / 2), sent.substr(sent.size() / 2)}) {
      if (absl::Status taken = sink(piece); !taken.ok()) return taken;
    }
    if (fault) return absl::UnavailableError("the connection broke");
    return HttpAnswer{200, "", ""};
  }

 private:
  static HttpAnswer RefusalOf(const FakeApiServer::Fault& fault) {
    return fault.body.empty() ? Refusal(fault.status, "", "a fault") : HttpAnswer{fault.status, "", fault.body};
  }

  FakeApiServer* const server_;
  const FakeApiServer::Faults faults_;
};

std::unique_ptr<Transport> FakeApiServer::Connect(Faults faults) {
  return std::make_unique<FakeTransport>(this, std::move(faults));
}

// "/apis/GROUP/VERSION[/namespaces/NS]/PLURAL[/NAME[/SUBRESOURCE]]?a=b"
bool FakeApiServer::ParseTarget(const std::string& target, Path* path, Parameters* parameters) {
  const std::pair<std::string, std::string> halves = absl::StrSplit(target, absl::MaxSplits('?', 1));
  for (const absl::string_view term : absl::StrSplit(halves.second, '&', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parameter = absl::StrSplit(term, absl::MaxSplits('=', 1));
    (*parameters)[parameter.first] = Decoded(parameter.second);
  }
  std::vector<std::string> parts = absl::StrSplit(halves.first, '/', absl::SkipEmpty());
  size_t at = parts.empty() ? 0 : parts[0] == "api" ? 2 : 3;
  if (at == 0 || parts.size() <= at) return false;
  const std::string version = at == 2 ? parts[1] : StrCat(parts[1], "/", parts[2]);
  if (parts[at] == "namespaces" && parts.size() > at + 2) {
    path->key.name_space = Decoded(parts[at + 1]);
    at += 2;
  }
  path->collection = StrCat(version, "/", parts[at]);
  if (parts.size() > at + 1) path->key.name = Decoded(parts[at + 1]);
  if (parts.size() > at + 2) path->subresource = parts[at + 2];
  return true;
}

HttpAnswer FakeApiServer::Handle(const HttpCall& call) {
  Path path;
  Parameters parameters;
  if (!ParseTarget(call.target, &path, &parameters)) return Refusal(404, "NotFound", "no such path");
  const absl::StatusOr<Json> body = call.body.empty() ? Json::object() : ParseJson(call.body, "the body");
  if (!body.ok()) return Refusal(400, "BadRequest", std::string(body.status().message()));
  absl::MutexLock lock(&mutex_);
  if (call.method == "GET" && path.key.name.empty()) return List(path, parameters);
  if (call.method == "POST" && path.key.name.empty()) return Create(path, *body);
  if (call.method == "PATCH" && call.content_type == "application/apply-patch+yaml") {
    return Apply(path, parameters["fieldManager"], *body);
  }
  if (FindStored(path) == nullptr) return NotFound(path.key);
  if (call.method == "GET") return Answer(*FindStored(path)->object);
  if (call.method == "PUT") return Replace(path, *body);
  if (call.method == "PATCH") return Patch(path, *body);
  if (call.method == "DELETE") return Delete(path, *body);
  if (call.method == "POST" && path.subresource == "eviction") {
    const Json* options = Find(*body, {"deleteOptions"});
    return Delete(path, options == nullptr ? Json::object() : *options);
  }
  return Refusal(405, "MethodNotAllowed", call.method);
}

HttpAnswer FakeApiServer::List(const Path& path, const Parameters& parameters) {
  const auto parameter = [&parameters](const char* name) {
    const auto found = parameters.find(name);
    return found == parameters.end() ? std::string() : found->second;
  };
  // A continue token: "VERSION/NAMESPACE/NAME", the last object sent.
  const std::vector<std::string> token = absl::StrSplit(parameter("continue"), '/');
  if (token.size() == 3 && Number(token[0]) < oldest_) return Refusal(410, "Expired", "the continue token is too old");
  const size_t limit = std::min<size_t>(static_cast<size_t>(Number(parameter("limit"))), max_page_);
  Json items = Json::array();
  std::string next;
  ObjectKey last;
  for (const auto& [key, stored] : objects_[path.collection]) {
    if (!path.key.name_space.empty() && key.name_space != path.key.name_space) continue;
    if (!Matches(LabelsOf(*stored.object), parameter("labelSelector"))) continue;
    if (token.size() == 3 && key <= ObjectKey{token[1], token[2]}) continue;
    if (limit > 0 && items.size() == limit) {
      next = StrCat(version_, "/", last.name_space, "/", last.name);
      break;
    }
    items.push_back(*stored.object);
    last = key;
  }
  Json metadata = {{"resourceVersion", StrCat(version_)}};
  if (!next.empty()) metadata["continue"] = next;
  return Answer({{"kind", "List"}, {"metadata", metadata}, {"items", items}});
}

absl::StatusOr<std::string> FakeApiServer::WatchBody(const HttpCall& call, HttpAnswer* refusal) {
  Path path;
  Parameters parameters;
  absl::MutexLock lock(&mutex_);
  if (!ParseTarget(call.target, &path, &parameters)) {
    *refusal = Refusal(404, "NotFound", "no such path");
    return absl::NotFoundError("");
  }
  const int64_t since = Number(parameters["resourceVersion"]);
  if (since < oldest_) {
    *refusal = Refusal(410, "Expired", "too old resource version");
    return absl::OutOfRangeError("");
  }
  std::string body;
  const auto is_known = [](int64_t version, const Event& event) { return version < event.version; };
  for (auto at = std::upper_bound(history_.begin(), history_.end(), since, is_known); at != history_.end(); ++at) {
    const Event& event = *at;
    if (event.collection != path.collection) continue;
    if (!path.key.name_space.empty() && event.name_space != path.key.name_space) continue;
    if (!Matches(LabelsOf(*event.object), parameters["labelSelector"])) continue;
    StrAppend(&body, "{\"type\":\"", event.type, "\",\"object\":", event.object->dump(), "}\n");
  }
  const Json bookmark = {{"type", "BOOKMARK"}, {"object", {{"metadata", {{"resourceVersion", StrCat(version_)}}}}}};
  return StrCat(body, bookmark.dump(), "\n");
}

FakeApiServer::Stored* FakeApiServer::FindStored(const Path& path) {
  auto& collection = objects_[path.collection];
  const auto found = collection.find(path.key);
  return found == collection.end() ? nullptr : &found->second;
}

void FakeApiServer::Tell(const Path& path, std::string_view type, std::shared_ptr<const Json> object) {
  last_changes_[path.collection] = version_;
  history_.push_back({version_, path.collection, path.key.name_space, std::string(type), std::move(object)});
  if (history_.size() <= kMaxHistory) return;
  oldest_ = history_.front().version;
  history_.pop_front();
}

std::shared_ptr<const Json> FakeApiServer::Store(const Path& path, Json object, const std::string& verb) {
  Stored* old = FindStored(path);
  const bool is_new = old == nullptr;
  if (!is_new && SameEssence(*old->object, object)) return old->object;
  Json& metadata = object["metadata"];
  metadata["name"] = path.key.name;
  if (!path.key.name_space.empty()) metadata["namespace"] = path.key.name_space;
  metadata["uid"] = is_new ? StrCat("uid-", ++uids_) : UidOf(*old->object);
  metadata["resourceVersion"] = StrCat(++version_);
  if (is_new && clock_ != nullptr) metadata["creationTimestamp"] = Timestamp();
  const int64_t generation = is_new ? 0 : IntAt(*old->object, {"metadata", "generation"});
  const bool changed = is_new || !SameButStatusAndMetadata(*old->object, object);
  metadata["generation"] = generation + (changed ? 1 : 0);
  ++writes_[StrCat(verb, " ", path.collection)];
  auto stored = std::make_shared<const Json>(std::move(object));
  objects_[path.collection][path.key].object = stored;
  Tell(path, is_new ? "ADDED" : "MODIFIED", stored);
  return stored;
}

void FakeApiServer::Remove(const Path& path) {
  Json last = *FindStored(path)->object;
  last["metadata"]["resourceVersion"] = StrCat(++version_);
  objects_[path.collection].erase(path.key);
  Tell(path, "DELETED", std::make_shared<const Json>(std::move(last)));
}

HttpAnswer FakeApiServer::Create(const Path& path, Json object) {
  Path at = path;
  at.key.name = TextAt(object, {"metadata", "name"});
  if (at.key.name.empty()) return Refusal(422, "Invalid", "metadata.name is required");
  if (FindStored(at) != nullptr) return Refusal(409, "AlreadyExists", StrCat(at.key.Text(), " already exists"));
  return Answer(*Store(at, std::move(object), "create"), 201);
}

HttpAnswer FakeApiServer::Replace(const Path& path, Json object) {
  const std::shared_ptr<const Json> held = FindStored(path)->object;
  const Json& current = *held;
  const std::string version = ResourceVersionOf(object);
  if (!version.empty() && version != ResourceVersionOf(current)) {
    return Refusal(409, "Conflict", "the object has been modified; please apply your changes to the latest version");
  }
  Json next = path.subresource == "status" ? current : std::move(object);
  if (path.subresource == "status") {
    next["status"] = object.value("status", Json::object());
  } else if (current.contains("status")) {
    next["status"] = current["status"];
  }
  return Answer(*Store(path, std::move(next), path.subresource == "status" ? "status" : "replace"));
}

HttpAnswer FakeApiServer::Patch(const Path& path, const Json& patch) {
  Json next = *FindStored(path)->object;
  if (const std::string version = ResourceVersionOf(patch); !version.empty() && version != ResourceVersionOf(next)) {
    return Refusal(409, "Conflict", "the object has been modified");
  }
  next.merge_patch(patch);
  const bool is_leaving = Find(next, {"metadata", "deletionTimestamp"}) != nullptr;
  const auto stored = Store(path, std::move(next), path.subresource == "status" ? "status" : "patch");
  const HttpAnswer answer = Answer(*stored);
  if (is_leaving && !HasFinalizers(*stored)) Remove(path);
  return answer;
}

HttpAnswer FakeApiServer::Apply(const Path& path, const std::string& manager, Json object) {
  if (manager.empty()) return Refusal(422, "Invalid", "fieldManager is required for apply patch");
  Stored* old = FindStored(path);
  if (old == nullptr && !path.subresource.empty()) return NotFound(path.key);
  const std::string version = ResourceVersionOf(object);
  if (old != nullptr && !version.empty() && version != ResourceVersionOf(*old->object)) {
    return Refusal(409, "Conflict", "the object has been modified");
  }
  if (const std::string uid = UidOf(object); !uid.empty() && (old == nullptr || uid != UidOf(*old->object))) {
    return Refusal(409, "Conflict", "the UID in the precondition differs");
  }
  Json next = old == nullptr ? Json::object() : *old->object;
  if (old != nullptr) {
    const auto before = old->applied.find(manager + path.subresource);
    if (before != old->applied.end()) DropUnapplied(&next, before->second, object);
  }
  MergeMaps(&next, object);
  const bool is_new = old == nullptr;
  const auto stored = Store(path, std::move(next), path.subresource == "status" ? "status" : "apply");
  FindStored(path)->applied[manager + path.subresource] = std::move(object);
  return Answer(*stored, is_new ? 201 : 200);
}

HttpAnswer FakeApiServer::Delete(const Path& path, const Json& options) {
  Json next = *FindStored(path)->object;
  const std::string uid = TextAt(options, {"preconditions", "uid"});
  if (!uid.empty() && uid != UidOf(next)) return Refusal(409, "Conflict", "the UID in the precondition differs");
  if (TextAt(options, {"propagationPolicy"}) == "Orphan") {
    const std::string owner = UidOf(next);
    for (auto& [collection, objects] : objects_) {
      for (auto& [key, stored] : objects) {
        if (ControllerUidOf(*stored.object) != owner) continue;
        Json orphan = *stored.object;
        Json& owners = orphan["metadata"]["ownerReferences"];
        owners.erase(std::remove_if(owners.begin(), owners.end(),
                                    [&](const Json& reference) { return TextAt(reference, {"uid"}) == owner; }),
                     owners.end());
        if (owners.empty()) orphan["metadata"].erase("ownerReferences");
        Store({collection, key, ""}, std::move(orphan), "orphan");
      }
    }
  }
  if (HasFinalizers(next)) {
    if (Find(next, {"metadata", "deletionTimestamp"}) == nullptr) next["metadata"]["deletionTimestamp"] = Timestamp();
    return Answer(*Store(path, std::move(next), "delete"));
  }
  ++writes_[StrCat("delete ", path.collection)];
  Remove(path);
  return Answer({{"kind", "Status"}, {"status", "Success"}});
}

void FakeApiServer::Edit(const Resource& resource, const ObjectKey& key,
                         const std::function<void(Json* object)>& change) {
  absl::MutexLock lock(&mutex_);
  const Path path{StrCat(resource.ApiVersion(), "/", resource.plural), key, ""};
  const Stored* stored = FindStored(path);
  Json object = stored == nullptr ? Json() : *stored->object;
  change(&object);
  if (object.is_null()) {
    if (stored != nullptr) Remove(path);
    return;
  }
  object["apiVersion"] = resource.ApiVersion();
  object["kind"] = std::string(resource.kind);
  Store(path, std::move(object), "edit");
}

Json FakeApiServer::Read(const Resource& resource, const ObjectKey& key) const {
  const std::shared_ptr<const Json> object = Look(resource, key);
  return object == nullptr ? Json() : *object;
}

std::shared_ptr<const Json> FakeApiServer::Look(const Resource& resource, const ObjectKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto collection = objects_.find(StrCat(resource.ApiVersion(), "/", resource.plural));
  if (collection == objects_.end()) return nullptr;
  const auto found = collection->second.find(key);
  return found == collection->second.end() ? nullptr : found->second.object;
}

StoredObjects FakeApiServer::All(const Resource& resource) const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<const Json>> all;
  const auto collection = objects_.find(StrCat(resource.ApiVersion(), "/", resource.plural));
  if (collection == objects_.end()) return StoredObjects(std::move(all));
  all.reserve(collection->second.size());
  for (const auto& [key, stored] : collection->second) all.push_back(stored.object);
  return StoredObjects(std::move(all));
}

int64_t FakeApiServer::version() const {
  absl::MutexLock lock(&mutex_);
  return version_;
}

int64_t FakeApiServer::LastChange(const Resource& resource) const {
  absl::MutexLock lock(&mutex_);
  const auto found = last_changes_.find(StrCat(resource.ApiVersion(), "/", resource.plural));
  return found == last_changes_.end() ? 0 : found->second;
}

std::string FakeApiServer::Timestamp() const {
  const absl::Time now = clock_ == nullptr ? absl::UnixEpoch() : clock_->WallTime();
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", now, absl::UTCTimeZone());
}

void FakeApiServer::ForgetHistory() {
  absl::MutexLock lock(&mutex_);
  history_.clear();
  oldest_ = ++version_;
}

int FakeApiServer::CollectGarbage() {
  absl::MutexLock lock(&mutex_);
  int removed = 0;
  while (true) {
    std::map<std::string, bool> alive;
    for (const auto& [collection, objects] : objects_) {
      for (const auto& [key, stored] : objects) alive[UidOf(*stored.object)] = true;
    }
    std::vector<Path> garbage;
    for (const auto& [collection, objects] : objects_) {
      for (const auto& [key, stored] : objects) {
        const std::string owner = ControllerUidOf(*stored.object);
        if (!owner.empty() && !alive.contains(owner)) garbage.push_back({collection, key, ""});
      }
    }
    if (garbage.empty()) return removed;
    for (const Path& path : garbage) Remove(path);
    removed += static_cast<int>(garbage.size());
  }
}

std::map<std::string, int> FakeApiServer::writes() const {
  absl::MutexLock lock(&mutex_);
  return writes_;
}

}  // namespace millstream::kube
