// CEL rules of the schema about topics and names, mirrored: the message is the schema's, the place and the other party
// are what the API server cannot say.

#include <functional>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "common/base/strings.h"
#include "common/spec/document.h"

namespace millstream::spec {
namespace {

// A name or topic somewhere in the spec.
struct Use {
  std::string_view text;
  std::string path;
  Position at;
};

std::vector<Use> Topics(const Document& document, std::string_view list) {
  std::vector<Use> uses;
  std::span<const Value> items = ItemsIn(document.spec(), list);
  for (size_t i = 0; i < items.size(); ++i) {
    std::optional<std::string_view> topic = StringIn(&items[i], "topic");
    if (!topic) continue;
    uses.push_back({*topic, Child(Child(Child(document.SpecPath(), list), i), "topic"), items[i].Find("topic")->at});
  }
  return uses;
}

// Names as the program sees them: a name left out is the topic.
std::vector<Use> Names(const Document& document, std::string_view list) {
  std::vector<Use> uses;
  std::span<const Value> items = ItemsIn(document.spec(), list);
  for (size_t i = 0; i < items.size(); ++i) {
    std::string_view field = StringIn(&items[i], "name") ? "name" : "topic";
    std::optional<std::string_view> name = StringIn(&items[i], field);
    if (!name) continue;
    uses.push_back({*name, Child(Child(Child(document.SpecPath(), list), i), field), items[i].Find(field)->at});
  }
  return uses;
}

std::string Also(const Use& use) { return StrCat(use.path, " in line ", use.at.line); }

// Each of `later` that is also in `earlier` is an error.
void RefuseCommon(Document& document, std::string_view message, const std::vector<Use>& earlier,
                  const std::vector<Use>& later) {
  for (const Use& use : later) {
    for (const Use& other : earlier) {
      if (use.text != other.text) continue;
      document.findings.Error(Judge::kCel, use.at, use.path,
                              StrCat(message, "; `", use.text, "` is also ", Also(other)));
      break;
    }
  }
}

void RefuseRepeatedNames(Document& document, std::string_view message, std::string_view list) {
  absl::flat_hash_map<std::string, Use> known;
  for (const Use& use : Names(document, list)) {
    auto [first, is_new] = known.emplace(use.text, use);
    if (is_new) continue;
    document.findings.Error(Judge::kCel, use.at, use.path,
                            StrCat(message, "; `", use.text, "` is also ", Also(first->second)));
  }
}

void RefuseReservedNames(Document& document, std::string_view message, std::string_view list) {
  for (const Use& use : Names(document, list)) {
    if (use.text != "loop" && use.text != "timers") continue;
    document.findings.Error(Judge::kCel, use.at, use.path, StrCat(message, "; choose another name"));
  }
}

std::set<std::string_view> KeyValueStores(const Document& document) {
  std::set<std::string_view> stores;
  for (const Value& store : ItemsIn(document.spec(), "stores")) {
    if (StringIn(&store, "type") == "KeyValue") stores.insert(StringIn(&store, "name").value_or(""));
  }
  return stores;
}

void CheckPrefetch(Document& document, std::string_view message) {
  const std::set<std::string_view> stores = KeyValueStores(document);
  std::span<const Value> inputs = ItemsIn(document.spec(), "inputs");
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string path = Child(Child(Child(document.SpecPath(), "inputs"), i), "prefetch");
    std::span<const Value> prefetch = ItemsIn(&inputs[i], "prefetch");
    for (size_t j = 0; j < prefetch.size(); ++j) {
      if (!prefetch[j].is_string() || stores.contains(prefetch[j].text)) continue;
      document.findings.Error(Judge::kCel, prefetch[j].at, Child(path, j),
                              StrCat(message, "; there is no `", prefetch[j].text, "` in spec.stores"));
    }
  }
}

void CheckVisits(Document& document, std::string_view message) {
  const std::set<std::string_view> stores = KeyValueStores(document);
  std::span<const Value> visits = ItemsIn(document.spec(), "visits");
  for (size_t i = 0; i < visits.size(); ++i) {
    const std::optional<std::string_view> store = StringIn(&visits[i], "store");
    if (!store || stores.contains(*store)) continue;
    document.findings.Error(Judge::kCel, visits[i].Find("store")->at,
                            Child(Child(Child(document.SpecPath(), "visits"), i), "store"),
                            StrCat(message, "; there is no `", *store, "` of that type in spec.stores"));
  }
}

bool HasNoInputs(const Document& document) {
  const Value* spec = document.spec();
  if (spec == nullptr || !spec->is_map()) return false;
  const Value* inputs = spec->Find("inputs");
  return inputs == nullptr || (inputs->is_list() && inputs->items.empty());
}

void CheckView(Document& document, std::string_view message) {
  if (!HasNoInputs(document)) return;
  for (const char* list : {"outputs", "stores", "loop"}) {
    const Value* there = document.spec()->Find(list);
    if (there != nullptr)
      document.findings.Error(Judge::kCel, there->at, Child(document.SpecPath(), list), std::string(message));
  }
}

std::vector<Use> Joined(std::vector<Use> first, const std::vector<Use>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

const std::vector<MirroredRule>& NamingRules() {
  static const std::vector<MirroredRule>* const
      rules =
          new std::vector<MirroredRule>{
              {"a processor needs inputs, or joins or lookups alone, which make it a view",
               [](Document& d, std::string_view m) {
                 if (HasNoInputs(d) && !d.spec()->Find("joins") && !d.spec()->Find("lookups"))
                   d.findings.Error(Judge::kCel, d.spec()->at, d.SpecPath(), std::string(m));
               }},
              {"without inputs nothing is handled: a view has joins and lookups only, no outputs, stores or loop",
               CheckView},
              {"a topic must not be input and output at once: use loop for records that come back",
               [](Document& d, std::string_view m) { RefuseCommon(d, m, Topics(d, "inputs"), Topics(d, "outputs")); }},
              {"a topic must appear only once among inputs, joins and lookups",
               [](Document& d, std::string_view m) {
                 RefuseCommon(d, m, Topics(d, "inputs"), Joined(Topics(d, "joins"), Topics(d, "lookups")));
               }},
              {"a topic must not be join and lookup at once",
               [](Document& d, std::string_view m) { RefuseCommon(d, m, Topics(d, "joins"), Topics(d, "lookups")); }},
              {"a topic must not be output and table at once",
               [](Document& d, std::string_view m) {
                 RefuseCommon(d, m, Joined(Topics(d, "joins"), Topics(d, "lookups")), Topics(d, "outputs"));
               }},
              {"the names of stores, joins and lookups must differ: programs read all of them by name",
               [](Document& d, std::string_view m) {
                 RefuseCommon(d, m, Names(d, "stores"), Joined(Names(d, "joins"), Names(d, "lookups")));
               }},
              {"the names of joins and lookups must differ: programs read all of them by name",
               [](Document& d, std::string_view m) { RefuseCommon(d, m, Names(d, "joins"), Names(d, "lookups")); }},
              {"prefetch must name key-value stores of this processor", CheckPrefetch},
              {"a visit must name a key-value store of this processor", CheckVisits},
              {"the names of inputs must be unique (a name left out is the topic)",
               [](Document& d, std::string_view m) { RefuseRepeatedNames(d, m, "inputs"); }},
              {"the names of outputs must be unique (a name left out is the topic)",
               [](Document& d, std::string_view m) { RefuseRepeatedNames(d, m, "outputs"); }},
              {"the names of tables must be unique (a name left out is the topic)",
               [](Document& d, std::string_view m) {
                 RefuseRepeatedNames(d, m, "joins");
                 RefuseRepeatedNames(d, m, "lookups");
               }},
              {"an input must not be named loop or timers: both names are reserved",
               [](Document& d, std::string_view m) { RefuseReservedNames(d, m, "inputs"); }},
              {"an output must not be named loop or timers: both names are reserved",
               [](Document& d, std::string_view m) { RefuseReservedNames(d, m, "outputs"); }},
              {"a table must not be named loop or timers: both names are reserved",
               [](Document& d, std::string_view m) {
                 RefuseReservedNames(d, m, "joins");
                 RefuseReservedNames(d, m, "lookups");
               }},
              {"a store must not be named loop or timers: both names are reserved",
               [](Document& d, std::string_view m) { RefuseReservedNames(d, m, "stores"); }},
          };
  return *rules;
}

}  // namespace millstream::spec
