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
    kJoin,
    kLookup,
    kOutput,
    kChangelog,
    kDeadLetter,  // only where records are sent there
    kLoop,
    kReserved,  // names that timers and a loop would have
  };
  Role role = Role::kInput;
  std::string topic;
  std::string path;
  Position at;
  const Value* create = nullptr;  // outputs that make their topic

  // Made, checked and deleted with the processor; nobody else may write to it.
  bool is_internal() const { return is_own() || role == Role::kReserved; }
  bool is_created() const { return is_own() || create != nullptr; }
  // "the changelog of store totals", for messages.
  std::string Description() const;

 private:
  bool is_own() const { return role == Role::kChangelog || role == Role::kDeadLetter || role == Role::kLoop; }
};

// Whether errors.onFailure or errors.byClass sends failed records to the dead-letter topic.
bool SendsDeadLetters(const Document& document);

// In the order of the spec: inputs, tables, outputs, changelogs, dead letters, loop, reserved names. Precondition:
// ResolveDefaults. Pointers live as long as the document.
std::vector<TopicUse> TopicUses(const Document& document);

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_TOPIC_USES_H_
