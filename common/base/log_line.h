#ifndef MILLSTREAM_COMMON_BASE_LOG_LINE_H_
#define MILLSTREAM_COMMON_BASE_LOG_LINE_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/strings.h"

namespace millstream {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

// One named value of a log line. Never put record payloads or credentials into one.
struct LogField {
  std::string_view name;
  std::string value;

  template <typename T>
  LogField(std::string_view field_name, const T& field_value) : name(field_name), value(StrCat(field_value)) {}
};

// Process-wide, thread-safe. Lines go to standard error. `level` may be changed while running.
void SetLogging(LogLevel level, LogFormat format);

// Log(LogLevel::kInfo, "task restored", {{"task", 3}, {"bytes", n}});
void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});
bool LogEnabled(LogLevel level);

inline void LogInfo(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kInfo, message, fields);
}
inline void LogWarning(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kWarning, message, fields);
}
inline void LogError(std::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kError, message, fields);
}

}  // namespace millstream

#endif  // MILLSTREAM_COMMON_BASE_LOG_LINE_H_
