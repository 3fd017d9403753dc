#ifndef MILLSTREAM_COMMON_SPEC_DOCUMENT_H_
#define MILLSTREAM_COMMON_SPEC_DOCUMENT_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/spec/findings.h"
#include "common/spec/schema.h"
#include "common/spec/value.h"

// One StreamProcessor on its way from text to struct, and the passes it goes through, in this order (manifest.cc).
// Every pass works on documents with any faults, reports all it finds, and never stops at the first.

namespace millstream::spec {

struct Document {
  std::string file;
  Value root;
  std::string prefix;  // empty, or items[n] inside a List
  Findings findings;
  // Fields that were there without a value, for better messages.
  std::map<std::string, Position> empty_fields;

  const Value* spec() const { return root.Find("spec"); }
  const Value* metadata() const { return root.Find("metadata"); }
  std::string SpecPath() const { return Child(prefix, "spec"); }
};

// 1. Fields the schema does not have, with the field that was meant; they are removed.
void RefuseUnknownFields(Document& document);
// 2. Fields without a value are removed, defaults of the schema filled in, whole numbers like 3.0 made integers.
void ApplySchemaDefaults(Document& document);
// 3. Everything the OpenAPI schema demands, and bounds written as CEL rules.
void CheckSchema(Document& document);
// 4. What the API server checks in metadata.
void CheckMetadata(Document& document);
// 5. CEL rules of the schema that are no plain bounds.
void CheckCelRules(Document& document);
// 6. Fields whose feature is not built yet.
void RefuseUnsupported(Document& document);
// 7. Defaults that depend on other fields: group, names, prefetch, topics.
void ResolveDefaults(Document& document);
// 8. Rules no API server can check, within one processor; warnings and notes.
void CheckCodeRules(Document& document);
// 9. Rules between processors: each finding goes to the later one and names the earlier.
void CheckBetween(const std::vector<Document*>& documents);

// The CEL rules step 5 mirrors, by their messages; for the test that compares them with the schema's.
std::vector<std::string> MirroredRuleMessages();

// A rule in code for one message of the schema.
struct MirroredRule {
  std::string_view message;
  void (*check)(Document& document, std::string_view message);
};
const std::vector<MirroredRule>& NamingRules();  // rules_naming.cc: topics and names, over the whole spec
const std::vector<MirroredRule>& FieldRules();   // rules_fields.cc: fields that belong together

// The one CEL rule at the root of the schema; CheckMetadata mirrors it.
inline constexpr std::string_view kNameRuleMessage =
    "the name must be a DNS label: at most 52 lower-case letters, digits and hyphens, first a letter, last no hyphen";

// "processor.yaml:12", or "line 12" when both are in the same file.
std::string Place(const Document& here, const Document& there, Position at);

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_DOCUMENT_H_
