#ifndef MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TYPED_CODECS_H_
#define MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TYPED_CODECS_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millstream/codec.h"
#include "millstream/context.h"

// What the typed handles share. Not for programs.
namespace millstream::worker::internal {

// "store counts: the value is not UTF-8 text: ..."
inline std::string Blame(std::string_view thing, std::string_view name, std::string_view what, std::string_view codec,
                         const absl::Status& cause) {
  std::string text(thing);
  text.append(" ").append(name).append(": the ").append(what).append(" is not ").append(codec).append(": ");
  return text.append(cause.message().data(), cause.message().size());
}

// The name and codecs of a store, join or lookup (`thing`).
template <Codec K, Codec V>
struct TableCodecs {
  using Key = typename K::Value;
  using Value = typename V::Value;

  std::string_view thing;
  std::string name;
  K key;
  V value;

  // What is stored and cannot be decoded.
  absl::Status Stored(std::string_view what, std::string_view codec, const absl::Status& cause) const {
    return absl::FailedPreconditionError(Blame(thing, name, what, codec, cause) + ". Was its codec changed?");
  }
  absl::StatusOr<Key> DecodeKey(std::string_view bytes) const {
    absl::StatusOr<Key> decoded = key.Decode(bytes);
    return decoded.ok() ? std::move(decoded) : Stored("key", key.name(), decoded.status());
  }
  absl::StatusOr<Value> DecodeValue(std::string_view bytes) const {
    absl::StatusOr<Value> decoded = value.Decode(bytes);
    return decoded.ok() ? std::move(decoded) : Stored("value", value.name(), decoded.status());
  }
  absl::StatusOr<std::optional<Value>> Read(const absl::StatusOr<MaybeView>& bytes) const {
    if (!bytes.ok()) return bytes.status();
    if (!bytes->has_value()) return std::optional<Value>();
    absl::StatusOr<Value> decoded = DecodeValue(**bytes);
    if (!decoded.ok()) return decoded.status();
    return std::optional<Value>(*std::move(decoded));
  }
  absl::Status EncodeKey(const Key& from, std::string* bytes) const {
    const absl::Status status = key.Encode(from, bytes);
    return status.ok() ? status : absl::InvalidArgumentError(Blame(thing, name, "key", key.name(), status));
  }
  absl::Status EncodeValue(Context& ctx, const Value& from, std::string* bytes) const {
    const absl::Status status = value.Encode(from, bytes);
    if (status.ok()) return status;
    return ctx.FailOutput(absl::InvalidArgumentError(Blame(thing, name, "value", value.name(), status)));
  }

  absl::StatusOr<std::optional<Value>> Get(Table table, const Key& from) const {
    std::string bytes;
    if (absl::Status status = EncodeKey(from, &bytes); !status.ok()) return status;
    return Read(table.Get(bytes));
  }
  absl::StatusOr<std::vector<std::optional<Value>>> GetMany(Table table, const std::vector<Key>& keys) const {
    std::vector<std::string> encoded(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (absl::Status status = EncodeKey(keys[i], &encoded[i]); !status.ok()) return status;
    }
    const auto found = table.GetMany({encoded.begin(), encoded.end()});
    if (!found.ok()) return found.status();
    std::vector<std::optional<Value>> values;
    for (const MaybeView& bytes : *found) {
      absl::StatusOr<std::optional<Value>> one = Read(bytes);
      if (!one.ok()) return one.status();
      values.push_back(*std::move(one));
    }
    return values;
  }
  absl::StatusOr<std::vector<std::pair<Key, Value>>> Scan(Table table, const ScanOptions& options) const {
    const auto rows = table.Scan(options);
    if (!rows.ok()) return rows.status();
    std::vector<std::pair<Key, Value>> decoded;
    for (const auto& [row_key, row_value] : *rows) {
      absl::StatusOr<Key> one = DecodeKey(row_key);
      if (!one.ok()) return one.status();
      absl::StatusOr<Value> other = DecodeValue(row_value);
      if (!other.ok()) return other.status();
      decoded.emplace_back(*std::move(one), *std::move(other));
    }
    return decoded;
  }
};

// A key or value of what is being handled: class Decode where the codec refuses it.
template <Codec C>
absl::Status DecodeItem(std::string_view thing, std::string_view name, std::string_view what, const C& codec,
                        MaybeView bytes, std::optional<typename C::Value>* decoded) {
  if (!bytes.has_value()) return absl::OkStatus();
  auto one = codec.Decode(*bytes);
  if (!one.ok()) return absl::DataLossError(Blame(thing, name, what, codec.name(), one.status()));
  *decoded = *std::move(one);
  return absl::OkStatus();
}

}  // namespace millstream::worker::internal

#endif  // MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TYPED_CODECS_H_
