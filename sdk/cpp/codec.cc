#include "millstream/codec.h"

#include "common/base/bytes.h"
#include "common/base/strings.h"
#include "sidecar/protocol/utf8.h"

namespace millstream::worker {

absl::Status String::Encode(const Value& value, std::string* out) const {
  if (!protocol::IsUtf8(value)) return absl::InvalidArgumentError("the text is not UTF-8");
  out->append(value);
  return absl::OkStatus();
}

absl::StatusOr<String::Value> String::Decode(std::string_view bytes) const {
  if (!protocol::IsUtf8(bytes)) return absl::InvalidArgumentError("the bytes are not UTF-8");
  return Value(bytes);
}

absl::Status Int64::Encode(const Value& value, std::string* out) const {
  AppendBigEndian64(static_cast<uint64_t>(value), out);
  return absl::OkStatus();
}

absl::StatusOr<Int64::Value> Int64::Decode(std::string_view bytes) const {
  if (bytes.size() != 8) return absl::InvalidArgumentError(StrCat("an integer has 8 bytes, these are ", bytes.size()));
  return static_cast<int64_t>(ReadBigEndian64(bytes));
}

}  // namespace millstream::worker
