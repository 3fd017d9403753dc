#ifndef MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_CODEC_H_
#define MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_CODEC_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millstream::worker {

/// What turns values into the bytes of keys and values, and back. Any type with these members is one: that is where
/// Avro, Protobuf or a schema registry goes (an object may hold a client; it is copied into the handles of typed.h).
/// Both functions are called from all threads of an App at once.
///
/// Encode appends to *out. Errors: InvalidArgument that says what is wrong with the value or the bytes.
template <typename C>
concept Codec = std::copy_constructible<C> &&
    requires(const C& codec, const typename C::Value& value, std::string* out, std::string_view bytes) {
  { codec.name() } -> std::convertible_to<std::string_view>;
  { codec.Encode(value, out) } -> std::same_as<absl::Status>;
  { codec.Decode(bytes) } -> std::same_as<absl::StatusOr<typename C::Value>>;
};

/// Bytes as they are.
struct Bytes {
  using Value = std::string;  ///< any bytes
  /// For messages.
  std::string_view name() const { return "bytes"; }
  /// Never fails.
  absl::Status Encode(const Value& value, std::string* out) const {
    out->append(value);
    return absl::OkStatus();
  }
  /// Never fails.
  absl::StatusOr<Value> Decode(std::string_view bytes) const { return Value(bytes); }
};

/// Text in UTF-8; other bytes are refused.
struct String {
  using Value = std::string;  ///< UTF-8
  /// For messages.
  std::string_view name() const { return "UTF-8 text"; }
  /// Refuses what is not UTF-8.
  absl::Status Encode(const Value& value, std::string* out) const;
  /// Refuses what is not UTF-8.
  absl::StatusOr<Value> Decode(std::string_view bytes) const;
};

/// Eight bytes, big-endian, as Kafka's LongSerializer writes them. In the order of bytes negative numbers come after
/// positive ones.
struct Int64 {
  using Value = int64_t;  ///< any
  /// For messages.
  std::string_view name() const { return "a 64-bit integer"; }
  /// Never fails.
  absl::Status Encode(const Value& value, std::string* out) const;
  /// Refuses what has not eight bytes.
  absl::StatusOr<Value> Decode(std::string_view bytes) const;
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_CODEC_H_
