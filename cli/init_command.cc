#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <regex>
#include <set>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "cli/templates.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "nlohmann/json.hpp"

namespace millstream::cli {
namespace {

namespace fs = std::filesystem;

struct InitOptions {
  std::string directory = ".";
  std::string language = "python";
  std::string name;
  bool force = false;
};

std::vector<std::string> Languages() {
  std::set<std::string> languages;
  for (const TemplateFile& file : TemplateFiles()) languages.insert(std::string(file.language));
  return {languages.begin(), languages.end()};
}

// The folder's name brought into the form of a resource name.
std::string NameFrom(const std::string& directory) {
  std::string name;
  for (const char c : fs::absolute(directory).lexically_normal().filename().empty()
                          ? fs::absolute(directory).lexically_normal().parent_path().filename().string()
                          : fs::absolute(directory).lexically_normal().filename().string()) {
    const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    name += std::isalnum(static_cast<unsigned char>(lower)) != 0 ? lower : '-';
  }
  name.erase(0, name.find_first_not_of("-0123456789") == std::string::npos ? name.size()
                                                                           : name.find_first_not_of("-0123456789"));
  name.resize(std::min<size_t>(name.size(), 52));
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "hello" : name;
}

std::string Filled(std::string_view text, const std::string& name) {
  constexpr std::string_view kMark = "__NAME__";
  std::string filled(text);
  for (size_t at = 0; (at = filled.find(kMark, at)) != std::string::npos; at += name.size())
    filled.replace(at, kMark.size(), name);
  return filled;
}

// What to type in the new folder.
std::string FirstSteps(std::string_view language, const std::string& name) {
  if (language == "go") return StrCat("  go mod tidy && go build\n  millstream run -f processor.yaml -- ./", name);
  if (language == "rust") return StrCat("  cargo build\n  millstream run -f processor.yaml -- target/debug/", name);
  if (language == "typescript")
    return "  npm install && npm run build\n  millstream run -f processor.yaml -- node dist/app.js";
  if (language == "java")
    return StrCat("  mvn package\n  millstream run -f processor.yaml -- java -jar target/", name, ".jar");
  if (language == "cpp")
    return StrCat("  cmake -B build && cmake --build build\n  millstream run -f processor.yaml -- build/", name);
  return "  pip install -r requirements.txt    # not in the `./dev shell` of a checkout, which has it\n"
         "  millstream run -f processor.yaml --watch -- python app.py";
}

absl::StatusOr<std::vector<std::string>> WriteFiles(const InitOptions& options, const std::string& name) {
  std::vector<std::string> written;
  std::error_code error;
  fs::create_directories(options.directory, error);
  if (error) return absl::FailedPreconditionError(StrCat("folder ", options.directory, ": ", error.message()));
  // Nothing is written when something is in the way.
  for (const TemplateFile& file : TemplateFiles()) {
    const std::string path = StrCat(options.directory, "/", file.path);
    if (file.language == options.language && !options.force && fs::exists(path)) {
      return absl::AlreadyExistsError(
          StrCat(path, " is there already; choose another folder, or --force to write over it"));
    }
  }
  for (const TemplateFile& file : TemplateFiles()) {
    if (file.language != options.language) continue;
    const fs::path path = fs::path(options.directory) / file.path;
    fs::create_directories(path.parent_path(), error);
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << Filled(file.text, name);
    out.close();
    if (!out) return absl::FailedPreconditionError(StrCat(path.string(), " cannot be written"));
    written.push_back(path.lexically_normal().string());
  }
  return written;
}

int Init(const Context& context, const InitOptions& options) {
  const std::string name = options.name.empty() ? NameFrom(options.directory) : options.name;
  if (!std::regex_match(name, std::regex("[a-z]([-a-z0-9]{0,50}[a-z0-9])?"))) {
    return context.Misuse(
        StrCat("--name ", name, ": use 1 to 52 of a-z, 0-9 and -, beginning with a letter and not ending with -"));
  }
  const absl::StatusOr<std::vector<std::string>> written = WriteFiles(options, name);
  if (!written.ok()) return context.Fail(written.status());
  if (context.json) {
    std::cout << nlohmann::json{{"name", name}, {"language", options.language}, {"files", *written}}.dump()
              << std::endl;
    return kExitOk;
  }
  for (const std::string& path : *written) std::cout << "  " << path << "\n";
  std::cout << "\nNext:\n";
  if (fs::absolute(options.directory).lexically_normal() != fs::current_path())
    std::cout << "  cd " << options.directory << "\n";
  std::cout << FirstSteps(options.language, name) << std::endl;
  return kExitOk;
}

}  // namespace

void RegisterInit(CLI::App* app, Context* context) {
  auto options = std::make_shared<InitOptions>();
  CLI::App* command = app->add_subcommand("init", "Begin a new processor: program, manifest, test, Dockerfile");
  command->add_option("directory", options->directory, "Folder; made if it is not there")
      ->capture_default_str()
      ->type_name("DIR");
  command->add_option("--lang", options->language, "Language of the program")
      ->check(CLI::IsMember(Languages()))
      ->capture_default_str();
  command->add_option("--name", options->name, "Name of the processor; default: the folder's");
  command->add_flag("--force", options->force, "Write over files that are there");
  context->AddOutputOption(command);
  command->footer(
      "Example:\n  millstream init word-count --lang python && cd word-count && millstream run -f processor.yaml -- "
      "python app.py");
  command->callback([=] { context->selected = [=] { return Init(*context, *options); }; });
}

}  // namespace millstream::cli
