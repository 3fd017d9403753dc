#ifndef MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TYPED_H_
#define MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TYPED_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millstream/codec.h"
#include "millstream/worker.h"

/// Values instead of bytes: handles on stores and outputs, and handlers, each with its codecs. A handle is a name and
/// two codecs: made once, at the top of the program, used by every thread.
namespace millstream::worker {

namespace internal {

// "store counts: the value is not UTF-8 text: ..."
inline std::string Blame(std::string_view thing, std::string_view name, std::string_view what, std::string_view codec,
                         const absl::Status& cause) {
  std::string text(thing);
  text.append(" ").append(name).append(": the ").append(what).append(" is not ").append(codec).append(": ");
  return text.append(cause.message().data(), cause.message().size());
}

}  // namespace internal

/// A store with codecs. The methods are those of Store; absent values are nullopt. A stored value that the codec
/// refuses is FailedPrecondition: was the codec of the store changed?
template <Codec K, Codec V>
class TypedStore {
 public:
  using Key = typename K::Value;    ///< of keys
  using Value = typename V::Value;  ///< of values

  /// `name`: in the manifest.
  explicit TypedStore(std::string name, K key = {}, V value = {})
      : name_(std::move(name)), key_(std::move(key)), value_(std::move(value)) {}

  /// In the manifest.
  const std::string& name() const { return name_; }

  /// The value of the record's own key.
  absl::StatusOr<std::optional<Value>> Get(Context& ctx) const { return Read(ctx.State(name_).Get()); }
  /// The value of another key of this task.
  absl::StatusOr<std::optional<Value>> Get(Context& ctx, const Key& key) const {
    std::string bytes;
    if (absl::Status status = EncodeKey(key, &bytes); !status.ok()) return status;
    return Read(ctx.State(name_).Get(bytes));
  }
  /// Writes the value of the record's own key. What cannot be encoded fails the record, class Output.
  absl::Status Put(Context& ctx, const Value& value) const {
    std::string bytes;
    if (absl::Status status = EncodeValue(ctx, value, &bytes); !status.ok()) return status;
    return ctx.State(name_).Put(bytes);
  }
  /// Writes the value of another key of this task.
  absl::Status Put(Context& ctx, const Key& key, const Value& value) const {
    std::string key_bytes, bytes;
    if (absl::Status status = EncodeKey(key, &key_bytes); !status.ok()) return status;
    if (absl::Status status = EncodeValue(ctx, value, &bytes); !status.ok()) return status;
    return ctx.State(name_).Put(key_bytes, bytes);
  }
  /// Deletes the record's own key.
  absl::Status Delete(Context& ctx) const { return ctx.State(name_).Delete(); }
  /// Deletes another key of this task.
  absl::Status Delete(Context& ctx, const Key& key) const {
    std::string bytes;
    if (absl::Status status = EncodeKey(key, &bytes); !status.ok()) return status;
    return ctx.State(name_).Delete(bytes);
  }
  /// Rows by the order of their keys' bytes; the bounds of `options` are bytes.
  absl::StatusOr<std::vector<std::pair<Key, Value>>> Scan(Context& ctx, const ScanOptions& options = {}) const {
    auto rows = ctx.State(name_).Scan(options);
    if (!rows.ok()) return rows.status();
    std::vector<std::pair<Key, Value>> decoded;
    for (const auto& [key, value] : *rows) {
      absl::StatusOr<Key> one = key_.Decode(key);
      if (!one.ok()) return Stored("key", key_.name(), one.status());
      absl::StatusOr<Value> other = value_.Decode(value);
      if (!other.ok()) return Stored("value", value_.name(), other.status());
      decoded.emplace_back(*std::move(one), *std::move(other));
    }
    return decoded;
  }

 private:
  absl::Status Stored(std::string_view what, std::string_view codec, const absl::Status& cause) const {
    return absl::FailedPreconditionError(internal::Blame("store", name_, what, codec, cause) +
                                         ". Was the codec of the store changed?");
  }
  absl::StatusOr<std::optional<Value>> Read(const absl::StatusOr<MaybeView>& bytes) const {
    if (!bytes.ok()) return bytes.status();
    if (!bytes->has_value()) return std::optional<Value>();
    absl::StatusOr<Value> value = value_.Decode(**bytes);
    if (!value.ok()) return Stored("value", value_.name(), value.status());
    return std::optional<Value>(*std::move(value));
  }
  absl::Status EncodeKey(const Key& key, std::string* bytes) const {
    const absl::Status status = key_.Encode(key, bytes);
    return status.ok() ? status
                       : absl::InvalidArgumentError(internal::Blame("store", name_, "key", key_.name(), status));
  }
  absl::Status EncodeValue(Context& ctx, const Value& value, std::string* bytes) const {
    const absl::Status status = value_.Encode(value, bytes);
    if (status.ok()) return status;
    return ctx.FailOutput(absl::InvalidArgumentError(internal::Blame("store", name_, "value", value_.name(), status)));
  }

  std::string name_;
  K key_;
  V value_;
};

/// An output with codecs.
template <Codec K, Codec V>
class TypedOutput {
 public:
  using Key = typename K::Value;    ///< of keys
  using Value = typename V::Value;  ///< of values

  /// `name`: in the manifest.
  explicit TypedOutput(std::string name, K key = {}, V value = {})
      : name_(std::move(name)), key_(std::move(key)), value_(std::move(value)) {}

  /// In the manifest.
  const std::string& name() const { return name_; }

  /// As Context::Emit. What cannot be encoded fails the record, class Output.
  absl::Status Emit(Context& ctx, const std::optional<Key>& key, const std::optional<Value>& value,
                    const EmitOptions& options = {}) const {
    std::string key_bytes, value_bytes;
    if (absl::Status status = Encode(ctx, "key", key_, key, &key_bytes); !status.ok()) return status;
    if (absl::Status status = Encode(ctx, "value", value_, value, &value_bytes); !status.ok()) return status;
    return ctx.Emit(name_, key.has_value() ? MaybeView(key_bytes) : std::nullopt,
                    value.has_value() ? MaybeView(value_bytes) : std::nullopt, options);
  }

 private:
  template <typename C>
  absl::Status Encode(Context& ctx, std::string_view what, const C& codec,
                      const std::optional<typename C::Value>& value, std::string* bytes) const {
    if (!value.has_value()) return absl::OkStatus();
    const absl::Status status = codec.Encode(*value, bytes);
    if (status.ok()) return status;
    return ctx.FailOutput(absl::InvalidArgumentError(internal::Blame("output", name_, what, codec.name(), status)));
  }

  std::string name_;
  K key_;
  V value_;
};

/// Key and value of a record as its input's codecs gave them; nullopt: null.
template <typename K, typename V>
struct TypedRecord {
  std::optional<K> key;    ///< nullopt: a record without key
  std::optional<V> value;  ///< nullopt: a tombstone
};

/// Sets a handler `absl::Status(Context&, TypedRecord<K::Value, V::Value>)` of an input. A key or value that its codec
/// refuses fails the record with class Decode, and is not tried again.
template <Codec K, Codec V, typename F>
void On(App& app, std::string input, F handler, K key = {}, V value = {}) {
  app.On(input, [=](Context& ctx) -> absl::Status {
    TypedRecord<typename K::Value, typename V::Value> record;
    if (const MaybeView bytes = ctx.key()) {
      auto decoded = key.Decode(*bytes);
      if (!decoded.ok())
        return absl::DataLossError(internal::Blame("input", input, "key", key.name(), decoded.status()));
      record.key = *std::move(decoded);
    }
    if (const MaybeView bytes = ctx.value()) {
      auto decoded = value.Decode(*bytes);
      if (!decoded.ok())
        return absl::DataLossError(internal::Blame("input", input, "value", value.name(), decoded.status()));
      record.value = *std::move(decoded);
    }
    return handler(ctx, record);
  });
}

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TYPED_H_
