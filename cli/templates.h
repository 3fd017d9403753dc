#ifndef MILLSTREAM_CLI_TEMPLATES_H_
#define MILLSTREAM_CLI_TEMPLATES_H_

#include <string_view>
#include <vector>

namespace millstream::cli {

// One file of what `millstream init` writes, from cli/templates/<language>/<path>, embedded by the build
// (embed_templates.cmake).
// "__NAME__" stands for the processor's name.
struct TemplateFile {
  std::string_view language, path, text;
};

const std::vector<TemplateFile>& TemplateFiles();

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_TEMPLATES_H_
