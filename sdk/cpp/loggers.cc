#include <cstdio>

#include "common/base/strings.h"
#include "millstream/worker.h"

namespace millstream::worker {
namespace {

// A JSON string. Bytes that are not ASCII are passed on: the texts are UTF-8.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(c));
      quoted += escaped;
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string_view Name(LogSeverity severity) {
  switch (severity) {
    case LogSeverity::kInfo:
      return "info";
    case LogSeverity::kWarning:
      return "warning";
    case LogSeverity::kError:
      return "error";
  }
  return "";
}

// In one piece, so that lines of threads do not mix.
void Write(const std::string& line) { std::fwrite(line.data(), 1, line.size(), stderr); }

}  // namespace

Logger JsonLogger() {
  return [](LogSeverity severity, std::string_view message, const auto& fields) {
    std::string line = StrCat("{\"level\":", Quoted(Name(severity)), ",\"message\":", Quoted(message));
    for (const auto& [name, value] : fields) StrAppend(&line, ",", Quoted(name), ":", Quoted(value));
    Write(line + "}\n");
  };
}

Logger TextLogger() {
  return [](LogSeverity severity, std::string_view message, const auto& fields) {
    std::string line = "millstream: ";
    if (severity != LogSeverity::kInfo) StrAppend(&line, Name(severity), ": ");
    StrAppend(&line, message);
    for (const auto& [name, value] : fields) StrAppend(&line, " ", name, "=", value);
    Write(line + "\n");
  };
}

}  // namespace millstream::worker
