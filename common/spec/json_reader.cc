#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/container/flat_hash_map.h"
#include "common/base/strings.h"
#include "common/spec/manifest.h"
#include "common/spec/reader.h"

namespace millstream::spec {
namespace {

// A recursive descent over RFC 8259. Libraries parse faster but do not say where a value was, which every later message
// needs.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  ReadResult Read() {
    ReadResult result;
    SkipSpace();
    while (!AtEnd() && !error_) {
      Value value = ReadValue(0);
      if (error_) break;
      if (!value.is_null()) result.documents.push_back(std::move(value));
      if (result.documents.size() > kMaxManifestDocuments) {
        Fail(StrCat("more than ", kMaxManifestDocuments, " documents in one file: split it"), Judge::kCode);
      }
      SkipSpace();
    }
    result.error = std::move(error_);
    return result;
  }

 private:
  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  Position Here() const { return {line_, static_cast<int>(at_ - line_start_) + 1}; }

  void Fail(std::string message, Judge judge = Judge::kSchema) {
    if (!error_) error_ = ReadError{Here(), std::move(message), judge};
  }
  // The same with what stands there instead.
  void Expected(std::string_view what) {
    Fail(AtEnd() ? StrCat("expected ", what, ", but the file ends")
                 : StrCat("expected ", what, ", not `", text_.substr(at_, 1), "`"));
  }

  void SkipSpace() {
    while (!AtEnd() && (Peek() == ' ' || Peek() == '\t' || Peek() == '\n' || Peek() == '\r')) {
      if (Peek() == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      }
      ++at_;
    }
  }

  bool Consume(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Value ReadValue(int depth) {
    Value value;
    value.at = Here();
    if (depth > kMaxManifestDepth) {
      Fail(StrCat("nested more than ", kMaxManifestDepth, " deep"), Judge::kCode);
    } else if (++nodes_ > kMaxManifestNodes) {
      Fail(StrCat("more than ", kMaxManifestNodes, " values"), Judge::kCode);
    } else if (Peek() == '{') {
      ReadMap(value, depth);
    } else if (Peek() == '[') {
      ReadList(value, depth);
    } else if (Peek() == '"') {
      value.kind = Value::Kind::kString;
      value.text = ReadString();
    } else if (Peek() == '-' || (Peek() >= '0' && Peek() <= '9')) {
      ReadNumber(value);
    } else if (Consume("true") || Consume("false")) {
      value.kind = Value::Kind::kBool;
      value.boolean = text_[at_ - 2] == 'u';
      value.text = value.boolean ? "true" : "false";
    } else if (!Consume("null")) {
      Expected("a JSON value");
    }
    return value;
  }

  void ReadMap(Value& map, int depth) {
    map.kind = Value::Kind::kMap;
    absl::flat_hash_map<std::string, int> lines;
    ++at_;
    SkipSpace();
    if (Consume("}")) return;
    while (!error_) {
      Member member;
      member.key_at = Here();
      if (Peek() != '"') return Expected("a key in double quotes");
      member.key = ReadString();
      auto [known, is_new] = lines.emplace(member.key, member.key_at.line);
      if (!is_new && !error_) {
        error_ =
            ReadError{member.key_at, StrCat("key `", member.key, "` is there twice, first in line ", known->second),
                      Judge::kSchema};
        return;
      }
      SkipSpace();
      if (!Consume(":")) return Expected("`:`");
      SkipSpace();
      member.value = ReadValue(depth + 1);
      map.members.push_back(std::move(member));
      SkipSpace();
      if (error_ || Consume("}")) return;
      if (!Consume(",")) return Expected("`,` or `}`");
      SkipSpace();
    }
  }

  void ReadList(Value& list, int depth) {
    list.kind = Value::Kind::kList;
    ++at_;
    SkipSpace();
    if (Consume("]")) return;
    while (!error_) {
      list.items.push_back(ReadValue(depth + 1));
      SkipSpace();
      if (error_ || Consume("]")) return;
      if (!Consume(",")) return Expected("`,` or `]`");
      SkipSpace();
    }
  }

  size_t SkipDigits() {
    size_t start = at_;
    while (Peek() >= '0' && Peek() <= '9') ++at_;
    return at_ - start;
  }

  void ReadNumber(Value& value) {
    size_t start = at_;
    bool integral = true;
    Consume("-");
    bool leading_zero = Peek() == '0';
    size_t digits = SkipDigits();
    if (digits == 0 || (leading_zero && digits > 1)) return Fail("not a number as JSON writes them");
    if (Consume(".")) {
      integral = false;
      if (SkipDigits() == 0) return Fail("not a number as JSON writes them");
    }
    if (Consume("e") || Consume("E")) {
      integral = false;
      if (!Consume("+")) Consume("-");
      if (SkipDigits() == 0) return Fail("not a number as JSON writes them");
    }
    value.text = std::string(text_.substr(start, at_ - start));
    value.number = std::strtod(value.text.c_str(), nullptr);
    value.kind = Value::Kind::kDouble;
    if (!std::isfinite(value.number)) return Fail("number out of range");
    const char* end = value.text.data() + value.text.size();
    if (integral && std::from_chars(value.text.data(), end, value.integer).ec == std::errc())
      value.kind = Value::Kind::kInt;
  }

  std::string ReadString() {
    std::string out;
    ++at_;
    while (!AtEnd() && !error_) {
      char c = text_[at_];
      if (c == '"') {
        ++at_;
        return out;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        Fail("a line end or tab inside a string: write \\n or \\t");
      } else if (c == '\\') {
        ReadEscape(out);
      } else {
        out += c;
        ++at_;
      }
    }
    Fail("string without an end: a closing \" is missing");
    return out;
  }

  void ReadEscape(std::string& out) {
    ++at_;
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    size_t known = AtEnd() ? std::string_view::npos : kFrom.find(Peek());
    if (known != std::string_view::npos) {
      out += kTo[known];
      ++at_;
    } else if (Consume("u")) {
      uint32_t code = ReadHex();
      if (code >= 0xd800 && code < 0xdc00 && Consume("\\u")) {
        uint32_t low = ReadHex();
        if (low < 0xdc00 || low > 0xdfff) return Fail("half a surrogate pair in a string");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      }
      if (code >= 0xd800 && code < 0xe000) return Fail("half a surrogate pair in a string");
      if (code == 0) return Fail("a zero character in a string is not allowed");
      AppendUtf8(code, out);
    } else {
      Fail("unknown escape in a string: JSON knows \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
    }
  }

  uint32_t ReadHex() {
    uint32_t code = 0;
    std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() < 4 || error != std::errc() || end != digits.data() + 4) {
      Fail("\\u must be followed by four hexadecimal digits");
      return 0;
    }
    at_ += 4;
    return code;
  }

  static void AppendUtf8(uint32_t code, std::string& out) {
    auto add = [&](uint32_t byte) { out += static_cast<char>(byte); };
    if (code < 0x80) {
      add(code);
    } else if (code < 0x800) {
      add(0xc0 | (code >> 6)), add(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
      add(0xe0 | (code >> 12)), add(0x80 | ((code >> 6) & 0x3f)), add(0x80 | (code & 0x3f));
    } else {
      add(0xf0 | (code >> 18)), add(0x80 | ((code >> 12) & 0x3f)), add(0x80 | ((code >> 6) & 0x3f)),
          add(0x80 | (code & 0x3f));
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  size_t line_start_ = 0;
  int nodes_ = 0;
  std::optional<ReadError> error_;
};

}  // namespace

ReadResult ReadJson(std::string_view text) { return JsonReader(text).Read(); }

}  // namespace millstream::spec
