#ifndef MILLSTREAM_COMMON_SPEC_FINDINGS_H_
#define MILLSTREAM_COMMON_SPEC_FINDINGS_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/spec/diagnostic.h"
#include "common/spec/value.h"

namespace millstream::spec {

// Paths as people and the API server write them: spec.inputs[0].topic, create.config[retention.ms].
std::string Child(std::string_view path, std::string_view key);
std::string Child(std::string_view path, size_t index);

// Collects what is found about one document of one file.
class Findings {
 public:
  explicit Findings(std::string_view file) : file_(file) {}

  void Error(Judge judge, Position at, std::string_view path, std::string message);
  void Warning(Position at, std::string_view path, std::string message);
  void Note(Position at, std::string_view path, std::string message);

  bool HasErrors() const { return has_errors_; }
  const std::string& file() const { return file_; }
  // In the order of lines, without repetitions. Empties this object.
  std::vector<Diagnostic> Take();

 private:
  void Add(Severity severity, Judge judge, Position at, std::string_view path, std::string message);

  std::string file_;
  std::vector<Diagnostic> diagnostics_;
  bool has_errors_ = false;
  // Beyond kMaxDiagnostics.
  size_t left_out_ = 0;
  bool left_out_error_ = false;
};

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_FINDINGS_H_
