#include "common/spec/manifest.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "common/base/strings.h"
#include "common/spec/decode.h"
#include "common/spec/document.h"
#include "common/spec/reader.h"
#include "common/spec/suggest.h"

namespace millstream::spec {
namespace {

constexpr std::string_view kApiVersion = "millstream.dev/v1alpha1";
constexpr std::string_view kKind = "StreamProcessor";

// One file: its processors, and what is found outside of them.
struct File {
  explicit File(std::string_view name) : findings(name) {}

  std::vector<std::unique_ptr<Document>> documents;
  Findings findings;
};

// Whether a document is meant to be ours; says what is wrong with its kind where it is not quite.
bool IsProcessor(const Value& root, const std::string& prefix, Findings& findings) {
  std::string_view version = StringIn(&root, "apiVersion").value_or("");
  std::string_view kind = StringIn(&root, "kind").value_or("");
  auto place = [&](std::string_view key) { return root.Find(key) == nullptr ? root.at : root.Find(key)->at; };
  if (!root.is_map()) {
    findings.Error(
        Judge::kSchema, root.at, prefix,
        StrCat("a manifest is a map with apiVersion, kind, metadata and spec, but this is ", Describe(root)));
    return false;
  }
  bool our_group = version == "millstream.dev" || version.starts_with("millstream.dev/");
  bool our_kind = kind == kKind;
  if (version == kApiVersion && our_kind) return true;
  if (our_kind || our_group || (version.empty() && kind.empty()) ||
      (version.empty() && Suggest(kind, {std::string(kKind)}))) {
    bool recognized = our_kind || our_group;
    if (version != kApiVersion) {
      findings.Error(
          Judge::kSchema, place("apiVersion"), Child(prefix, "apiVersion"),
          StrCat(version.empty() ? "is required" : "is not known here", ": write apiVersion: ", kApiVersion));
    }
    if (!our_kind) {
      findings.Error(Judge::kSchema, place("kind"), Child(prefix, "kind"),
                     StrCat(kind.empty() ? "is required" : "is not known here", ": write kind: ", kKind));
    }
    return recognized;  // whose faults are shown with the rest
  }
  findings.Note(root.at, prefix,
                StrCat("a ", kind.empty() ? "document without kind" : kind,
                       version.empty() ? "" : StrCat(" (", version, ")"), " is no StreamProcessor: skipped"));
  return false;
}

void CheckDocument(Document& document) {
  document.root.Remove("status");  // written by the operator; `kubectl get -o yaml` shows it
  RefuseUnknownFields(document);
  ApplySchemaDefaults(document);
  CheckSchema(document);
  CheckMetadata(document);
  CheckCelRules(document);
  RefuseUnsupported(document);
  ResolveDefaults(document);
  CheckCodeRules(document);
}

void AddDocument(File& file, Value root, std::string prefix) {
  if (!IsProcessor(root, prefix, file.findings)) return;
  file.documents.push_back(std::unique_ptr<Document>(
      new Document{file.findings.file(), std::move(root), std::move(prefix), Findings(file.findings.file()), {}}));
  CheckDocument(*file.documents.back());
}

File CheckText(std::string_view text, std::string_view name) {
  File file(name);
  ReadResult result = ReadDocuments(text);
  if (result.error) {
    bool template_marks = text.find("{{") != std::string_view::npos;
    file.findings.Error(
        result.error->judge, result.error->at, "",
        StrCat(result.error->message, template_marks ? "; if this is a template ({{ }}), render it first" : ""));
  }
  if (!result.error && result.documents.empty()) {
    file.findings.Error(Judge::kSchema, {}, "", "is empty: there is no manifest in it");
  }
  for (Value& root : result.documents) {
    bool is_list = StringIn(&root, "kind") == "List" && StringIn(&root, "apiVersion") == "v1";
    if (!is_list) {
      AddDocument(file, std::move(root), "");
      continue;
    }
    Value* items = root.Find("items");
    for (size_t i = 0; items != nullptr && i < items->items.size(); ++i)
      AddDocument(file, std::move(items->items[i]), Child("items", i));
  }
  return file;
}

// Between the files, then everything together.
ParseResult Finish(std::vector<File> files) {
  ParseResult result;
  std::vector<Document*> all;
  for (const File& file : files) {
    for (const auto& document : file.documents) all.push_back(document.get());
  }
  CheckBetween(all);
  for (File& file : files) {
    bool file_readable = !file.findings.HasErrors();
    std::vector<Diagnostic> found = file.findings.Take();
    for (const auto& document : file.documents) {
      if (file_readable && !document->findings.HasErrors()) {
        result.manifests.push_back(
            {document->file, document->root.at.line, DecodeProcessor(*document), CanonicalJsonOf(*document)});
      }
      std::vector<Diagnostic> more = document->findings.Take();
      found.insert(found.end(), more.begin(), more.end());
    }
    std::stable_sort(found.begin(), found.end(), [](const Diagnostic& a, const Diagnostic& b) {
      return std::pair(a.line, a.column) < std::pair(b.line, b.column);
    });
    result.diagnostics.insert(result.diagnostics.end(), found.begin(), found.end());
  }
  return result;
}

// At most one byte more than a manifest may have: enough to be refused for its size.
absl::StatusOr<std::string> ReadFile(const std::string& name) {
  std::ifstream file;
  if (name != "-") {
    file.open(name, std::ios::binary);
    if (!file.is_open()) return absl::NotFoundError("cannot be opened: does it exist, and may it be read?");
  }
  std::istream& in = name == "-" ? std::cin : file;
  std::string text(kMaxManifestBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (in.fail() && !in.eof())) return absl::UnavailableError("cannot be read: is it a folder?");
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

}  // namespace

ParseResult ParseManifests(std::string_view text, std::string_view file) {
  std::vector<File> files;
  files.push_back(CheckText(text, file));
  return Finish(std::move(files));
}

ParseResult ValidateFiles(const std::vector<std::string>& names) {
  std::vector<File> files;
  for (const std::string& name : names) {
    absl::StatusOr<std::string> text = ReadFile(name);
    if (text.ok()) {
      files.push_back(CheckText(*text, name));
    } else {
      files.emplace_back(name);
      files.back().findings.Error(Judge::kCode, {}, "", std::string(text.status().message()));
    }
  }
  return Finish(std::move(files));
}

absl::StatusOr<Manifest> LoadOneManifest(const std::string& file) {
  ParseResult result = ValidateFiles({file});
  if (!result.ok()) return absl::InvalidArgumentError(ToText(result.diagnostics));
  if (result.manifests.size() != 1) {
    return absl::InvalidArgumentError(
        StrCat(file, ": holds ", result.manifests.size(), " StreamProcessors; exactly one is wanted here"));
  }
  return std::move(result.manifests.front());
}

}  // namespace millstream::spec
