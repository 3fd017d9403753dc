#include "common/spec/topic_uses.h"

#include "common/base/strings.h"

namespace millstream::spec {
namespace {

void AddList(const Document& document, std::string_view list, TopicUse::Role role, std::vector<TopicUse>& uses) {
  std::span<const Value> items = ItemsIn(document.spec(), list);
  for (size_t i = 0; i < items.size(); ++i) {
    const Value* topic = items[i].Find("topic");
    if (topic == nullptr || !topic->is_string()) continue;
    const Value* create = items[i].Find("create");
    uses.push_back({role, topic->text, Child(Child(Child(document.SpecPath(), list), i), "topic"), topic->at,
                    create != nullptr && create->is_map() ? create : nullptr});
  }
}

void AddChangelogs(const Document& document, std::vector<TopicUse>& uses) {
  std::span<const Value> stores = ItemsIn(document.spec(), "stores");
  for (size_t i = 0; i < stores.size(); ++i) {
    const Value* topic = stores[i].Find("changelog", "topic");
    if (topic == nullptr || !topic->is_string()) continue;
    uses.push_back({TopicUse::Role::kChangelog, topic->text,
                    Child(Child(Child(Child(document.SpecPath(), "stores"), i), "changelog"), "topic"), topic->at,
                    nullptr});
  }
}

}  // namespace

bool SendsDeadLetters(const Document& document) {
  const Value* spec = document.spec();
  const Value* errors = spec == nullptr ? nullptr : spec->Find("errors");
  if (StringIn(errors, "onFailure") == "DeadLetter") return true;
  for (const Member& member : MembersIn(errors, "byClass")) {
    if (member.value.is_string() && member.value.text == "DeadLetter") return true;
  }
  return false;
}

std::string TopicUse::Description() const {
  std::string_view what;
  switch (role) {
    case Role::kInput:
      what = "the input";
      break;
    case Role::kJoin:
    case Role::kLookup:
      what = "the table";
      break;
    case Role::kOutput:
      what = "the output";
      break;
    case Role::kChangelog:
      what = "the changelog";
      break;
    case Role::kDeadLetter:
      what = "the dead-letter topic";
      break;
    case Role::kLoop:
      return "the topic of the loop";
    case Role::kReserved:
      return "reserved for timers and loop";
  }
  return StrCat(what, " ", path);
}

std::vector<TopicUse> TopicUses(const Document& document) {
  std::vector<TopicUse> uses;
  AddList(document, "inputs", TopicUse::Role::kInput, uses);
  AddList(document, "joins", TopicUse::Role::kJoin, uses);
  AddList(document, "lookups", TopicUse::Role::kLookup, uses);
  AddList(document, "outputs", TopicUse::Role::kOutput, uses);
  AddChangelogs(document, uses);
  const Value* spec = document.spec();
  const Value* errors = spec == nullptr ? nullptr : spec->Find("errors");
  const Value* dead_letter = errors == nullptr ? nullptr : errors->Find("deadLetterTopic");
  if (dead_letter != nullptr && dead_letter->is_string() &&
      (SendsDeadLetters(document) || StringIn(spec, "latePolicy") == "DeadLetter")) {
    uses.push_back({TopicUse::Role::kDeadLetter, dead_letter->text,
                    Child(Child(document.SpecPath(), "errors"), "deadLetterTopic"), dead_letter->at, nullptr});
  }
  if (std::optional<std::string_view> group = StringIn(spec, "group")) {
    for (std::string_view suffix : {"-timers-changelog", "-loop"}) {
      const bool loop = suffix == "-loop" && spec->Find("loop") != nullptr;
      uses.push_back({loop ? TopicUse::Role::kLoop : TopicUse::Role::kReserved, StrCat(*group, suffix),
                      Child(document.SpecPath(), "group"), spec->at, nullptr});
    }
  }
  return uses;
}

}  // namespace millstream::spec
