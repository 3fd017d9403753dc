#ifndef MILLSTREAM_SIDECAR_GROUP_WIRE_ERROR_CODE_H_
#define MILLSTREAM_SIDECAR_GROUP_WIRE_ERROR_CODE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace millstream::group::wire {

// The brokers' error codes that a group member, an authentication or InitProducerId can meet. Others exist; they are
// carried as numbers and treated as kUnknown is.
enum class ErrorCode : int16_t {
  kUnknown = -1,
  kNone = 0,
  kRequestTimedOut = 7,
  kNetworkException = 13,
  kCoordinatorLoadInProgress = 14,
  kCoordinatorNotAvailable = 15,
  kNotCoordinator = 16,
  kIllegalGeneration = 22,
  kInconsistentGroupProtocol = 23,
  kInvalidGroupId = 24,
  kUnknownMemberId = 25,
  kInvalidSessionTimeout = 26,
  kRebalanceInProgress = 27,
  kTopicAuthorizationFailed = 29,
  kGroupAuthorizationFailed = 30,
  kClusterAuthorizationFailed = 31,
  kUnsupportedSaslMechanism = 33,
  kIllegalSaslState = 34,
  kUnsupportedVersion = 35,
  kInvalidProducerEpoch = 47,
  kInvalidTransactionTimeout = 50,
  kConcurrentTransactions = 51,
  kTransactionalIdAuthorizationFailed = 53,
  kSaslAuthenticationFailed = 58,
  kMemberIdRequired = 79,
  kGroupMaxSizeReached = 81,
  kFencedInstanceId = 82,
  kProducerFenced = 90,
};

// What a member does about an error of its group's coordinator, whichever call brought it.
enum class Reaction {
  kProceed,          // no error
  kRetry,            // the same call again after a pause, id and generation kept
  kFindCoordinator,  // another broker looks after the group now: look for it, id and generation kept
  kRebalance,        // finish what is open, join again
  kTakeMemberId,     // join again with the id in the answer
  kRejoinWithId,     // the generation is over: everything is lost, join again under the same id
  kRejoinAsNew,      // the id is void: everything is lost, join again without one
  kStop,             // somebody else has this name: never join again
  kComplain,         // only a person can mend it: say so and try again slowly
};

Reaction ReactionTo(ErrorCode code);

// "REBALANCE_IN_PROGRESS (27)", as Kafka's documentation has it.
std::string ErrorName(ErrorCode code);

// `what` failed with `code`, as a status with the way out. Precondition: not kNone.
absl::Status ErrorStatus(ErrorCode code, std::string_view what);

}  // namespace millstream::group::wire

#endif  // MILLSTREAM_SIDECAR_GROUP_WIRE_ERROR_CODE_H_
