// Rules between the processors of one call: what cannot be seen in any of them alone.

#include <map>

#include "common/base/strings.h"
#include "common/spec/document.h"
#include "common/spec/topic_uses.h"

namespace millstream::spec {
namespace {

std::string QualifiedName(const Document& document) {
  return StrCat(StringIn(document.metadata(), "namespace").value_or("default"), "/",
                StringIn(document.metadata(), "name").value_or("?"));
}

Position PlaceOf(const Value* map, std::string_view key) {
  const Value* value = map == nullptr ? nullptr : map->Find(key);
  return value == nullptr ? Position{} : value->at;
}

void CheckNameAndGroup(Document& document, const Document& earlier) {
  if (StringIn(document.metadata(), "name") && QualifiedName(document) == QualifiedName(earlier)) {
    document.findings.Error(Judge::kCode, PlaceOf(document.metadata(), "name"),
                            Child(Child(document.prefix, "metadata"), "name"),
                            StrCat("processor ", QualifiedName(document), " is there twice, first in ",
                                   Place(document, earlier, earlier.root.at), ": rename or remove one"));
    return;  // the group is the same for that reason
  }
  std::optional<std::string_view> group = StringIn(document.spec(), "group");
  if (!group || group != StringIn(earlier.spec(), "group")) return;
  document.findings.Error(
      Judge::kCode, PlaceOf(document.spec(), "group"), Child(document.SpecPath(), "group"),
      StrCat("group `", *group, "` is already used by processor ", QualifiedName(earlier), " in ",
             Place(document, earlier, PlaceOf(earlier.spec(), "group")), ": each processor needs its own"));
}

bool SameCreation(const Value& a, const Value& b) { return ToCanonicalJson(a) == ToCanonicalJson(b); }

// What `earlier` and `document` may not share about one topic; empty when all is well.
std::string Conflict(const TopicUse& use, const TopicUse& other) {
  constexpr TopicUse::Role kReserved = TopicUse::Role::kReserved;
  const bool by_group = (use.role == kReserved || use.role == TopicUse::Role::kLoop) &&
                        (other.role == kReserved || other.role == TopicUse::Role::kLoop);
  if (by_group) return "";  // the same group, which is refused as such
  if (use.is_internal() && other.is_internal())
    return "an internal topic belongs to one processor only: change a group, a store or a topic name";
  if (use.is_internal() != other.is_internal()) {
    bool written = use.role == TopicUse::Role::kOutput || other.role == TopicUse::Role::kOutput;
    return written ? "nobody else may write to an internal topic: choose another name" : "";
  }
  if (use.create != nullptr && other.create != nullptr && !SameCreation(*use.create, *other.create)) {
    return "both create it, but not alike: make the two create blocks equal, or remove one";
  }
  return "";
}

void CheckTopics(Document& document, const Document& earlier) {
  for (const TopicUse& use : TopicUses(document)) {
    for (const TopicUse& other : TopicUses(earlier)) {
      if (use.topic != other.topic) continue;
      std::string conflict = Conflict(use, other);
      if (conflict.empty()) continue;
      document.findings.Error(
          Judge::kCode, use.at, use.path,
          StrCat("topic `", use.topic, "` is also ", other.Description(), " of processor ", QualifiedName(earlier),
                 " in ", Place(document, earlier, other.at), "; ", conflict));
      break;
    }
  }
}

struct Creation {
  int64_t partitions = 0;
  const Document* document = nullptr;
  Position at;
};

// Inputs and joins of one processor that others create with different partition counts can never share its tasks.
void CheckPartitionCounts(Document& document, const std::map<std::string, Creation>& creations) {
  const Creation* first = nullptr;
  std::string first_topic;
  for (const TopicUse& use : TopicUses(document)) {
    auto found = creations.find(use.topic);
    const bool shares = use.role == TopicUse::Role::kInput || use.role == TopicUse::Role::kJoin;
    if (!shares || found == creations.end()) continue;
    if (first == nullptr) {
      first = &found->second;
      first_topic = use.topic;
    } else if (found->second.partitions != first->partitions) {
      document.findings.Error(
          Judge::kCode, use.at, use.path,
          StrCat("the inputs and joins of a processor share one partition count, but `", use.topic,
                 "` is created with ", found->second.partitions, " partitions (",
                 Place(document, *found->second.document, found->second.at), ") and `", first_topic, "` with ",
                 first->partitions, " (", Place(document, *first->document, first->at), ")"));
    }
  }
}

}  // namespace

std::string Place(const Document& here, const Document& there, Position at) {
  return here.file == there.file ? StrCat("line ", at.line) : StrCat(there.file, ":", at.line);
}

void CheckBetween(const std::vector<Document*>& documents) {
  std::map<std::string, Creation> creations;
  for (size_t i = 0; i < documents.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      CheckNameAndGroup(*documents[i], *documents[j]);
      CheckTopics(*documents[i], *documents[j]);
    }
    for (const TopicUse& use : TopicUses(*documents[i])) {
      std::optional<int64_t> partitions = IntIn(use.create, "partitions");
      if (partitions) creations.emplace(use.topic, Creation{*partitions, documents[i], use.create->at});
    }
  }
  for (Document* document : documents) CheckPartitionCounts(*document, creations);
}

}  // namespace millstream::spec
