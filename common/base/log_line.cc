#include "common/base/log_line.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

namespace millstream {
namespace {

std::atomic<LogFormat> g_format{LogFormat::kText};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger("millstream", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %v", spdlog::pattern_time_type::utc);
    return made;
  }();
  return *logger;
}

void AppendJsonString(std::string_view text, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  out->push_back('"');
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (byte < 0x20) {
      *out += "\\u00";
      out->push_back(kHex[byte >> 4]);
      out->push_back(kHex[byte & 15]);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

std::string JsonLine(std::string_view message, std::initializer_list<LogField> fields) {
  std::string out;
  AppendJsonString(message, &out);
  for (const LogField& field : fields) {
    out += ",";
    AppendJsonString(field.name, &out);
    out += ":";
    AppendJsonString(field.value, &out);
  }
  return out;
}

std::string TextLine(std::string_view message, std::initializer_list<LogField> fields) {
  std::string out(message);
  for (const LogField& field : fields) StrAppend(&out, "  ", field.name, "=", field.value);
  return out;
}

}  // namespace

void SetLogging(LogLevel level, LogFormat format) {
  Logger().set_level(ToSpdlog(level));
  g_format = format;
  Logger().set_pattern(format == LogFormat::kJson ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":%v})"
                                                  : "%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %v",
                       spdlog::pattern_time_type::utc);
}

bool LogEnabled(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!LogEnabled(level)) return;
  Logger().log(ToSpdlog(level), "{}",
               g_format == LogFormat::kJson ? JsonLine(message, fields) : TextLine(message, fields));
}

}  // namespace millstream
