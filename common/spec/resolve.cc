// Defaults that depend on other fields. Documents with faults get as many of them as can be told.

#include "common/base/strings.h"
#include "common/spec/document.h"

namespace millstream::spec {
namespace {

void SetIfAbsent(Value& map, std::string_view key, std::string_view text) {
  if (map.is_map() && map.Find(key) == nullptr) map.Add(key, StringValue(text, map.at));
}

// A name left out is the topic.
void ResolveNames(Value& spec, std::string_view list) {
  Value* items = spec.Find(list);
  if (items == nullptr) return;
  for (Value& item : items->items) {
    if (std::optional<std::string_view> topic = StringIn(&item, "topic"))
      SetIfAbsent(item, "name", std::string(*topic));
  }
}

void ResolvePrefetch(Value& spec) {
  Value all = ListValue();
  for (const Value& store : ItemsIn(&spec, "stores")) {
    std::optional<std::string_view> name = StringIn(&store, "name");
    if (name && StringIn(&store, "type") == "KeyValue") all.items.push_back(StringValue(*name, store.at));
  }
  Value* inputs = spec.Find("inputs");
  if (inputs == nullptr) return;
  for (Value& input : inputs->items) {
    if (!input.is_map() || input.Find("prefetch") != nullptr) continue;
    all.at = input.at;
    input.Add("prefetch", all);
  }
}

void ResolveChangelogs(Value& spec, std::string_view group) {
  Value* stores = spec.Find("stores");
  if (stores == nullptr) return;
  for (Value& store : stores->items) {
    std::optional<std::string_view> name = StringIn(&store, "name");
    Value* changelog = store.Find("changelog");
    if (!name || changelog == nullptr || !BoolIn(changelog, "enabled").value_or(false)) continue;
    SetIfAbsent(*changelog, "topic", StrCat(group, "-", *name, "-changelog"));
  }
}

}  // namespace

void ResolveDefaults(Document& document) {
  Value* metadata = document.root.Find("metadata");
  Value* spec = document.root.Find("spec");
  if (metadata != nullptr && metadata->is_map()) {
    if (const Value* name_space = metadata->Find("namespace"); name_space != nullptr && name_space->is_null())
      metadata->Remove("namespace");
    SetIfAbsent(*metadata, "namespace", "default");
  }
  if (spec == nullptr || !spec->is_map()) return;
  for (std::string_view list : {"inputs", "outputs", "joins", "lookups"}) ResolveNames(*spec, list);
  ResolvePrefetch(*spec);
  std::optional<std::string_view> name = StringIn(metadata, "name"), name_space = StringIn(metadata, "namespace");
  if (name && name_space) SetIfAbsent(*spec, "group", StrCat(*name_space, ".", *name));
  std::optional<std::string_view> group = StringIn(spec, "group");
  if (!group) return;
  ResolveChangelogs(*spec, std::string(*group));
  if (Value* errors = spec->Find("errors"))
    SetIfAbsent(*errors, "deadLetterTopic", StrCat(*StringIn(spec, "group"), "-dead-letter"));
}

}  // namespace millstream::spec
