#ifndef MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TYPED_VISITS_H_
#define MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TYPED_VISITS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "millstream/codec.h"
#include "millstream/typed.h"
#include "millstream/typed_codecs.h"
#include "millstream/worker.h"

/// Visits with codecs: walks over all rows of a store in a task, beside the input. Handles as those of typed.h: made
/// once, used by every thread.
namespace millstream::worker {

/// A visit of the manifest (`visits: [{name: ..., store: ...}]`) and the store it walks. Starting, stopping, pausing
/// and resuming count if the record does that asked for it, and from that record on. A walk survives everything that
/// state survives, and goes on behind the rows that are committed. Errors are those of Context::StartVisit.
template <Codec K, Codec V, Codec D>
class TypedVisit {
 public:
  using Data = typename D::Value;  ///< what it is started with

  /// `name`: in the manifest, which has to name the same store.
  explicit TypedVisit(std::string name, TypedStore<K, V> store, D data = {})
      : name_(std::move(name)), store_(std::move(store)), data_(std::move(data)) {}

  /// In the manifest.
  const std::string& name() const { return name_; }
  /// The store it walks.
  const TypedStore<K, V>& store() const { return store_; }
  /// Of what it is started with.
  const D& data_codec() const { return data_; }

  /// Begins a walk; one that is under way begins anew, one that is paused as well. `data` comes with every row.
  absl::Status Start(Context& ctx, const Data& data) const {
    std::string bytes;
    if (const absl::Status status = data_.Encode(data, &bytes); !status.ok()) {
      return ctx.FailOutput(
          absl::InvalidArgumentError(internal::Blame("visit", name_, "data", data_.name(), status)));
    }
    return ctx.StartVisit(name_, bytes);
  }
  /// Start without data.
  absl::Status Start(Context& ctx) const { return ctx.StartVisit(name_); }
  /// Ends a walk where it is.
  absl::Status Stop(Context& ctx) const { return ctx.StopVisit(name_); }
  /// Holds a walk where it is.
  absl::Status Pause(Context& ctx) const { return ctx.PauseVisit(name_); }
  /// Lets a paused walk go on.
  absl::Status Resume(Context& ctx) const { return ctx.ResumeVisit(name_); }

 private:
  std::string name_;
  TypedStore<K, V> store_;
  D data_;
};

/// A row that a visit has come to. TypedStore::Put without a key writes it.
template <typename K, typename V, typename D>
struct Visited {
  K key;                  ///< its key
  V value;                ///< as it is now
  std::optional<D> data;  ///< what the visit was started with
  int64_t time_ms = 0;    ///< when it was started, since 1970: the time of the record that did
};

/// A visit has come to the end of the task's rows.
template <typename D>
struct VisitEnd {
  std::optional<D> data;  ///< what it was started with
  int64_t time_ms = 0;    ///< when it was started, since 1970
};

/// Sets a handler `absl::Status(Context&, Visited<K::Value, V::Value, D::Value>)` of the rows of a visit: called for
/// every row of its store in the task, in the order of the key bytes, once in committed effect. Records are handled in
/// between. State and outputs are as for a record of its key; outputs get the time of the start.
template <Codec K, Codec V, Codec D, typename F>
void OnVisit(App& app, const TypedVisit<K, V, D>& visit, F handler) {
  app.OnVisit(visit.name(), [visit, handler](Context& ctx) -> absl::Status {
    std::optional<typename K::Value> key;
    std::optional<typename V::Value> value;
    std::optional<typename D::Value> data;
    const std::string& store = visit.store().name();
    absl::Status status = internal::DecodeItem("store", store, "key", visit.store().key_codec(), ctx.key(), &key);
    if (status.ok())
      status = internal::DecodeItem("store", store, "value", visit.store().value_codec(), ctx.value(), &value);
    if (status.ok())
      status = internal::DecodeItem("visit", visit.name(), "data", visit.data_codec(), ctx.visit_data(), &data);
    if (!status.ok()) return status;
    return handler(ctx, Visited<typename K::Value, typename V::Value, typename D::Value>{
                            *std::move(key), *std::move(value), std::move(data), ctx.timestamp_ms()});
  });
}

/// Sets a handler `absl::Status(Context&, VisitEnd<D::Value>)` of what follows the last row. There is no key.
template <Codec K, Codec V, Codec D, typename F>
void OnVisitEnd(App& app, const TypedVisit<K, V, D>& visit, F handler) {
  app.OnVisitEnd(visit.name(), [visit, handler](Context& ctx) -> absl::Status {
    std::optional<typename D::Value> data;
    const absl::Status status =
        internal::DecodeItem("visit", visit.name(), "data", visit.data_codec(), ctx.visit_data(), &data);
    if (!status.ok()) return status;
    return handler(ctx, VisitEnd<typename D::Value>{std::move(data), ctx.timestamp_ms()});
  });
}

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TYPED_VISITS_H_
