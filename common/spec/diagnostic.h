#ifndef MILLSTREAM_COMMON_SPEC_DIAGNOSTIC_H_
#define MILLSTREAM_COMMON_SPEC_DIAGNOSTIC_H_

#include <string>
#include <string_view>
#include <vector>

namespace millstream::spec {

enum class Severity {
  kError,    // the manifest is refused
  kWarning,  // accepted; something will probably not do what was meant
  kNote,     // accepted; for information (a document of another kind was skipped)
};

// Who finds the same fault when the manifest is applied to a cluster. Golden cases name it; people do not see it in
// text.
enum class Judge {
  kSchema,  // the API server, by the OpenAPI schema of the CRD
  kCel,     // the API server, by a CEL rule of the CRD, which this folder mirrors in code
  kCode,    // this folder only: an API server accepts it
};

// One finding about a manifest: where, what, and the way out.
struct Diagnostic {
  Severity severity = Severity::kError;
  Judge judge = Judge::kCode;
  std::string file;     // as it was given; "-" for standard input
  int line = 0;         // from 1; 0: the file as a whole
  int column = 0;       // from 1; 0: no column
  std::string path;     // spec.inputs[0].topic; empty: the document as a whole
  std::string message;  // what is wrong, and in the same line what to do about it
};

// "processor.yaml:12:5: spec.inputs[0].topic: ..." ; warnings and notes carry their word after the place.
std::string ToText(const Diagnostic& diagnostic);
// One line each, in order, every line ended.
std::string ToText(const std::vector<Diagnostic>& diagnostics);
// A JSON array of objects {severity, judge, file, line, column, path, message}, indented.
std::string ToJson(const std::vector<Diagnostic>& diagnostics);

bool HasErrors(const std::vector<Diagnostic>& diagnostics);

std::string_view ToString(Severity severity);  // "error", "warning", "note"
std::string_view ToString(Judge judge);        // "schema", "cel", "code"

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_DIAGNOSTIC_H_
