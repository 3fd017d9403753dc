#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <istream>
#include <streambuf>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/base/strings.h"
#include "common/spec/manifest.h"
#include "common/spec/reader.h"
#include "common/spec/scalar.h"

namespace millstream::spec {
namespace {

// Text that aliases may expand to: the text of a manifest is at most kMaxManifestBytes without them.
constexpr size_t kMaxExpandedBytes = 4 * kMaxManifestBytes;

Position ToPosition(const YAML::Mark& mark) {
  return mark.is_null() ? Position{} : Position{mark.line + 1, mark.column + 1};
}

// Thrown out of the library's callbacks and caught in ReadYaml: the only way to stop its parser.
struct Refused {
  ReadError error;
};

[[noreturn]] void Refuse(Position at, std::string message) { throw Refused{{at, std::move(message), Judge::kSchema}}; }
[[noreturn]] void RefuseCode(Position at, std::string message) {
  throw Refused{{at, std::move(message), Judge::kCode}};
}

constexpr std::string_view kTagPrefix = "tag:yaml.org,2002:";

// The library's events of one document -> a Value. Bounds are checked before anything is kept, so that what a text
// makes us allocate is bounded, whatever its aliases say.
class Builder : public YAML::EventHandler {
 public:
  // What all documents of a text may use together.
  struct Budget {
    int nodes = kMaxManifestNodes;
    size_t bytes = kMaxExpandedBytes;
  };

  explicit Builder(Budget& budget) : budget_(budget) {}

  bool empty() const { return !root_ || root_->is_null(); }
  Value Take() { return std::move(*root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Value value;
    value.at = ToPosition(mark);
    Spend(value, value.at);
    Finish(std::move(value), anchor, true);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    Position at = ToPosition(mark);
    if (text.find('\0') != std::string::npos) Refuse(at, "a zero character in a text is not allowed");
    bool plain = tag == "?";
    Value value = plain ? ResolvePlainScalar(text, at) : TaggedScalar(tag, text, at);
    Spend(value, at);
    Finish(std::move(value), anchor, plain);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(ListValue(ToPosition(mark)), tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(MapValue(ToPosition(mark)), tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Position at = ToPosition(mark);
    auto found = anchors_.find(anchor);
    if (found == anchors_.end()) Refuse(at, "this alias is inside the value it stands for: write the value out");
    if (static_cast<int>(frames_.size()) + found->second.depth > kMaxManifestDepth) {
      RefuseCode(at, StrCat("aliases nest more than ", kMaxManifestDepth, " deep"));
    }
    SpendTree(found->second.value, at);
    Finish(found->second.value, 0, true, found->second.depth);
  }

 private:
  struct Anchored {
    Value value;
    int depth = 0;
  };
  struct Frame {
    Value value;
    YAML::anchor_t anchor = 0;
    int depth = 0;  // of what it holds
    // Maps only:
    bool has_key = false;
    std::string key;
    Position key_at;
    absl::flat_hash_map<std::string, int> lines;  // of the keys, merged ones left out
    std::vector<Value> merged;                    // values of `<<`
  };

  static Value TaggedScalar(const std::string& tag, const std::string& text, Position at) {
    if (tag == "!" || tag == StrCat(kTagPrefix, "str")) return StringValue(text, at);
    std::string_view type = tag;
    bool known = type.starts_with(kTagPrefix);
    if (known) type.remove_prefix(kTagPrefix.size());
    known = known && (type == "bool" || type == "int" || type == "float" || type == "null");
    if (!known) RefuseCode(at, StrCat("tag `", tag, "` is not supported in a manifest: leave it out"));
    Value value = ResolvePlainScalar(text, at);
    bool fits = (type == "bool" && value.kind == Value::Kind::kBool) ||
                (type == "int" && value.kind == Value::Kind::kInt) || (type == "null" && value.is_null()) ||
                (type == "float" && (value.kind == Value::Kind::kDouble || value.kind == Value::Kind::kInt));
    if (!fits) Refuse(at, StrCat("`", text, "` is not what its tag !!", type, " says"));
    return value;
  }

  void Spend(const Value& value, Position at) {
    if (--budget_.nodes < 0) RefuseCode(at, StrCat("more than ", kMaxManifestNodes, " values, aliases expanded"));
    if (value.text.size() > budget_.bytes) {
      RefuseCode(at, StrCat("more than ", kMaxExpandedBytes, " bytes of text, aliases expanded"));
    }
    budget_.bytes -= value.text.size();
  }

  void SpendTree(const Value& value, Position at) {
    Spend(value, at);
    for (const Value& item : value.items) SpendTree(item, at);
    for (const Member& member : value.members) {
      Spend(StringValue(member.key), at);
      SpendTree(member.value, at);
    }
  }

  void Open(Value value, const std::string& tag, YAML::anchor_t anchor) {
    bool plain = tag == "?" || tag == "!" || tag.empty() || tag == StrCat(kTagPrefix, value.is_map() ? "map" : "seq");
    if (!plain) RefuseCode(value.at, StrCat("tag `", tag, "` is not supported in a manifest: leave it out"));
    if (static_cast<int>(frames_.size()) >= kMaxManifestDepth) {
      RefuseCode(value.at, StrCat("nested more than ", kMaxManifestDepth, " deep"));
    }
    Spend(value, value.at);
    Frame frame;
    frame.value = std::move(value);
    frame.anchor = anchor;
    frames_.push_back(std::move(frame));
  }

  void Close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    for (const Value& merged : frame.merged) Merge(frame.value, merged);
    Finish(std::move(frame.value), frame.anchor, false, frame.depth + 1);
  }

  // `value` is complete: it is the root, an item, a key or the value of a key. `depth`: levels of lists and maps it
  // holds.
  void Finish(Value value, YAML::anchor_t anchor, bool plain, int depth = 0) {
    if (anchor != 0) {
      SpendTree(value, value.at);
      anchors_[anchor] = {value, depth};
    }
    if (frames_.empty()) {
      root_ = std::move(value);
      return;
    }
    Frame& frame = frames_.back();
    frame.depth = std::max(frame.depth, depth);
    if (frame.value.is_list()) {
      frame.value.items.push_back(std::move(value));
    } else if (!frame.has_key) {
      TakeKey(frame, value, plain);
    } else {
      frame.has_key = false;
      if (frame.key == kMergeKey) {
        frame.merged.push_back(std::move(value));
      } else {
        frame.value.members.push_back({std::move(frame.key), frame.key_at, std::move(value)});
      }
    }
  }

  // No text can be this key: zero characters are refused.
  static constexpr std::string_view kMergeKey = std::string_view("\0<<", 3);

  static void TakeKey(Frame& frame, const Value& key, bool plain) {
    if (key.is_list() || key.is_map()) {
      Refuse(key.at, "a key must be a text: quote it if it starts with [ or {");
    }
    if (key.is_null()) Refuse(key.at, "a key is missing before `:`");
    frame.has_key = true;
    frame.key_at = key.at;
    if (plain && key.text == "<<") {
      frame.key = std::string(kMergeKey);
      return;
    }
    frame.key = plain ? ResolvePlainKey(key.text) : key.text;
    auto [known, is_new] = frame.lines.emplace(frame.key, key.at.line);
    // kubectl says nothing and takes the last one.
    if (!is_new)
      RefuseCode(key.at, StrCat("key `", frame.key, "` is there twice, first in line ", known->second, ": remove one"));
  }

  // `<<: *base`: what the map itself does not have comes from the base; of several bases the first wins.
  static void Merge(Value& map, const Value& base) {
    if (base.is_list()) {
      for (const Value& item : base.items) Merge(map, item);
      return;
    }
    if (!base.is_map()) Refuse(base.at, "`<<` wants a map, or a list of maps");
    for (const Member& member : base.members) {
      if (map.Find(member.key) == nullptr) map.members.push_back(member);
    }
  }

  Budget& budget_;
  std::optional<Value> root_;
  std::vector<Frame> frames_;
  absl::flat_hash_map<YAML::anchor_t, Anchored> anchors_;
};

// The library reads streams; this one reads a string_view without a copy.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());  // only ever read
    setg(begin, begin, begin + text.size());
  }
};

std::string_view LineOf(std::string_view text, int line) {
  for (; line > 1; --line) {
    size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

// The library names the rule that was broken; people want to know what to do.
ReadError Explain(std::string_view text, Position at, std::string message) {
  for (int line = at.line; line >= 1 && line >= at.line - 1; --line) {
    std::string_view content = LineOf(text, line);
    size_t start = content.find_first_not_of(" \t");
    size_t tab = content.find('\t');
    if (start != std::string_view::npos && tab < start) {
      return {{line, static_cast<int>(tab) + 1}, "a tab in the indentation: YAML wants spaces", Judge::kSchema};
    }
  }
  if (message == "illegal map value")
    message = "`: ` where no key can be: quote the text, or check indentation and `:` of the lines above";
  if (message == "end of map not found")
    message = "wrong indentation, or a line that is neither `key: value` nor `- item`";
  if (message == "end of map flow not found") message = "`}` is missing: a map in braces does not end";
  if (message == "end of sequence not found")
    message = "wrong indentation: this line is no `- item` of the list above it";
  if (message == "end of sequence flow not found") message = "`]` is missing: a list in brackets does not end";
  if (message == "the referenced anchor is not defined") message = "alias of an anchor that is not defined above";
  return {at, StrCat("not readable as YAML: ", message), Judge::kSchema};
}

}  // namespace

ReadResult ReadYaml(std::string_view text) {
  ReadResult result;
  ViewBuffer buffer(text);
  std::istream stream(&buffer);
  Builder::Budget budget;
  try {
    YAML::Parser parser(stream);
    for (size_t count = 0;; ++count) {
      Builder builder(budget);
      if (!parser.HandleNextDocument(builder)) break;
      if (count >= kMaxManifestDocuments) {
        RefuseCode({}, StrCat("more than ", kMaxManifestDocuments, " documents in one file: split it"));
      }
      if (!builder.empty()) result.documents.push_back(builder.Take());
    }
  } catch (const Refused& refused) {
    result.error = refused.error;
  } catch (const YAML::Exception& exception) {
    result.error = Explain(text, ToPosition(exception.mark), exception.msg);
  }
  return result;
}

}  // namespace millstream::spec
