#include "sidecar/group/wire/error_code.h"

#include <string_view>

#include "common/base/strings.h"

namespace millstream::group::wire {
namespace {

struct Row {
  ErrorCode code;
  std::string_view name;
  Reaction reaction;
  std::string_view advice;  // for what reaches a person
};

// The one table of what a member does about errors.
constexpr Row kRows[] = {
    {ErrorCode::kUnknown, "UNKNOWN_SERVER_ERROR", Reaction::kRetry, "look into the broker's log"},
    {ErrorCode::kNone, "NONE", Reaction::kProceed, ""},
    {ErrorCode::kRequestTimedOut, "REQUEST_TIMED_OUT", Reaction::kRetry, ""},
    {ErrorCode::kNetworkException, "NETWORK_EXCEPTION", Reaction::kRetry, ""},
    {ErrorCode::kCoordinatorLoadInProgress, "COORDINATOR_LOAD_IN_PROGRESS", Reaction::kRetry, ""},
    {ErrorCode::kCoordinatorNotAvailable, "COORDINATOR_NOT_AVAILABLE", Reaction::kFindCoordinator, ""},
    {ErrorCode::kNotCoordinator, "NOT_COORDINATOR", Reaction::kFindCoordinator, ""},
    {ErrorCode::kIllegalGeneration, "ILLEGAL_GENERATION", Reaction::kRejoinWithId, ""},
    {ErrorCode::kInconsistentGroupProtocol, "INCONSISTENT_GROUP_PROTOCOL", Reaction::kComplain,
     "another program consumes in this group: give it, or this processor, a group of its own"},
    {ErrorCode::kInvalidGroupId, "INVALID_GROUP_ID", Reaction::kComplain, "correct the processor's group"},
    {ErrorCode::kUnknownMemberId, "UNKNOWN_MEMBER_ID", Reaction::kRejoinAsNew, ""},
    {ErrorCode::kInvalidSessionTimeout, "INVALID_SESSION_TIMEOUT", Reaction::kComplain,
     "membership.sessionTimeout must lie between the brokers' group.min.session.timeout.ms and "
     "group.max.session.timeout.ms"},
    {ErrorCode::kRebalanceInProgress, "REBALANCE_IN_PROGRESS", Reaction::kRebalance, ""},
    {ErrorCode::kTopicAuthorizationFailed, "TOPIC_AUTHORIZATION_FAILED", Reaction::kComplain,
     "allow this user to READ and DESCRIBE the processor's input topics"},
    {ErrorCode::kGroupAuthorizationFailed, "GROUP_AUTHORIZATION_FAILED", Reaction::kComplain,
     "allow this user to READ and DESCRIBE the group"},
    {ErrorCode::kClusterAuthorizationFailed, "CLUSTER_AUTHORIZATION_FAILED", Reaction::kComplain,
     "check the ACLs of this user"},
    {ErrorCode::kUnsupportedSaslMechanism, "UNSUPPORTED_SASL_MECHANISM", Reaction::kComplain,
     "choose a kafka.sasl.mechanism that the brokers offer"},
    {ErrorCode::kIllegalSaslState, "ILLEGAL_SASL_STATE", Reaction::kComplain,
     "the listener expects no SASL: check port and kafka.sasl"},
    {ErrorCode::kUnsupportedVersion, "UNSUPPORTED_VERSION", Reaction::kComplain,
     "brokers from 2.5 to 4.4 are supported"},
    {ErrorCode::kInvalidProducerEpoch, "INVALID_PRODUCER_EPOCH", Reaction::kRetry, ""},
    {ErrorCode::kInvalidTransactionTimeout, "INVALID_TRANSACTION_TIMEOUT", Reaction::kComplain,
     "transaction.timeout is above the brokers' transaction.max.timeout.ms"},
    {ErrorCode::kConcurrentTransactions, "CONCURRENT_TRANSACTIONS", Reaction::kRetry, ""},
    {ErrorCode::kTransactionalIdAuthorizationFailed, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", Reaction::kComplain,
     "allow this user to WRITE and DESCRIBE the transactional ids with the prefix <group>-"},
    {ErrorCode::kSaslAuthenticationFailed, "SASL_AUTHENTICATION_FAILED", Reaction::kComplain,
     "check kafka.sasl: who this is, and its secret"},
    {ErrorCode::kMemberIdRequired, "MEMBER_ID_REQUIRED", Reaction::kTakeMemberId, ""},
    {ErrorCode::kGroupMaxSizeReached, "GROUP_MAX_SIZE_REACHED", Reaction::kComplain,
     "run fewer replicas, or raise the brokers' group.max.size"},
    {ErrorCode::kFencedInstanceId, "FENCED_INSTANCE_ID", Reaction::kStop,
     "another process joined the group under the same name"},
    {ErrorCode::kProducerFenced, "PRODUCER_FENCED", Reaction::kRetry, ""},
};

const Row* Find(ErrorCode code) {
  for (const Row& row : kRows) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

}  // namespace

Reaction ReactionTo(ErrorCode code) {
  const Row* row = Find(code);
  return row == nullptr ? Reaction::kRetry : row->reaction;
}

std::string ErrorName(ErrorCode code) {
  const Row* row = Find(code);
  return StrCat(row == nullptr ? "error" : row->name, " (", static_cast<int>(code), ")");
}

absl::Status ErrorStatus(ErrorCode code, std::string_view what) {
  const Row* row = Find(code);
  const std::string_view advice = row == nullptr ? "" : row->advice;
  const std::string text = StrCat(what, ": ", ErrorName(code), advice.empty() ? "" : "; ", advice);
  switch (code) {
    case ErrorCode::kGroupAuthorizationFailed:
    case ErrorCode::kTopicAuthorizationFailed:
    case ErrorCode::kClusterAuthorizationFailed:
    case ErrorCode::kTransactionalIdAuthorizationFailed:
      return absl::PermissionDeniedError(text);
    case ErrorCode::kSaslAuthenticationFailed:
      return absl::UnauthenticatedError(text);
    case ErrorCode::kFencedInstanceId:
      return absl::AlreadyExistsError(text);
    case ErrorCode::kIllegalGeneration:
    case ErrorCode::kUnknownMemberId:
      return absl::AbortedError(text);
    default:
      return ReactionTo(code) == Reaction::kComplain ? absl::FailedPreconditionError(text)
                                                     : absl::UnavailableError(text);
  }
}

}  // namespace millstream::group::wire
