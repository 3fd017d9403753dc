// embed_schema CRD.yaml OUT.cc: at build time, the OpenAPI schema of the resource definition as a string in a source
// file, so that the programs check manifests with the very file the API server gets. Descriptions are left out: they
// are for people.

#include <fstream>
#include <iostream>
#include <sstream>

#include "common/spec/reader.h"
#include "common/spec/value.h"

namespace millstream::spec {
namespace {

// A property may be called description: only the text beside a type is one.
void DropDescriptions(Value& node, bool is_property_list) {
  if (!is_property_list) {
    const Value* description = node.Find("description");
    if (description != nullptr && description->is_string()) node.Remove("description");
  }
  for (Member& member : node.members) {
    if (member.value.is_map()) DropDescriptions(member.value, !is_property_list && member.key == "properties");
  }
}

int Run(const char* in, const char* out) {
  std::ifstream file(in);
  std::stringstream text;
  text << file.rdbuf();
  ReadResult result = ReadYaml(text.str());
  if (!file || result.error || result.documents.size() != 1) {
    std::cerr << in << ": " << (result.error ? result.error->message : "not one readable YAML document") << "\n";
    return 1;
  }
  const Value* versions = result.documents[0].Find("spec", "versions");
  const Value* schema = versions == nullptr || versions->items.size() != 1
                            ? nullptr
                            : versions->items[0].Find("schema", "openAPIV3Schema");
  if (schema == nullptr) {
    std::cerr << in << ": no spec.versions[0].schema.openAPIV3Schema\n";
    return 1;
  }
  Value stripped = *schema;
  DropDescriptions(stripped, false);
  std::string json = ToCanonicalJson(stripped);
  std::ofstream source(out);
  source << "// Made by embed_schema from crds/streamprocessors.yaml.\n#include \"common/spec/schema.h\"\n"
         << "namespace millstream::spec {\nconst char* const kEmbeddedSchema =\n";
  constexpr size_t kPiece = 8000;  // compilers bound the length of one literal
  for (size_t at = 0; at < json.size(); at += kPiece)
    source << "R\"schema(" << json.substr(at, kPiece) << ")schema\"\n";
  source << ";\n}  // namespace millstream::spec\n";
  return source.good() ? 0 : 1;
}

}  // namespace
}  // namespace millstream::spec

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: embed_schema CRD.yaml OUT.cc\n";
    return 2;
  }
  return millstream::spec::Run(argv[1], argv[2]);
}
