#ifndef MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_GATHERED_H_
#define MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_GATHERED_H_

#include <functional>
#include <memory>
#include <utility>

#include "millstream/context.h"

namespace millstream::worker {

/// What a program gathers over the records of a task, for App::OnFinalize to send. Made once, at the top of the
/// program:
///
///     ms::Gathered<std::map<std::string, int64_t>> clicks;
///
///     app.On("clicks", [](ms::Context& ctx) {
///       clicks.Change(ctx, [page = std::string(*ctx.key())](auto& pages) { ++pages[page]; });
///       return absl::OkStatus();
///     });
///     app.OnFinalize([](ms::Context& ctx) -> absl::Status {
///       for (const auto& [page, n] : clicks.Take(ctx)) {
///         if (absl::Status status = ctx.Emit("totals", page, std::to_string(n)); !status.ok()) return status;
///       }
///       return absl::OkStatus();
///     });
///
/// Each task has its own, which begins as T(). It is forgotten when the sidecar takes back what it is made of: a
/// transaction was aborted, or the task went elsewhere.
template <typename T>
class Gathered {
 public:
  Gathered() = default;
  Gathered(const Gathered&) = delete;             ///< it is known by its place
  Gathered& operator=(const Gathered&) = delete;  ///< it is known by its place

  /// Changes what the task has gathered, once the record counts: one whose handler fails has changed nothing. `change`
  /// is called on the same thread after the handler, so what it captures must not point into the batch.
  void Change(Context& ctx, std::function<void(T&)> change) const {
    ctx.ChangeGathered(this, [change = std::move(change)](std::shared_ptr<void>* gathered) {
      if (*gathered == nullptr) *gathered = std::make_shared<T>();
      change(*static_cast<T*>(gathered->get()));
    });
  }
  /// Takes what the task has gathered so far, and begins anew: in hooks.
  T Take(Context& ctx) const {
    std::shared_ptr<void>* gathered = ctx.GatheredSlot(this);
    if (gathered == nullptr || *gathered == nullptr) return T();
    T taken = std::move(*static_cast<T*>(gathered->get()));
    gathered->reset();
    return taken;
  }
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_GATHERED_H_
