#include "tests/sim/operator/rules.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/base/strings.h"

namespace millstream::sim {

const kube::Resource* CallTarget::resource() const {
  static const std::vector<kube::Resource>* const all = [] {
    auto* kinds = new std::vector<kube::Resource>(ChildKinds());
    for (const kube::Resource& kind :
         {kube::kStreamProcessors, kube::kPersistentVolumeClaims, kube::kLeases, kube::kEvents}) {
      kinds->push_back(kind);
    }
    return kinds;
  }();
  for (const kube::Resource& kind : *all) {
    if (kind.plural == plural) return &kind;
  }
  return nullptr;
}

CallTarget TargetOf(const kube::HttpCall& call) {
  CallTarget target;
  const std::string path = call.target.substr(0, call.target.find('?'));
  std::vector<std::string> parts = absl::StrSplit(path, '/', absl::SkipEmpty());
  size_t at = !parts.empty() && parts[0] == "api" ? 2 : 3;
  if (parts.size() > at + 2 && parts[at] == "namespaces") {
    target.key.name_space = parts[at + 1];
    at += 2;
  }
  if (parts.size() > at) target.plural = parts[at];
  if (parts.size() > at + 1) target.key.name = parts[at + 1];
  if (parts.size() > at + 2) target.subresource = parts[at + 2];
  return target;
}

bool IsWatch(const kube::HttpCall& call) { return call.method == "GET" && absl::StrContains(call.target, "watch="); }

void Rules::Break(const std::string& writer, const kube::HttpCall& call, const std::string& rule) {
  broken_.push_back(
      StrCat(writer, ": ", call.method, " ", call.target, ": ", rule, "; body ", call.body.substr(0, 300)));
}

void Rules::OnWrite(const std::string& writer, bool alone, const kube::HttpCall& call) {
  const CallTarget target = TargetOf(call);
  if (target.plural == "leases") return;
  ++total_;
  if (trace_)
    trace_(StrCat(writer, " ", call.method, " ", target.plural, " ", target.key.Text(), " ", target.subresource, " ",
                  target.plural == "pods" || target.subresource == "status" ? call.body : ""));
  if (!alone) Break(writer, call, "a write by one that does not lead alone");
  if (target.plural == "events") return;
  ++writes_[StrCat(call.method, " ", target.plural, target.subresource.empty() ? "" : "/", target.subresource, " ",
                   target.key.Text())];
  const kube::Resource* resource = target.resource();
  if (resource == nullptr) return Break(writer, call, "a kind that is none of its business");
  const Json there = cluster_->api().Read(*resource, target.key);
  if (call.method == "DELETE" && target.plural == "jobs") last_job_.erase(kube::ControllerUidOf(there));
  if (call.method == "DELETE" && !absl::StrContains(call.body, "\"uid\"")) {
    Break(writer, call, "a deletion of whatever has the name by now");
  }
  if (target.plural == "streamprocessors") return CheckProcessorWrite(writer, call, target);
  if (call.method == "PATCH" && call.content_type == "application/apply-patch+yaml") {
    CheckApply(writer, call, target, there);
  }
}

// Of a processor an operator writes the status and its own finalizer, nothing else.
void Rules::CheckProcessorWrite(const std::string& writer, const kube::HttpCall& call, const CallTarget& target) {
  if (target.subresource == "status") return;
  const absl::StatusOr<Json> body = kube::ParseJson(call.body.empty() ? "{}" : call.body, "body");
  if (call.method != "PATCH" || !body.ok() || body->contains("spec")) {
    return Break(writer, call, "a write of a processor that is not for operators");
  }
}

void Rules::CheckApply(const std::string& writer, const kube::HttpCall& call, const CallTarget& target,
                       const Json& there) {
  const absl::StatusOr<Json> object = kube::ParseJson(call.body, "body");
  if (!object.ok()) return Break(writer, call, "no JSON");
  const std::string owner = kube::ControllerUidOf(*object);
  if (owner.empty()) Break(writer, call, "a child without an owner");
  if (!there.is_null() && kube::ControllerUidOf(there) != owner) {
    // Refused by the API server when the writer said which object it meant.
    const std::string meant = kube::UidOf(*object);
    if (meant.empty() || meant == kube::UidOf(there)) {
      Break(writer, call, StrCat("takes over an object of ", kube::ControllerUidOf(there)));
    }
  }
  if (target.plural == "jobs" && there.is_null() && kube::UidOf(*object).empty()) CheckJob(writer, call, *object);
}

// A manifest whose Job has said yes is not checked again.
void Rules::CheckJob(const std::string& writer, const kube::HttpCall& call, const Json& job) {
  const std::string owner = kube::ControllerUidOf(job);
  const kube::ObjectKey processor{kube::KeyOf(job).name_space,
                                  kube::TextAt(job, {"metadata", "labels", "app.kubernetes.io/instance"})};
  std::string& last = last_job_[owner];
  const std::string name = kube::KeyOf(job).name;
  // One that a cache still has though it is gone does no harm: what is made for it is garbage.
  const Json processor_now = cluster_->api().Read(kube::kStreamProcessors, processor);
  const bool exists = kube::UidOf(processor_now) == owner;
  if (exists && last == name && cluster_->HasSaidYes(owner, name) && !tampered_.contains(processor)) {
    Break(writer, call, "topics are checked twice for one manifest");
  }
  last = name;
}

}  // namespace millstream::sim
