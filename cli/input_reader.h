#ifndef MILLSTREAM_CLI_INPUT_READER_H_
#define MILLSTREAM_CLI_INPUT_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/bytes.h"

namespace millstream::cli {

// Lines of a file or of standard input, with one read buffer that grows to the longest line (at most kMaxLine).
class LineReader {
 public:
  static constexpr size_t kMaxLine = 64u << 20;  // no topic takes a larger record

  // "-" is standard input. NOT_FOUND if the file cannot be opened.
  static absl::StatusOr<LineReader> Open(const std::string& path);
  ~LineReader();
  LineReader(LineReader&& other) noexcept;
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next line without its end ("\n" or "\r\n"); nullopt at the end of the input. The view lives until the next
  // call.
  absl::StatusOr<std::optional<std::string_view>> Next();
  // True when Next would return without waiting for the other end of a pipe or terminal; waits up to `wait` for that.
  bool Ready(absl::Duration wait);

  int64_t line_number() const { return line_number_; }  // of the last line, from 1
  int64_t bytes_read() const { return consumed_; }
  std::optional<int64_t> total_bytes() const { return total_bytes_; }  // of a regular file
  const std::string& name() const { return name_; }

 private:
  LineReader(std::string name, int descriptor) : name_(std::move(name)), descriptor_(descriptor) {}
  absl::Status Fill();

  std::string name_;
  int descriptor_;
  std::string buffer_;
  size_t begin_ = 0;  // of what is not returned yet
  bool at_end_ = false;
  int64_t line_number_ = 0, consumed_ = 0;
  std::optional<int64_t> total_bytes_;
};

enum class InputFormat {
  kJson,      // one JSON value per line: the record's value, byte by byte
  kCsv,       // a heading, then rows; each becomes a JSON object
  kKeyValue,  // key=value, split at the first "="
  kRaw,       // key<TAB>value, or a value alone with null key
  kBase64,  // timestamp<TAB>key<TAB>value, key and value base64 or "-" for null; with partition and offset before them,
            // as `consume` prints, those two are passed over
};

struct RecordParserOptions {
  InputFormat format = InputFormat::kJson;
  std::string key_field;  // json, csv: the field whose value is the key; "a.b" goes into objects. Empty: null keys
  std::string timestamp_field;           // json, csv: milliseconds since 1970 or RFC 3339. Empty: the time of writing
  char delimiter = ',';                  // csv
  bool strings_only = false;             // csv: no cell becomes a number, true, false or null
  std::optional<std::string> null_text;  // keyvalue, raw: this key or value is null
};

struct ParsedRecord {
  MaybeBytes key, value;
  std::optional<int64_t> timestamp_ms;
};

// Records from lines. INVALID_ARGUMENT names file and line; the next call goes on behind it.
class RecordParser {
 public:
  // `lines` outlives the parser.
  RecordParser(RecordParserOptions options, LineReader* lines) : options_(std::move(options)), lines_(lines) {}

  // nullopt at the end of the input. Empty lines are passed over (but not in kRaw, where they are empty values).
  absl::StatusOr<std::optional<ParsedRecord>> Next();

 private:
  absl::StatusOr<ParsedRecord> ParseJson(std::string_view line) const;
  absl::StatusOr<std::optional<std::vector<std::string>>> NextCsvRow();
  absl::StatusOr<ParsedRecord> ParseCsv(const std::vector<std::string>& cells) const;
  absl::StatusOr<ParsedRecord> ParseBase64(std::string_view line) const;
  absl::StatusOr<ParsedRecord> ParsePair(std::string_view line, char separator, bool key_optional) const;
  absl::Status Wrong(std::string_view what) const;

  const RecordParserOptions options_;
  LineReader* const lines_;
  std::optional<std::vector<std::string>> heading_;
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_INPUT_READER_H_
