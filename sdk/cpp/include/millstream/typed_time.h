#ifndef MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TYPED_TIME_H_
#define MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TYPED_TIME_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millstream/codec.h"
#include "millstream/typed_codecs.h"
#include "millstream/worker.h"

/// Windows, sessions and timers with codecs. Handles as those of typed.h: made once, used by every thread.
namespace millstream::worker {

/// A store of type Window with codecs. The methods are those of WindowStore; absent values are nullopt.
template <Codec K, Codec V>
class TypedWindowStore {
 public:
  using Key = typename K::Value;    ///< of keys
  using Value = typename V::Value;  ///< of values

  /// `name`: in the manifest.
  explicit TypedWindowStore(std::string name, K key = {}, V value = {})
      : codecs_{"store", std::move(name), std::move(key), std::move(value)} {}

  /// In the manifest.
  const std::string& name() const { return codecs_.name; }
  /// Of keys.
  const K& key_codec() const { return codecs_.key; }
  /// Of values.
  const V& value_codec() const { return codecs_.value; }

  /// The open windows of the record, in the order of their beginnings; none where it is late, or has no key.
  absl::StatusOr<std::span<const Window>> Windows(Context& ctx) const { return State(ctx).Windows(); }
  /// The value of a window of the record's own key.
  absl::StatusOr<std::optional<Value>> Get(Context& ctx, const Window& window) const {
    return codecs_.Read(State(ctx).Get(window));
  }
  /// The value of the window of any key of this task that begins at `start_ms`.
  absl::StatusOr<std::optional<Value>> Get(Context& ctx, const Key& key, int64_t start_ms) const {
    std::string bytes;
    if (absl::Status status = codecs_.EncodeKey(key, &bytes); !status.ok()) return status;
    return codecs_.Read(State(ctx).Get(bytes, start_ms));
  }
  /// Writes the value of a window of the record's own key. What cannot be encoded fails the record, class Output.
  absl::Status Put(Context& ctx, const Window& window, const Value& value) const {
    std::string bytes;
    if (absl::Status status = codecs_.EncodeValue(ctx, value, &bytes); !status.ok()) return status;
    return State(ctx).Put(window, bytes);
  }
  /// Forgets a window of the record's own key.
  absl::Status Delete(Context& ctx, const Window& window) const { return State(ctx).Delete(window); }

 private:
  WindowStore State(Context& ctx) const { return ctx.Windows(codecs_.name); }
  internal::TableCodecs<K, V> codecs_;
};

/// A store of type Session with codecs. The methods are those of SessionStore.
template <Codec K, Codec V>
class TypedSessionStore {
 public:
  using Key = typename K::Value;    ///< of keys
  using Value = typename V::Value;  ///< of values

  /// `name`: in the manifest.
  explicit TypedSessionStore(std::string name, K key = {}, V value = {})
      : codecs_{"store", std::move(name), std::move(key), std::move(value)} {}

  /// In the manifest.
  const std::string& name() const { return codecs_.name; }

  /// The bounds of the record's session, the record included; nullopt where it is late, or has no key.
  absl::StatusOr<std::optional<Window>> Session(Context& ctx) const { return State(ctx).Session(); }
  /// The values of the sessions that the record's is made of, oldest first; after Put the one that was written.
  absl::StatusOr<std::vector<Value>> Values(Context& ctx) const {
    const auto bytes = State(ctx).Values();
    return bytes.ok() ? Decoded(*bytes) : bytes.status();
  }
  /// Writes the value of the record's session. What cannot be encoded fails the record, class Output.
  absl::Status Put(Context& ctx, const Value& value) const {
    std::string bytes;
    if (absl::Status status = codecs_.EncodeValue(ctx, value, &bytes); !status.ok()) return status;
    return State(ctx).Put(bytes);
  }
  /// Forgets what the session had.
  absl::Status Delete(Context& ctx) const { return State(ctx).Delete(); }

  /// For MergeSessions.
  absl::StatusOr<std::vector<Value>> Decoded(const std::vector<std::string_view>& bytes) const {
    std::vector<Value> values;
    for (const std::string_view each : bytes) {
      absl::StatusOr<Value> value = codecs_.DecodeValue(each);
      if (!value.ok()) return value.status();
      values.push_back(*std::move(value));
    }
    return values;
  }
  /// Of keys.
  const K& key_codec() const { return codecs_.key; }
  /// Of values.
  const V& value_codec() const { return codecs_.value; }

 private:
  SessionStore State(Context& ctx) const { return ctx.Sessions(codecs_.name); }
  internal::TableCodecs<K, V> codecs_;
};

/// The timers of one name and clock, one per key: set again, it moves. The manifest needs `timers: {}`. A timer is
/// committed with the record that set it, and survives everything that state survives. Errors are those of
/// Context::SetTimer.
template <Codec K>
class Timer {
 public:
  using Key = typename K::Value;  ///< of keys

  /// `name`: any; what is due goes to the handler of this name, whatever its clock.
  explicit Timer(std::string name, TimerClock clock = TimerClock::kEventTime, K key = {})
      : name_(std::move(name)), clock_(clock), key_(std::move(key)) {}

  /// What it was made with.
  const std::string& name() const { return name_; }
  /// Of keys.
  const K& key_codec() const { return key_; }

  /// Sets the timer of the record's own key, in milliseconds since 1970.
  absl::Status Set(Context& ctx, int64_t time_ms) const {
    return ctx.SetTimer(name_, time_ms, {.clock = clock_, .key = {}});
  }
  /// Sets the timer of another key of this task.
  absl::Status Set(Context& ctx, const Key& key, int64_t time_ms) const {
    std::string bytes;
    if (absl::Status status = Encode(ctx, key, &bytes); !status.ok()) return status;
    return ctx.SetTimer(name_, time_ms, {.clock = clock_, .key = bytes});
  }
  /// Cancels the timer of the record's own key; fine where there is none.
  absl::Status Cancel(Context& ctx) const { return ctx.CancelTimer(name_, {.clock = clock_, .key = {}}); }
  /// Cancels the timer of another key of this task.
  absl::Status Cancel(Context& ctx, const Key& key) const {
    std::string bytes;
    if (absl::Status status = Encode(ctx, key, &bytes); !status.ok()) return status;
    return ctx.CancelTimer(name_, {.clock = clock_, .key = bytes});
  }

 private:
  absl::Status Encode(Context& ctx, const Key& key, std::string* bytes) const {
    const absl::Status status = key_.Encode(key, bytes);
    if (status.ok()) return status;
    return ctx.FailOutput(absl::InvalidArgumentError(internal::Blame("timer", name_, "key", key_.name(), status)));
  }
  std::string name_;
  TimerClock clock_;
  K key_;
};

/// A timer that is due.
template <typename K>
struct Due {
  K key;                                      ///< the one it was set for
  int64_t time_ms = 0;                        ///< when it was to be due, since 1970
  TimerClock clock = TimerClock::kEventTime;  ///< what it goes by
};

/// A window that closes.
template <typename K, typename V>
struct Closed {
  K key;          ///< its key
  V value;        ///< the last one
  Window window;  ///< its bounds
};

/// Sets a handler `absl::Status(Context&, Due<K::Value>)` of the timers of this name. State and outputs are as for a
/// record of its key; outputs get its time.
template <Codec K, typename F>
void OnTimer(App& app, const Timer<K>& timer, F handler) {
  app.OnTimer(timer.name(), [name = timer.name(), codec = timer.key_codec(), handler](Context& ctx) -> absl::Status {
    std::optional<typename K::Value> key;
    absl::Status status = internal::DecodeItem("timer", name, "key", codec, ctx.key(), &key);
    if (!status.ok()) return status;
    return handler(ctx, Due<typename K::Value>{*std::move(key), ctx.timestamp_ms(), ctx.timer_clock()});
  });
}

/// Sets a handler `absl::Status(Context&, Closed<K::Value, V::Value>)` of the windows of a store with `emit: Final`.
/// State and outputs are as for a record of its key; outputs get the window's last millisecond.
template <Codec K, Codec V, typename F>
void OnClose(App& app, const TypedWindowStore<K, V>& store, F handler) {
  app.OnClose(store.name(), [store, handler](Context& ctx) -> absl::Status {
    std::optional<typename K::Value> key;
    std::optional<typename V::Value> value;
    absl::Status status = internal::DecodeItem("store", store.name(), "key", store.key_codec(), ctx.key(), &key);
    if (!status.ok()) return status;
    status = internal::DecodeItem("store", store.name(), "value", store.value_codec(), ctx.value(), &value);
    if (!status.ok()) return status;
    if (!value.has_value()) return absl::OkStatus();  // it was deleted meanwhile
    return handler(ctx,
                   Closed<typename K::Value, typename V::Value>{*std::move(key), *std::move(value), ctx.closing()});
  });
}

/// A session that closes.
template <typename K, typename V>
struct ClosedSession {
  K key;                   ///< its key
  std::optional<V> value;  ///< the last one; nullopt: it has none
  Window window;           ///< its bounds: its first and its last record
};

/// Sets a handler `absl::Status(Context&, ClosedSession<K::Value, V::Value>)` of the sessions of a store with
/// `emit: Final`. State and outputs are as for a record of its key; outputs get the time of its last record.
template <Codec K, Codec V, typename F>
void OnClose(App& app, const TypedSessionStore<K, V>& store, F handler) {
  app.OnClose(store.name(), [store, handler](Context& ctx) -> absl::Status {
    std::optional<typename K::Value> key;
    std::optional<typename V::Value> value;
    absl::Status status = internal::DecodeItem("store", store.name(), "key", store.key_codec(), ctx.key(), &key);
    if (!status.ok()) return status;
    if (ctx.value().has_value()) {
      status = internal::DecodeItem("store", store.name(), "value", store.value_codec(), ctx.value(), &value);
      if (!status.ok()) return status;
    }
    return handler(
        ctx, ClosedSession<typename K::Value, typename V::Value>{*std::move(key), std::move(value), ctx.closing()});
  });
}

/// Says how one value is made of several: `merge` is `V::Value(std::vector<V::Value>)`, oldest first.
template <Codec K, Codec V, typename F>
void MergeSessions(App& app, const TypedSessionStore<K, V>& store, F merge) {
  app.MergeSessions(store.name(),
                    [store, merge](const std::vector<std::string_view>& bytes) -> absl::StatusOr<std::string> {
                      auto values = store.Decoded(bytes);
                      if (!values.ok()) return values.status();
                      std::string merged;
                      absl::Status status = store.value_codec().Encode(merge(*std::move(values)), &merged);
                      if (!status.ok()) return status;
                      return merged;
                    });
}

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TYPED_TIME_H_
