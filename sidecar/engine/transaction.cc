#include "sidecar/engine/transaction.h"

#include <cstdio>

#include "common/base/strings.h"

namespace millstream::engine {
namespace {

constexpr std::string_view kExternalMark = ",\"externalStore\":true";

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

OffsetTags::OffsetTags(std::string_view owner_stamp, std::string_view transactional_id, std::string_view process_start,
                       std::string_view topic_stamp, bool external_store)
    : suffix_(StrCat("\"", topic_stamp.empty() ? "" : StrCat(",\"topics\":", topic_stamp),
                     external_store ? kExternalMark : "", "}")) {
  std::string tag = JsonString(StrCat(transactional_id, "/", process_start, "/"));
  tag.pop_back();
  prefix_ = StrCat("{\"v\":1,\"owner\":", JsonString(owner_stamp), ",\"tag\":", tag);
}

std::string OffsetTags::Metadata(uint64_t transaction) const { return StrCat(prefix_, transaction, suffix_); }

// The last thing in it; no text in it can look like that, as its quotes would be escaped.
bool OffsetTags::HasExternalStore(std::string_view metadata) { return metadata.ends_with(StrCat(kExternalMark, "}")); }

}  // namespace millstream::engine
