#ifndef MILLSTREAM_COMMON_SPEC_MANIFEST_H_
#define MILLSTREAM_COMMON_SPEC_MANIFEST_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/spec/diagnostic.h"
#include "common/spec/stream_processor.h"

namespace millstream::spec {

// A StreamProcessor that passed every check.
struct Manifest {
  std::string file;
  int line = 0;  // where its document starts, from 1
  StreamProcessorSpec processor;
  // apiVersion, kind, metadata {name, namespace} and the whole spec, defaults and resolved names filled in, keys
  // sorted, no white space: for hashing (labels, annotations and the order of fields change nothing) and for the
  // operator's ConfigMap. Parsing it again gives the same bytes.
  std::string canonical_json;
};

struct ParseResult {
  // Those without errors, in the order of files and documents.
  std::vector<Manifest> manifests;
  // Everything found, errors, warnings and notes, in the order of files and lines. All of them, not the first.
  std::vector<Diagnostic> diagnostics;

  bool ok() const { return !HasErrors(diagnostics); }
};

// Bounds on what is read at all; beyond them there is one diagnostic and nothing else is looked at.
inline constexpr size_t kMaxManifestBytes = 1
                                            << 20;  // etcd takes 1.5 MiB at most, so no larger object could be applied
inline constexpr int kMaxManifestDepth = 64;        // a pod template needs about 12
inline constexpr int kMaxManifestNodes = 100'000;   // after aliases are expanded: stops "billion laughs"
inline constexpr int kMaxManifestDocuments = 1'000;
inline constexpr size_t kMaxDiagnostics = 1'000;  // per file; one more says that the rest is left out

// Reads YAML (several documents) or JSON. `file` only names the text in diagnostics. Documents of another kind are
// skipped with a note. Checks within the file, also between its documents (a group used twice, colliding internal
// topics). Never fails otherwise: what is wrong is in the diagnostics.
ParseResult ParseManifests(std::string_view text, std::string_view file);

// The same over several files, with the checks between processors of all of them. "-" is standard input. A file that
// cannot be read is an error diagnostic. Behind `millstream validate FILE...` and `millstream run -f ...`.
ParseResult ValidateFiles(const std::vector<std::string>& files);

// For callers that want exactly one processor (the sidecar's configuration): InvalidArgument with every diagnostic as
// text when the file has errors or not exactly one processor.
absl::StatusOr<Manifest> LoadOneManifest(const std::string& file);

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_MANIFEST_H_
