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
#include "millstream/typed_codecs.h"
#include "millstream/worker.h"

/// Values instead of bytes: handles on stores, joins, lookups and outputs, and handlers, each with its codecs. A handle
/// is a name and two codecs: made once, at the top of the program, used by every thread. Windows, sessions and timers
/// are in typed_time.h, visits in typed_visits.h.
namespace millstream::worker {

/// A store of type KeyValue with codecs. The methods are those of Store; absent values are nullopt. A stored value that
/// the codec refuses is FailedPrecondition: was the codec of the store changed?
template <Codec K, Codec V>
class TypedStore {
 public:
  using Key = typename K::Value;    ///< of keys
  using Value = typename V::Value;  ///< of values

  /// `name`: in the manifest.
  explicit TypedStore(std::string name, K key = {}, V value = {})
      : codecs_{"store", std::move(name), std::move(key), std::move(value)} {}

  /// In the manifest.
  const std::string& name() const { return codecs_.name; }
  /// Of keys.
  const K& key_codec() const { return codecs_.key; }
  /// Of values.
  const V& value_codec() const { return codecs_.value; }

  /// The value of the record's own key.
  absl::StatusOr<std::optional<Value>> Get(Context& ctx) const { return codecs_.Read(State(ctx).Get()); }
  /// The value of another key of this task.
  absl::StatusOr<std::optional<Value>> Get(Context& ctx, const Key& key) const { return codecs_.Get(State(ctx), key); }
  /// The values of several keys, in their order, in as few round trips as possible.
  absl::StatusOr<std::vector<std::optional<Value>>> GetMany(Context& ctx, const std::vector<Key>& keys) const {
    return codecs_.GetMany(State(ctx), keys);
  }
  /// Writes the value of the record's own key. What cannot be encoded fails the record, class Output.
  absl::Status Put(Context& ctx, const Value& value) const {
    std::string bytes;
    if (absl::Status status = codecs_.EncodeValue(ctx, value, &bytes); !status.ok()) return status;
    return State(ctx).Put(bytes);
  }
  /// Writes the value of another key of this task.
  absl::Status Put(Context& ctx, const Key& key, const Value& value) const {
    std::string key_bytes, bytes;
    if (absl::Status status = codecs_.EncodeKey(key, &key_bytes); !status.ok()) return status;
    if (absl::Status status = codecs_.EncodeValue(ctx, value, &bytes); !status.ok()) return status;
    return State(ctx).Put(key_bytes, bytes);
  }
  /// Deletes the record's own key.
  absl::Status Delete(Context& ctx) const { return State(ctx).Delete(); }
  /// Deletes another key of this task.
  absl::Status Delete(Context& ctx, const Key& key) const {
    std::string bytes;
    if (absl::Status status = codecs_.EncodeKey(key, &bytes); !status.ok()) return status;
    return State(ctx).Delete(bytes);
  }
  /// Rows by the order of their keys' bytes; the bounds of `options` are bytes.
  absl::StatusOr<std::vector<std::pair<Key, Value>>> Scan(Context& ctx, const ScanOptions& options = {}) const {
    return codecs_.Scan(State(ctx), options);
  }

 private:
  Store State(Context& ctx) const { return ctx.State(codecs_.name); }
  internal::TableCodecs<K, V> codecs_;
};

/// A join of the manifest: a topic as a read-only table, partitioned like the inputs; each task sees its own partition.
/// The value of the record's key came with the batch and is as old as the batch; others are asked for and newer.
template <Codec K, Codec V>
class TypedJoin {
 public:
  using Key = typename K::Value;    ///< of keys
  using Value = typename V::Value;  ///< of values

  /// `name`: in the manifest.
  explicit TypedJoin(std::string name, K key = {}, V value = {})
      : codecs_{"join", std::move(name), std::move(key), std::move(value)} {}

  /// In the manifest.
  const std::string& name() const { return codecs_.name; }

  /// The value of the record's own key.
  absl::StatusOr<std::optional<Value>> Get(Context& ctx) const { return codecs_.Read(ctx.Join(codecs_.name).Get()); }
  /// The value of another key of this task.
  absl::StatusOr<std::optional<Value>> Get(Context& ctx, const Key& key) const {
    return codecs_.Get(ctx.Join(codecs_.name), key);
  }
  /// As TypedStore::GetMany.
  absl::StatusOr<std::vector<std::optional<Value>>> GetMany(Context& ctx, const std::vector<Key>& keys) const {
    return codecs_.GetMany(ctx.Join(codecs_.name), keys);
  }
  /// As TypedStore::Scan.
  absl::StatusOr<std::vector<std::pair<Key, Value>>> Scan(Context& ctx, const ScanOptions& options = {}) const {
    return codecs_.Scan(ctx.Join(codecs_.name), options);
  }

 private:
  internal::TableCodecs<K, V> codecs_;
};

/// A lookup of the manifest: a whole topic as a read-only table, the same for every task, as it is now.
template <Codec K, Codec V>
class TypedLookup {
 public:
  using Key = typename K::Value;    ///< of keys
  using Value = typename V::Value;  ///< of values

  /// `name`: in the manifest.
  explicit TypedLookup(std::string name, K key = {}, V value = {})
      : codecs_{"lookup", std::move(name), std::move(key), std::move(value)} {}

  /// In the manifest.
  const std::string& name() const { return codecs_.name; }

  /// The value of a key.
  absl::StatusOr<std::optional<Value>> Get(Context& ctx, const Key& key) const {
    return codecs_.Get(ctx.Lookup(codecs_.name), key);
  }
  /// As TypedStore::GetMany.
  absl::StatusOr<std::vector<std::optional<Value>>> GetMany(Context& ctx, const std::vector<Key>& keys) const {
    return codecs_.GetMany(ctx.Lookup(codecs_.name), keys);
  }
  /// As TypedStore::Scan.
  absl::StatusOr<std::vector<std::pair<Key, Value>>> Scan(Context& ctx, const ScanOptions& options = {}) const {
    return codecs_.Scan(ctx.Lookup(codecs_.name), options);
  }

 private:
  internal::TableCodecs<K, V> codecs_;
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
    absl::Status status = internal::DecodeItem("input", input, "key", key, ctx.key(), &record.key);
    if (status.ok()) status = internal::DecodeItem("input", input, "value", value, ctx.value(), &record.value);
    return status.ok() ? handler(ctx, record) : status;
  });
}

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TYPED_H_
