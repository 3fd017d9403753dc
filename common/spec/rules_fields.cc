// CEL rules of the schema about fields that belong together, mirrored under the schema's messages.

#include <array>
#include <functional>

#include "common/base/protected_config.h"
#include "common/base/strings.h"
#include "common/spec/document.h"
#include "common/spec/duration.h"

namespace millstream::spec {
namespace {

// A map in the spec and its path.
struct Block {
  const Value* value = nullptr;
  std::string path;

  bool Has(std::string_view key) const { return value->Find(key) != nullptr; }
  std::optional<std::string_view> Text(std::string_view key) const { return StringIn(value, key); }
  std::optional<absl::Duration> Duration(std::string_view key) const {
    std::optional<std::string_view> text = Text(key);
    return text ? ParseDuration(*text) : std::nullopt;
  }
};

// Every map at a path below spec; "[]" stands for all items of a list.
std::vector<Block> Blocks(const Document& document, std::initializer_list<std::string_view> steps) {
  std::vector<Block> blocks;
  if (document.spec() != nullptr) blocks.push_back({document.spec(), document.SpecPath()});
  for (std::string_view step : steps) {
    std::vector<Block> next;
    for (const Block& block : blocks) {
      if (step == "[]") {
        for (size_t i = 0; i < block.value->items.size(); ++i)
          next.push_back({&block.value->items[i], Child(block.path, i)});
      } else if (const Value* child = block.value->Find(step)) {
        next.push_back({child, Child(block.path, step)});
      }
    }
    blocks = std::move(next);
  }
  std::erase_if(blocks, [](const Block& block) { return !block.value->is_map(); });
  return blocks;
}

// At the field if it is there, at its block if it is missing.
void Refuse(Document& document, const Block& block, std::string_view field, std::string message) {
  const Member* member = block.value->FindMember(field);
  document.findings.Error(Judge::kCel, member == nullptr ? block.value->at : member->key_at, Child(block.path, field),
                          std::move(message));
}

void CheckTls(Document& document, std::string_view message) {
  for (const Block& tls : Blocks(document, {"kafka", "tls"})) {
    if (tls.Has("caSecretRef") && tls.Has("caConfigMapRef"))
      Refuse(document, tls, "caConfigMapRef", StrCat(message, ": remove one"));
  }
}

void CheckClientCertificate(Document& document, std::string_view message) {
  for (const Block& tls : Blocks(document, {"kafka", "tls"})) {
    if (tls.Has("certSecretRef") == tls.Has("keySecretRef")) continue;
    Refuse(document, tls, tls.Has("certSecretRef") ? "keySecretRef" : "certSecretRef", std::string(message));
  }
}

void CheckOauth(Document& document, std::string_view message) {
  for (const Block& sasl : Blocks(document, {"kafka", "sasl"})) {
    if (!sasl.Text("mechanism")) continue;
    if ((sasl.Text("mechanism") == "OAUTHBEARER") != sasl.Has("oauth"))
      Refuse(document, sasl, "oauth", std::string(message));
  }
}

bool WantsPassword(const Block& sasl) { return sasl.Text("mechanism") && sasl.Text("mechanism") != "OAUTHBEARER"; }

void CheckUserName(Document& document, std::string_view message) {
  for (const Block& sasl : Blocks(document, {"kafka", "sasl"})) {
    if (!WantsPassword(sasl) || sasl.Has("username") != sasl.Has("usernameSecretRef")) continue;
    Refuse(document, sasl, sasl.Has("username") ? "usernameSecretRef" : "username", std::string(message));
  }
}

void CheckPassword(Document& document, std::string_view message) {
  for (const Block& sasl : Blocks(document, {"kafka", "sasl"})) {
    if (WantsPassword(sasl) && !sasl.Has("passwordSecretRef"))
      Refuse(document, sasl, "passwordSecretRef", std::string(message));
  }
}

void CheckNoPassword(Document& document, std::string_view message) {
  for (const Block& sasl : Blocks(document, {"kafka", "sasl"})) {
    if (sasl.Text("mechanism") != "OAUTHBEARER") continue;
    for (std::string_view field : {"username", "usernameSecretRef", "passwordSecretRef"}) {
      if (sasl.Has(field)) Refuse(document, sasl, field, std::string(message));
    }
  }
}

void CheckKafkaConfig(Document& document, std::string_view message) {
  for (const Block& config : Blocks(document, {"kafka", "config"})) {
    for (const Member& property : config.value->members) {
      const ProtectedProperty* refused = FindProtectedProperty(property.key);
      if (refused == nullptr) continue;
      document.findings.Error(Judge::kCel, property.key_at, Child(config.path, property.key),
                              StrCat(message, "; ", WayOut(*refused)));
    }
  }
}

void CheckStartFrom(Document& document, std::string_view message) {
  for (const Block& start : Blocks(document, {"inputs", "[]", "startFrom"})) {
    if ((start.Text("type") == "Timestamp") != start.Has("time")) Refuse(document, start, "time", std::string(message));
  }
}

void CheckWindowAdvance(Document& document, std::string_view message) {
  for (const Block& window : Blocks(document, {"stores", "[]", "window"})) {
    std::optional<absl::Duration> size = window.Duration("size"), advance = window.Duration("advance");
    if (size && advance && *advance > *size) Refuse(document, window, "advance", std::string(message));
  }
}

void CheckRetention(Document& document, std::string_view message, std::string_view block, std::string_view length) {
  for (const Block& store : Blocks(document, {"stores", "[]", block})) {
    std::optional<absl::Duration> size = store.Duration(length), grace = store.Duration("grace"),
                                  retention = store.Duration("retention");
    if (size && grace && retention && *retention < *size + *grace) {
      Refuse(document, store, "retention", StrCat(message, ", ", DurationText(*size + *grace)));
    }
  }
}

void CheckCleanupPolicy(Document& document, std::string_view message) {
  std::vector<Block> configs = Blocks(document, {"stores", "[]", "changelog", "config"});
  for (const Block& config : Blocks(document, {"internalTopics", "config"})) configs.push_back(config);
  for (const Block& config : configs) {
    if (config.Has("cleanup.policy")) Refuse(document, config, "cleanup.policy", StrCat(message, ": leave it out"));
  }
}

void CheckChangelogEnabled(Document& document, std::string_view message) {
  for (const Block& changelog : Blocks(document, {"stores", "[]", "changelog"})) {
    if (BoolIn(changelog.value, "enabled").value_or(true)) continue;
    for (std::string_view field : {"topic", "config"}) {
      if (changelog.Has(field)) Refuse(document, changelog, field, std::string(message));
    }
  }
}

void CheckStoreBlock(Document& document, std::string_view message, std::string_view type, std::string_view block) {
  for (const Block& store : Blocks(document, {"stores", "[]"})) {
    if (store.Text("type") && (store.Text("type") == type) != store.Has(block))
      Refuse(document, store, block, std::string(message));
  }
}

void CheckTtl(Document& document, std::string_view message) {
  for (const Block& store : Blocks(document, {"stores", "[]"})) {
    if (store.Text("type") && store.Text("type") != "KeyValue" && store.Has("ttl"))
      Refuse(document, store, "ttl", std::string(message));
  }
}

// Both durations of a block, where they are readable.
void CheckDurations(Document& document, std::string_view message, std::initializer_list<std::string_view> path,
                    std::string_view first, std::string_view second, bool (*fits)(absl::Duration, absl::Duration)) {
  for (const Block& block : Blocks(document, path)) {
    std::optional<absl::Duration> a = block.Duration(first), b = block.Duration(second);
    if (!a || !b || fits(*a, *b)) continue;
    Refuse(document, block, first, StrCat(message, "; they are ", DurationText(*a), " and ", DurationText(*b)));
  }
}

void CheckAutoscale(Document& document, std::string_view message) {
  for (const Block& block : Blocks(document, {"autoscale"})) {
    std::optional<int64_t> low = IntIn(block.value, "minReplicas"), high = IntIn(block.value, "maxReplicas");
    if (low && high && *low > *high)
      Refuse(document, block, "minReplicas", StrCat(message, "; they are ", *low, " and ", *high));
  }
}

}  // namespace

const std::vector<MirroredRule>& FieldRules() {
  static const std::vector<MirroredRule>* const rules = new std::vector<MirroredRule>{
      {"caSecretRef and caConfigMapRef exclude each other", CheckTls},
      {"certSecretRef and keySecretRef belong together: set both or none", CheckClientCertificate},
      {"oauth is needed by mechanism OAUTHBEARER and belongs to no other", CheckOauth},
      {"set exactly one of username and usernameSecretRef", CheckUserName},
      {"passwordSecretRef is needed by this mechanism", CheckPassword},
      {"username and password do not belong to mechanism OAUTHBEARER: use oauth", CheckNoPassword},
      {"config must not hold properties that Millstream sets itself: ids, guarantee, offsets, memory, and what "
       "kafka.tls, kafka.sasl and membership say",
       CheckKafkaConfig},
      {"time is needed by type Timestamp and belongs to no other type", CheckStartFrom},
      {"advance must not be above size: records between two windows would be in none", CheckWindowAdvance},
      {"retention must be at least size and grace",
       [](Document& d, std::string_view m) { CheckRetention(d, m, "window", "size"); }},
      {"retention must be at least gap and grace",
       [](Document& d, std::string_view m) { CheckRetention(d, m, "session", "gap"); }},
      {"cleanup.policy cannot be set here: Millstream compacts changelogs and keeps dead letters", CheckCleanupPolicy},
      {"topic and config do not belong to a changelog that is not enabled", CheckChangelogEnabled},
      {"window is needed by type Window and belongs to no other type",
       [](Document& d, std::string_view m) { CheckStoreBlock(d, m, "Window", "window"); }},
      {"session is needed by type Session and belongs to no other type",
       [](Document& d, std::string_view m) { CheckStoreBlock(d, m, "Session", "session"); }},
      {"ttl belongs to type KeyValue: windows and sessions have a retention", CheckTtl},
      {"minDuration must not be above maxDuration",
       [](Document& d, std::string_view m) {
         CheckDurations(d, m, {"transaction"}, "minDuration", "maxDuration", [](auto a, auto b) { return a <= b; });
       }},
      {"maxDuration must be below timeout",
       [](Document& d, std::string_view m) {
         CheckDurations(d, m, {"transaction"}, "maxDuration", "timeout", [](auto a, auto b) { return a < b; });
       }},
      {"initial must not be above max",
       [](Document& d, std::string_view m) {
         CheckDurations(d, m, {"errors", "backoff"}, "initial", "max", [](auto a, auto b) { return a <= b; });
       }},
      {"sessionTimeout must be at least three times heartbeatInterval",
       [](Document& d, std::string_view m) {
         CheckDurations(d, m, {"membership"}, "sessionTimeout", "heartbeatInterval",
                        [](auto a, auto b) { return a >= 3 * b; });
       }},
      {"minReplicas must not be above maxReplicas", CheckAutoscale},
  };
  return *rules;
}

void CheckCelRules(Document& document) {
  for (const MirroredRule& rule : NamingRules()) rule.check(document, rule.message);
  for (const MirroredRule& rule : FieldRules()) rule.check(document, rule.message);
}

std::vector<std::string> MirroredRuleMessages() {
  std::vector<std::string> messages = {std::string(kNameRuleMessage)};
  for (const MirroredRule& rule : NamingRules()) messages.emplace_back(rule.message);
  for (const MirroredRule& rule : FieldRules()) messages.emplace_back(rule.message);
  return messages;
}

}  // namespace millstream::spec
