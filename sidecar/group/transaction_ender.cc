#include "sidecar/group/transaction_ender.h"

#include <poll.h>

#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/group/wire/find_coordinator.h"
#include "sidecar/group/wire/init_producer_id.h"

namespace millstream::group {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestCall = absl::Seconds(5);

bool WorthAnotherTry(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsDataLoss(status);
}

}  // namespace

absl::Status TransactionEnder::Ask(const std::string& id, const IoLimit& limit) {
  auto coordinator = coordinators_.find(id);
  if (coordinator == coordinators_.end()) {
    wire::FindCoordinatorRequest find;
    find.key = id;
    find.kind = static_cast<int8_t>(wire::CoordinatorKind::kTransaction);
    MS_ASSIGN_OR_RETURN(const wire::FindCoordinatorResponse found, client_->Call(std::nullopt, find, limit));
    if (found.error != wire::ErrorCode::kNone) return wire::ErrorStatus(found.error, "FindCoordinator");
    coordinator = coordinators_.emplace(id, BrokerAddress{found.host, found.port}).first;
  }
  wire::InitProducerIdRequest init;
  init.transactional_id = id;
  init.transaction_timeout_ms = static_cast<int32_t>(absl::ToInt64Milliseconds(transaction_timeout_));
  const auto answer = client_->Call(coordinator->second, init, limit);
  if (!answer.ok()) {
    coordinators_.erase(coordinator);
    return answer.status();
  }
  if (answer->error == wire::ErrorCode::kNone) return absl::OkStatus();
  if (wire::ReactionTo(answer->error) == wire::Reaction::kFindCoordinator) coordinators_.erase(coordinator);
  return wire::ErrorStatus(answer->error, "InitProducerId");
}

std::vector<TransactionEnder::Failure> TransactionEnder::End(const std::vector<std::string>& transactional_ids,
                                                             const IoLimit& limit) {
  std::vector<Failure> failures, pending;
  for (const std::string& id : transactional_ids) pending.push_back({id, absl::UnavailableError("not asked yet")});
  // Round after round over all that are left, so that they wait for their brokers together.
  while (!pending.empty()) {
    std::vector<Failure> left;
    for (Failure& item : pending) {
      if (limit.Left() > absl::ZeroDuration()) {
        item.status = Ask(item.transactional_id, limit.AtMost(kLongestCall));
        if (item.status.ok()) continue;
        item.status = Annotate(item.status, StrCat("ending the transaction of ", item.transactional_id));
      }
      (WorthAnotherTry(item.status) ? left : failures).push_back(std::move(item));
    }
    pending = std::move(left);
    if (pending.empty()) break;
    // Wakes early when it is given up.
    const absl::Status waited = WaitFor(-1, POLLIN, limit.AtMost(kPause));
    if (absl::IsCancelled(waited) || limit.Left() <= absl::ZeroDuration()) break;
  }
  coordinators_.clear();
  for (Failure& item : pending) failures.push_back(std::move(item));
  return failures;
}

absl::Status EndTransactions(const kafka::ClusterAccess& access, const std::vector<std::string>& transactional_ids,
                             absl::Duration transaction_timeout, absl::Duration timeout) {
  ClusterClient client(std::make_shared<kafka::LiveAccess>(access), "millstream");
  TransactionEnder ender(&client, transaction_timeout);
  const auto failures = ender.End(transactional_ids, IoLimit::In(timeout, nullptr));
  return failures.empty() ? absl::OkStatus() : failures.front().status;
}

}  // namespace millstream::group
