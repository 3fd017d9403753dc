#include "sidecar/group/call_lane.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/log_line.h"
#include "common/base/status.h"

namespace millstream::group {

CallLane::CallLane(ClusterClient client, absl::Duration transaction_timeout, std::function<void(MemberEvent)> done,
                   Histogram* seconds)
    : client_(std::move(client)),
      ender_(&client_, transaction_timeout),
      done_(std::move(done)),
      seconds_(seconds),
      thread_([this] { Run(); }) {}

CallLane::~CallLane() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (cancel_ != nullptr) cancel_->Trigger();
  }
  thread_.join();
}

void CallLane::Do(Call call) {
  absl::MutexLock lock(&mutex_);
  cancel_ = std::make_shared<Cancel>();
  waiting_.push_back({std::move(call), cancel_});
}

void CallLane::GiveUp() {
  absl::MutexLock lock(&mutex_);
  if (cancel_ != nullptr) cancel_->Trigger();
}

void CallLane::Run() {
  while (true) {
    std::vector<Order> orders;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](CallLane* lane) {
            lane->mutex_.AssertHeld();
            return lane->stopping_ || !lane->waiting_.empty();
          },
          this));
      if (stopping_) return;
      orders.swap(waiting_);
    }
    for (const Order& order : orders) done_(Make(order.call, *order.cancel));
  }
}

MemberEvent CallLane::Make(const Call& call, const Cancel& cancel) {
  return std::visit([&](const auto& chosen) { return Make(chosen, cancel); }, call);
}

MemberEvent CallLane::Make(const CallBroker& call, const Cancel& cancel) {
  const absl::Duration start = SystemClock().Monotonic();
  CallDone done{.call = call.call, .response = absl::UnknownError("")};
  std::visit(
      [&](const auto& request) {
        auto response = client_.Call(call.to, request, IoLimit::In(call.timeout, &cancel));
        if (response.ok()) {
          done.response = CallResponse(*std::move(response));
        } else {
          done.response = response.status();
        }
      },
      call.request);
  if (seconds_ != nullptr && done.response.ok()) {
    seconds_->Observe(absl::ToDoubleSeconds(SystemClock().Monotonic() - start));
  }
  return done;
}

MemberEvent CallLane::Make(const EndVanished& call, const Cancel& cancel) {
  TransactionsEnded ended{.call = call.call, .not_ended = {}};
  for (const auto& failure : ender_.End(call.transactional_ids, IoLimit::In(call.timeout, &cancel))) {
    LogWarning("a vanished member's transaction could not be ended; readers wait for its timeout",
               {{"transactional_id", failure.transactional_id}, {"error", std::string(failure.status.message())}});
    ended.not_ended.push_back(failure.transactional_id);
  }
  std::sort(ended.not_ended.begin(), ended.not_ended.end());
  return ended;
}

}  // namespace millstream::group
