#include <algorithm>
#include <charconv>
#include <utility>

#include "cli/input_reader.h"
#include "cli/text_format.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "nlohmann/json.hpp"

namespace millstream::cli {
namespace {

using Json = nlohmann::json;

bool IsBlank(std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; }

// The field itself, or for "a.b.c" the field c of the object in b of the object in a. nullptr: not there.
const Json* FindField(const Json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  if (const auto whole = object.find(name); whole != object.end()) return &*whole;
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
    const auto outer = object.find(name.substr(0, dot));
    if (outer == object.end()) continue;
    if (const Json* inner = FindField(*outer, name.substr(dot + 1))) return inner;
  }
  return nullptr;
}

// A string's own bytes; anything else as its JSON text; null is no key.
MaybeBytes KeyOf(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return value.is_string() ? value.get<std::string>() : value.dump();
}

absl::StatusOr<int64_t> TimestampOf(const Json& value) {
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) return static_cast<int64_t>(value.get<double>());
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    absl::Time time;
    std::string error;
    if (absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return absl::ToUnixMillis(time);
    // Dates as tables often have them, in UTC.
    for (const char* format :
         {"%Y-%m-%d %H:%M:%E*S", "%Y-%m-%dT%H:%M:%E*S", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%Y/%m/%d %H:%M", "%Y/%m/%d"}) {
      if (absl::ParseTime(format, text, absl::UTCTimeZone(), &time, &error)) return absl::ToUnixMillis(time);
    }
  }
  return absl::InvalidArgumentError(StrCat("is ", value.dump(-1, ' ', false, Json::error_handler_t::replace),
                                           "; it has to be milliseconds since 1970, an RFC 3339 time or a date"));
}

// A cell as JSON. Only what is a JSON number as it stands becomes one: "007" and "+1" stay text.
std::string CellToJson(const std::string& cell, bool strings_only) {
  if (!strings_only) {
    if (cell.empty()) return "null";
    if (cell == "true" || cell == "false") return cell;
    const bool may_be_number = cell[0] == '-' || (cell[0] >= '0' && cell[0] <= '9');
    if (may_be_number && Json::accept(cell)) return cell;
  }
  return JsonQuote(cell);
}

}  // namespace

absl::Status RecordParser::Wrong(std::string_view what) const {
  return absl::InvalidArgumentError(StrCat(lines_->name(), ": line ", lines_->line_number(), ": ", what));
}

absl::StatusOr<std::optional<ParsedRecord>> RecordParser::Next() {
  if (options_.format == InputFormat::kCsv) {
    if (!heading_.has_value()) {
      MS_ASSIGN_OR_RETURN(heading_, NextCsvRow());
      if (!heading_.has_value()) return std::nullopt;
      for (const std::string& field : {options_.key_field, options_.timestamp_field}) {
        if (!field.empty() && std::find(heading_->begin(), heading_->end(), field) == heading_->end()) {
          std::string columns;
          for (const std::string& column : *heading_) StrAppend(&columns, columns.empty() ? "" : ", ", column);
          return absl::FailedPreconditionError(
              StrCat(lines_->name(), ": no column ", field, " in the heading; there are ", columns));
        }
      }
    }
    MS_ASSIGN_OR_RETURN(const std::optional<std::vector<std::string>> row, NextCsvRow());
    if (!row.has_value()) return std::nullopt;
    return ParseCsv(*row);
  }
  while (true) {
    MS_ASSIGN_OR_RETURN(const std::optional<std::string_view> line, lines_->Next());
    if (!line.has_value()) return std::nullopt;
    if (options_.format == InputFormat::kRaw) return ParsePair(*line, '\t', true);
    if (IsBlank(*line)) continue;
    if (options_.format == InputFormat::kBase64) return ParseBase64(*line);
    if (options_.format == InputFormat::kKeyValue) return ParsePair(*line, '=', false);
    return ParseJson(*line);
  }
}

absl::StatusOr<ParsedRecord> RecordParser::ParseJson(std::string_view line) const {
  ParsedRecord record;
  if (options_.key_field.empty() && options_.timestamp_field.empty()) {
    if (!Json::accept(line))
      return Wrong("not a JSON value; one whole value has to stand in each line (see --format for other inputs)");
    record.value = Bytes(line);
    return record;
  }
  const Json value = Json::parse(line, nullptr, false);
  if (value.is_discarded())
    return Wrong("not a JSON value; one whole value has to stand in each line (see --format for other inputs)");
  if (!options_.key_field.empty()) {
    const Json* key = FindField(value, options_.key_field);
    if (key == nullptr) return Wrong(StrCat("no field ", options_.key_field, " for the key"));
    record.key = KeyOf(*key);
  }
  if (!options_.timestamp_field.empty()) {
    const Json* timestamp = FindField(value, options_.timestamp_field);
    if (timestamp == nullptr) return Wrong(StrCat("no field ", options_.timestamp_field, " for the timestamp"));
    const absl::StatusOr<int64_t> milliseconds = TimestampOf(*timestamp);
    if (!milliseconds.ok())
      return Wrong(StrCat("field ", options_.timestamp_field, " ", std::string(milliseconds.status().message())));
    record.timestamp_ms = *milliseconds;
  }
  record.value = Bytes(line);
  return record;
}

absl::StatusOr<std::optional<std::vector<std::string>>> RecordParser::NextCsvRow() {
  std::optional<std::string_view> line;
  do {
    MS_ASSIGN_OR_RETURN(line, lines_->Next());
    if (!line.has_value()) return std::nullopt;
  } while (IsBlank(*line));
  std::vector<std::string> cells(1);
  std::string_view rest = *line;
  bool quoted = false, was_quoted = false;
  while (true) {
    if (rest.empty()) {
      if (!quoted) return cells;
      // A quoted cell goes on in the next line.
      MS_ASSIGN_OR_RETURN(line, lines_->Next());
      if (!line.has_value()) return Wrong("the input ends inside of a quoted cell");
      cells.back() += '\n';
      rest = *line;
      continue;
    }
    const char c = rest.front();
    rest.remove_prefix(1);
    if (quoted) {
      if (c != '"') {
        cells.back() += c;
      } else if (!rest.empty() && rest.front() == '"') {
        cells.back() += '"';
        rest.remove_prefix(1);
      } else {
        quoted = false;
      }
    } else if (c == options_.delimiter) {
      cells.emplace_back();
      was_quoted = false;
    } else if (c == '"' && cells.back().empty() && !was_quoted) {
      quoted = was_quoted = true;
    } else {
      cells.back() += c;
    }
  }
}

absl::StatusOr<ParsedRecord> RecordParser::ParseCsv(const std::vector<std::string>& cells) const {
  if (cells.size() != heading_->size()) {
    return Wrong(StrCat(cells.size(), " cells, the heading has ", heading_->size(), " (another --delimiter?)"));
  }
  ParsedRecord record;
  std::string object = "{";
  for (size_t column = 0; column < cells.size(); ++column) {
    const std::string& name = (*heading_)[column];
    StrAppend(&object, column == 0 ? "" : ",", JsonQuote(name), ":", CellToJson(cells[column], options_.strings_only));
    if (name == options_.key_field) record.key = cells[column];
    if (name == options_.timestamp_field) {
      const Json number = Json::parse(cells[column], nullptr, false);
      const absl::StatusOr<int64_t> milliseconds = TimestampOf(number.is_number() ? number : Json(cells[column]));
      if (!milliseconds.ok()) return Wrong(StrCat("column ", name, " ", std::string(milliseconds.status().message())));
      record.timestamp_ms = *milliseconds;
    }
  }
  object += '}';
  record.value = std::move(object);
  return record;
}

absl::StatusOr<ParsedRecord> RecordParser::ParseBase64(std::string_view line) const {
  std::vector<std::string_view> columns;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find('\t', begin), line.size());
    columns.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  if (columns.size() == 5) columns.erase(columns.begin(), columns.begin() + 2);
  if (columns.size() != 3)
    return Wrong("TIMESTAMP, KEY and VALUE with tabs between are expected, or PARTITION and OFFSET before them");
  ParsedRecord record;
  int64_t timestamp = 0;
  const auto [end, error] = std::from_chars(columns[0].data(), columns[0].data() + columns[0].size(), timestamp);
  if (error != std::errc() || end != columns[0].data() + columns[0].size())
    return Wrong("the timestamp is not a number of milliseconds");
  record.timestamp_ms = timestamp;
  for (const auto& [column, target] : {std::pair(columns[1], &record.key), std::pair(columns[2], &record.value)}) {
    if (column == "-") continue;
    absl::StatusOr<Bytes> bytes = FromText(column, ByteFormat::kBase64);
    if (!bytes.ok()) return Wrong(std::string(bytes.status().message()));
    *target = *std::move(bytes);
  }
  return record;
}

absl::StatusOr<ParsedRecord> RecordParser::ParsePair(std::string_view line, char separator, bool key_optional) const {
  ParsedRecord record;
  const size_t at = line.find(separator);
  if (at == std::string_view::npos && !key_optional) return Wrong("no \"=\" in it; the format is key=value");
  const auto unless_null = [this](std::string_view text) {
    return options_.null_text == text ? MaybeBytes() : MaybeBytes(Bytes(text));
  };
  if (at != std::string_view::npos) record.key = unless_null(line.substr(0, at));
  record.value = unless_null(at == std::string_view::npos ? line : line.substr(at + 1));
  return record;
}

}  // namespace millstream::cli
