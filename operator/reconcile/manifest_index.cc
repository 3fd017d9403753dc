#include "operator/reconcile/manifest_index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/strings.h"

namespace millstream::reconcile {
namespace {

// Reads like a list of people: the first few faults are enough to begin with.
constexpr size_t kMaxFaults = 10;

// Brokers in any order are one cluster.
std::string ClusterOf(const spec::StreamProcessorSpec& spec) {
  std::vector<std::string> brokers = absl::StrSplit(spec.kafka.bootstrap_servers, ',', absl::SkipWhitespace());
  for (std::string& broker : brokers) broker = std::string(absl::StripAsciiWhitespace(broker));
  std::sort(brokers.begin(), brokers.end());
  return absl::StrJoin(brokers, ",");
}

// A blank is in no topic's and no broker's name.
std::string Within(const std::string& cluster, const std::string& name) { return StrCat(cluster, " ", name); }
std::string NameIn(const std::string& claim) { return claim.substr(claim.rfind(' ') + 1); }

std::string DescriptionOf(const spec::InternalTopic& topic) {
  switch (topic.kind) {
    case spec::InternalTopic::Kind::kLoop:
      return "the loop";
    case spec::InternalTopic::Kind::kChangelog:
      return StrCat("the changelog of store ", topic.store);
    case spec::InternalTopic::Kind::kDeadLetter:
      return "the dead letters";
  }
  return "an internal topic";
}

}  // namespace

absl::StatusOr<spec::Manifest> ReadProcessor(const Json& processor) {
  const kube::ObjectKey key = kube::KeyOf(processor);
  Json document = {{"apiVersion", kube::TextAt(processor, {"apiVersion"})},
                   {"kind", kube::TextAt(processor, {"kind"})},
                   {"metadata", {{"name", key.name}, {"namespace", key.name_space}}}};
  if (const auto spec = processor.find("spec"); spec != processor.end()) document["spec"] = *spec;
  return ReadManifestText(document.dump(-1, ' ', false, Json::error_handler_t::replace), key.Text());
}

absl::StatusOr<spec::Manifest> ReadManifestText(const std::string& text, const std::string& name) {
  spec::ParseResult parsed = spec::ParseManifests(text, name);
  if (parsed.ok() && parsed.manifests.size() == 1) return std::move(parsed.manifests.front());
  std::vector<std::string> faults;
  for (const spec::Diagnostic& found : parsed.diagnostics) {
    if (found.severity != spec::Severity::kError) continue;
    faults.push_back(found.path.empty() ? found.message : StrCat(found.path, ": ", found.message));
  }
  const size_t all = faults.size();
  if (all > kMaxFaults) {
    faults.resize(kMaxFaults);
    faults.push_back(StrCat("and ", all - kMaxFaults, " more: millstream validate tells them all"));
  }
  return absl::InvalidArgumentError(faults.empty() ? "it is no StreamProcessor" : absl::StrJoin(faults, "\n"));
}

ManifestIndex::Claims ManifestIndex::ClaimsOf(const spec::StreamProcessorSpec& spec) {
  const std::string cluster = ClusterOf(spec);
  Claims claims;
  // A view only reads: it has no group of its own in Kafka.
  if (!spec.is_view()) claims.group = Within(cluster, spec.group);
  for (const spec::InternalTopic& topic : spec::InternalTopicsOf(spec)) {
    claims.internal.emplace(Within(cluster, topic.topic), DescriptionOf(topic));
  }
  for (const spec::OutputSpec& output : spec.outputs) {
    if (!output.loop) claims.outputs.insert(Within(cluster, output.topic));
  }
  return claims;
}

void ManifestIndex::Enter(const kube::ObjectKey& key, const Claims& claims) {
  if (!claims.group.empty()) by_group_[claims.group].insert(key);
  for (const auto& [topic, what] : claims.internal) by_topic_[topic].insert(key);
  for (const std::string& topic : claims.outputs) by_topic_[topic].insert(key);
}

void ManifestIndex::Leave(const kube::ObjectKey& key, const Claims& claims) {
  const auto leave = [&key](std::map<std::string, Keys>* index, const std::string& name) {
    const auto found = index->find(name);
    if (found == index->end()) return;
    found->second.erase(key);
    if (found->second.empty()) index->erase(found);
  };
  leave(&by_group_, claims.group);
  for (const auto& [topic, what] : claims.internal) leave(&by_topic_, topic);
  for (const std::string& topic : claims.outputs) leave(&by_topic_, topic);
}

void ManifestIndex::AddSharers(const Claims& claims, Keys* keys) const {
  const auto add = [keys](const std::map<std::string, Keys>& index, const std::string& name) {
    if (const auto found = index.find(name); found != index.end())
      keys->insert(found->second.begin(), found->second.end());
  };
  add(by_group_, claims.group);
  for (const auto& [topic, what] : claims.internal) add(by_topic_, topic);
  // Outputs may be shared; what is internal to somebody else is found from its side.
  for (const std::string& topic : claims.outputs) {
    const auto found = by_topic_.find(topic);
    if (found == by_topic_.end()) continue;
    for (const kube::ObjectKey& key : found->second) {
      const auto entry = entries_.find(key);
      if (entry != entries_.end() && entry->second.claims.internal.contains(topic)) keys->insert(key);
    }
  }
}

ManifestIndex::Keys ManifestIndex::Update(const Json& processor) {
  auto read = std::make_shared<ReadManifest>();
  read->uid = kube::UidOf(processor);
  read->generation = kube::IntAt(processor, {"metadata", "generation"});
  read->created = kube::TextAt(processor, {"metadata", "creationTimestamp"});
  read->manifest = ReadProcessor(processor);

  const kube::ObjectKey key = kube::KeyOf(processor);
  Keys others;
  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_[key];
  const bool same_object = entry.read != nullptr && entry.read->uid == read->uid;
  AddSharers(entry.claims, &others);
  if (read->manifest.ok() || !same_object) {
    Leave(key, entry.claims);
    entry.claims = read->manifest.ok() ? ClaimsOf(read->manifest->processor) : Claims();
    Enter(key, entry.claims);
    if (read->manifest.ok()) {
      unclaimed_.erase(key);
    } else {
      unclaimed_.insert(key);
    }
  }
  entry.read = std::move(read);
  AddSharers(entry.claims, &others);
  others.erase(key);
  return others;
}

ManifestIndex::Keys ManifestIndex::Remove(const kube::ObjectKey& key) {
  Keys others;
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return others;
  AddSharers(found->second.claims, &others);
  Leave(key, found->second.claims);
  unclaimed_.erase(key);
  entries_.erase(found);
  others.erase(key);
  return others;
}

std::vector<ManifestIndex::Unread> ManifestIndex::Unclaimed() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Unread> all;
  for (const kube::ObjectKey& key : unclaimed_) all.push_back({key, entries_.at(key).read->uid});
  return all;
}

void ManifestIndex::Recall(const Unread& processor, const spec::StreamProcessorSpec& last) {
  absl::MutexLock lock(&mutex_);
  if (!unclaimed_.contains(processor.key)) return;
  Entry& entry = entries_.at(processor.key);
  if (entry.read->uid != processor.uid) return;
  unclaimed_.erase(processor.key);
  entry.claims = ClaimsOf(last);
  Enter(processor.key, entry.claims);
}

std::shared_ptr<const ReadManifest> ManifestIndex::Find(const kube::ObjectKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : found->second.read;
}

bool ManifestIndex::IsOlder(const kube::ObjectKey& a, const kube::ObjectKey& b) const {
  // Of one second, the name decides: every operator, and the same one after a restart, has to say the same.
  return std::pair(entries_.at(a).read->created, a) < std::pair(entries_.at(b).read->created, b);
}

std::optional<Problem> ManifestIndex::ConflictOf(const kube::ObjectKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  const Claims& mine = found->second.claims;
  if (const auto sharers = by_group_.find(mine.group); sharers != by_group_.end()) {
    for (const kube::ObjectKey& other : sharers->second) {
      if (other == key || !IsOlder(other, key)) continue;
      return Problem{"GroupOwnedByAnother",
                     StrCat("group ", NameIn(mine.group), " is used by the older processor ", other.Text(), "; ",
                            key.Text(), " needs its own: it cannot be changed, so delete one of the two"),
                     true, absl::OkStatus()};
    }
  }
  const auto overlap = [&](const std::string& topic, const std::string& what) -> std::optional<Problem> {
    const auto sharers = by_topic_.find(topic);
    if (sharers == by_topic_.end()) return std::nullopt;
    for (const kube::ObjectKey& other : sharers->second) {
      if (other == key || !IsOlder(other, key)) continue;
      const Claims& theirs = entries_.at(other).claims;
      const auto internal = theirs.internal.find(topic);
      const bool is_mine = mine.internal.contains(topic);
      if (internal == theirs.internal.end() && !is_mine) continue;  // an output of both
      return Problem{"TopicsOverlap",
                     StrCat("topic ", NameIn(topic), " is ", what, " of ", key.Text(), " and ",
                            internal == theirs.internal.end() ? std::string("an output") : internal->second,
                            " of the older processor ", other.Text(),
                            "; nobody else may write to an internal topic: change the topic's, the store's or the "
                            "group's name"),
                     true, absl::OkStatus()};
    }
    return std::nullopt;
  };
  for (const auto& [topic, what] : mine.internal) {
    if (std::optional<Problem> problem = overlap(topic, what)) return problem;
  }
  for (const std::string& topic : mine.outputs) {
    if (std::optional<Problem> problem = overlap(topic, "an output")) return problem;
  }
  return std::nullopt;
}

}  // namespace millstream::reconcile
