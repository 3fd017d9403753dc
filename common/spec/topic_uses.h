#ifndef MILLSTREAM_COMMON_SPEC_TOPIC_USES_H_
#define MILLSTREAM_COMMON_SPEC_TOPIC_USES_H_

#include <string>
#include <vector>

#include "common/spec/document.h"

namespace millstream::spec {

// One place where a resolved document speaks of a topic.
struct TopicUse {
  enum class Role {
    kInput,
    kTable,  // join or lookup
    kOutput,
    kChangelog,
    kDeadLetter,  // only where errors.onFailure sends records there
    kReserved,    // names that timers and loop will have
  };
  Role role = Role::kInput;
  std::string topic;
  std::string path;
  Position at;
  const Value* create = nullptr;  // outputs that make their topic

  // Made, checked and deleted with the processor; nobody else may write to it.
  bool is_internal() const { return role == Role::kChangelog || role == Role::kDeadLetter || role == Role::kReserved; }
  bool is_created() const { return role == Role::kChangelog || role == Role::kDeadLetter || create != nullptr; }
  // "the changelog of store totals", for messages.
  std::string Description() const;
};

// In the order of the spec: inputs, tables, outputs, changelogs, dead letters, reserved names. Precondition:
// ResolveDefaults. Pointers live as long as the document.
std::vector<TopicUse> TopicUses(const Document& document);

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_TOPIC_USES_H_
