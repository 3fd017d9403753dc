#include "operator/reconcile/child_writer.h"

#include <utility>

#include "common/base/log_line.h"
#include "common/base/strings.h"
#include "operator/kube/api_error.h"
#include "operator/model/processor.h"
#include "operator/reconcile/difference.h"

namespace millstream::reconcile {
namespace {

// The owner that controls an object, for people: "StreamProcessor old".
std::string ControllerNameOf(const Json& object) {
  const Json* owners = kube::Find(object, {"metadata", "ownerReferences"});
  if (owners == nullptr || !owners->is_array()) return "";
  for (const Json& owner : *owners) {
    if (kube::BoolAt(owner, {"controller"})) {
      return StrCat(kube::TextAt(owner, {"kind"}), " ", kube::TextAt(owner, {"name"}));
    }
  }
  return "";
}

}  // namespace

std::string NameForPeople(const Json& object) {
  return StrCat(kube::TextAt(object, {"kind"}), " ", kube::TextAt(object, {"metadata", "name"}));
}

Problem ChildWriter::CheckOwner(const kube::Resource& resource, const Json& there, const std::string& uid) const {
  const std::string owner = kube::ControllerUidOf(there);
  const std::string name = StrCat(resource.kind, " ", kube::KeyOf(there).name);
  if (owner == uid && kube::Find(there, {"metadata", "deletionTimestamp"}) == nullptr) return {};
  if (owner == uid) {
    return {"AwaitingDeletion", StrCat(name, " is being deleted; it is made anew when it is gone"), false,
            absl::OkStatus()};
  }
  const bool is_former = ControllerNameOf(there) == StrCat("StreamProcessor ", ProcessorNameOf(there));
  if (is_former) {
    return {"AwaitingDeletion",
            StrCat(name, " belongs to a former processor of the same name; it is made when that one is gone"), false,
            absl::OkStatus()};
  }
  const std::string whose = owner.empty() ? "nobody's" : StrCat("controlled by ", ControllerNameOf(there));
  return {"NameTaken",
          StrCat("a ", name, " is there already and is ", whose,
                 "; it is not touched: delete or rename it, or give the processor another name"),
          true, absl::OkStatus()};
}

bool ChildWriter::IsKnown(const std::string& uid, const std::string& place, const std::string& applied,
                          const std::string& version) {
  absl::MutexLock lock(&mutex_);
  const auto found = known_.find({uid, place});
  return found != known_.end() && !version.empty() && found->second == std::pair(applied, version);
}

void ChildWriter::Know(const std::string& uid, const std::string& place, const std::string& applied,
                       const std::string& version) {
  absl::MutexLock lock(&mutex_);
  known_[{uid, place}] = {applied, version};
}

bool ChildWriter::IsAsRemembered(const std::string& place, const Json& wanted, const Json& there) {
  absl::MutexLock lock(&mutex_);
  const auto found = made_.find({kube::ControllerUidOf(wanted), place});
  return found != made_.end() && found->second == model::HashOf(PartOf(wanted, there).dump());
}

void ChildWriter::Remember(const std::string& place, const Json& wanted, const Json& made) {
  const std::pair<std::string, std::string> key(kube::ControllerUidOf(wanted), place);
  absl::MutexLock lock(&mutex_);
  if (IsAsWanted(wanted, made)) {
    made_.erase(key);
  } else {
    made_[key] = model::HashOf(PartOf(wanted, made).dump());
  }
}

Problem ChildWriter::Ensure(const kube::Resource& resource, const Json& wanted, std::string_view refused,
                            std::string_view gone) {
  const kube::ObjectKey key = kube::KeyOf(wanted);
  const std::string uid = kube::ControllerUidOf(wanted);
  const std::string place = StrCat(resource.plural, "/", key.name);
  const std::string hash = model::HashOf(wanted.dump());
  if (gone.empty() && IsKnown(uid, place, hash, world_->VersionOf(resource, key))) return {};
  Json marked = wanted;
  marked["metadata"]["annotations"][std::string(kAppliedAnnotation)] = hash;

  Json there = world_->Get(resource, key);
  if (there.is_null() || (!gone.empty() && kube::UidOf(there) == gone)) {
    there = Json();
    // Caches hold what has our labels. Applying would take over an object that has not.
    absl::StatusOr<Json> found = client_->Get(resource, key);
    if (!found.ok() && !absl::IsNotFound(found.status())) {
      return ProblemOf(found.status(), NameForPeople(wanted), refused);
    }
    if (found.ok()) there = *std::move(found);
  }
  if (!there.is_null()) {
    if (Problem taken = CheckOwner(resource, there, uid); taken.exists()) return taken;
    if (IsAsWanted(marked, there) || IsAsRemembered(place, marked, there)) {
      Know(uid, place, hash, kube::ResourceVersionOf(there));
      return {};
    }
  }
  Json applied = marked;
  // If another one, or none, has the name by now, the API server refuses (409), and the next pass knows it.
  if (!there.is_null()) applied["metadata"]["uid"] = kube::UidOf(there);
  absl::StatusOr<Json> made = client_->Apply(resource, applied);
  if (!made.ok()) return ProblemOf(made.status(), NameForPeople(wanted), refused);
  LogInfo(there.is_null() ? "made" : "changed", {{"object", StrCat(resource.kind, " ", key.Text())}});
  Remember(place, marked, *made);
  world_->Learn(resource, *std::move(made));
  return {};
}

absl::Status ChildWriter::Remove(const kube::Resource& resource, const Json& child) {
  kube::DeleteOptions options;
  options.uid = kube::UidOf(child);
  const absl::Status status = client_->Delete(resource, kube::KeyOf(child), options);
  // Another one has the name by now: not the one that was to go.
  if (absl::IsAborted(status)) return absl::OkStatus();
  if (status.ok()) LogInfo("deleted", {{"object", StrCat(resource.kind, " ", kube::KeyOf(child).Text())}});
  return status;
}

void ChildWriter::Forget(const std::string& processor_uid) {
  absl::MutexLock lock(&mutex_);
  auto at = made_.lower_bound({processor_uid, ""});
  while (at != made_.end() && at->first.first == processor_uid) at = made_.erase(at);
  auto known = known_.lower_bound({processor_uid, ""});
  while (known != known_.end() && known->first.first == processor_uid) known = known_.erase(known);
}

}  // namespace millstream::reconcile
