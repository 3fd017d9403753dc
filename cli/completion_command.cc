#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

// One command of the tree: its path of words ("topics create"), and what may follow.
struct Entry {
  std::string path;
  std::vector<std::pair<std::string, std::string>> words;  // commands and options with their descriptions
};

std::string FirstSentence(const std::string& text) {
  return text.substr(0, std::min(text.find_first_of(".;\n"), size_t{60}));
}

void Collect(const CLI::App& app, const std::string& path, std::vector<Entry>* entries) {
  Entry entry{path, {}};
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* command : commands)
    entry.words.emplace_back(command->get_name(), FirstSentence(command->get_description()));
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames())
      entry.words.emplace_back("--" + name, FirstSentence(option->get_description()));
  }
  entries->push_back(std::move(entry));
  for (const CLI::App* command : commands)
    Collect(*command, path.empty() ? command->get_name() : path + " " + command->get_name(), entries);
}

std::string Quoted(std::string text) {
  for (size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

// bash and zsh share the search for the command that is being typed: the longest path of words that is one of ours.
std::string WordCases(const std::vector<Entry>& entries) {
  std::string cases;
  for (const Entry& entry : entries) {
    std::string words;
    for (const auto& [word, description] : entry.words) StrAppend(&words, words.empty() ? "" : " ", word);
    StrAppend(&cases, "    ", Quoted(entry.path), ") words=", Quoted(words), " ;;\n");
  }
  return cases;
}

std::string FindPath(const std::vector<Entry>& entries, std::string_view word_list) {
  std::string known;
  for (const Entry& entry : entries) {
    if (!entry.path.empty()) StrAppend(&known, known.empty() ? "" : "|", "'", entry.path, "'");
  }
  return StrCat("  local path='' word\n  for word in ", word_list, "; do\n    case \"${path:+$path }$word\" in\n      ",
                known, ") path=\"${path:+$path }$word\" ;;\n    esac\n  done\n");
}

std::string Bash(const std::vector<Entry>& entries) {
  return StrCat(
      "# bash completion of millstream:  source <(millstream completion bash)\n_millstream() {\n  local words=''\n",
      FindPath(entries, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\""), "  case \"$path\" in\n", WordCases(entries),
      "  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F "
      "_millstream millstream\n");
}

std::string Zsh(const std::vector<Entry>& entries) {
  return StrCat(
      "#compdef millstream\n# zsh completion of millstream:  millstream completion zsh > "
      "\"${fpath[1]}/_millstream\"\n_millstream() {\n"
      "  local typed=(\"${words[@]:1:$((CURRENT-2))}\")\n",
      FindPath(entries, "\"${typed[@]}\""), "  local words=''\n  case \"$path\" in\n", WordCases(entries),
      "  esac\n  compadd -- ${=words}\n  _files\n}\ncompdef _millstream millstream\n");
}

std::string Fish(const std::vector<Entry>& entries) {
  std::string script =
      "# fish completion of millstream:  millstream completion fish > ~/.config/fish/completions/millstream.fish\n";
  for (const Entry& entry : entries) {
    std::string condition;
    if (entry.path.empty()) {
      condition = "__fish_use_subcommand";
    } else {
      for (size_t begin = 0, end; begin < entry.path.size(); begin = end + 1) {
        end = std::min(entry.path.find(' ', begin), entry.path.size());
        StrAppend(&condition, condition.empty() ? "" : "; and ", "__fish_seen_subcommand_from ",
                  entry.path.substr(begin, end - begin));
      }
    }
    for (const auto& [word, description] : entry.words) {
      const bool option = word.rfind("--", 0) == 0;
      StrAppend(&script, "complete -c millstream -n ", Quoted(condition), option ? " -l " : " -f -a ",
                option ? word.substr(2) : word, " -d ", Quoted(description), "\n");
    }
  }
  return script;
}

}  // namespace

void RegisterCompletion(CLI::App* app, Context* context) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app->add_subcommand("completion", "Print the completion script of a shell");
  command->add_option("shell", *shell, "Shell")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "Examples:\n  source <(millstream completion bash)\n  millstream completion zsh > \"${fpath[1]}/_millstream\"\n"
      "  millstream completion fish > ~/.config/fish/completions/millstream.fish");
  command->callback([=] {
    context->selected = [=] {
      std::vector<Entry> entries;
      Collect(*app, "", &entries);
      std::cout << (*shell == "bash" ? Bash(entries) : *shell == "zsh" ? Zsh(entries) : Fish(entries));
      std::cout.flush();
      return kExitOk;
    };
  });
}

}  // namespace millstream::cli
