#include "common/log/kafka/errors.h"

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::kafka {
namespace {

struct Meaning {
  rd_kafka_resp_err_t error;
  absl::StatusCode code;
  std::string_view hint;  // what to do, where the error alone does not say it
};

// Codes that mean something else than "the log failed in some way" (kUnknown). Errors that pass by themselves are
// kUnavailable.
constexpr Meaning kMeanings[] = {
    // Nothing answers.
    {RD_KAFKA_RESP_ERR__TRANSPORT, absl::StatusCode::kUnavailable, ""},
    {RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, absl::StatusCode::kUnavailable,
     "; check kafka.bootstrapServers and the network"},
    {RD_KAFKA_RESP_ERR__RESOLVE, absl::StatusCode::kUnavailable, "; check the host names in kafka.bootstrapServers"},
    {RD_KAFKA_RESP_ERR__TIMED_OUT, absl::StatusCode::kDeadlineExceeded, ""},
    {RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE, absl::StatusCode::kDeadlineExceeded, ""},
    {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, absl::StatusCode::kDeadlineExceeded, ""},
    {RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, absl::StatusCode::kDeadlineExceeded, ""},
    {RD_KAFKA_RESP_ERR__SSL, absl::StatusCode::kUnavailable,
     "; check kafka.tls: does the cluster speak TLS here, is its "
     "certificate signed by the CA given, does it name this host?"},
    {RD_KAFKA_RESP_ERR__AUTHENTICATION, absl::StatusCode::kUnauthenticated, "; check kafka.sasl"},
    {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, absl::StatusCode::kUnauthenticated, "; check kafka.sasl"},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM, absl::StatusCode::kUnauthenticated,
     "; the broker does not offer kafka.sasl.mechanism"},
    {RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, absl::StatusCode::kUnavailable, ""},
    {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, absl::StatusCode::kUnavailable, ""},
    {RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH, absl::StatusCode::kUnavailable, ""},
    {RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH, absl::StatusCode::kUnavailable, ""},
    {RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE, absl::StatusCode::kUnavailable, ""},
    {RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE, absl::StatusCode::kUnavailable, ""},
    {RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE, absl::StatusCode::kUnavailable, ""},
    {RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE, absl::StatusCode::kUnavailable, ""},
    {RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS, absl::StatusCode::kUnavailable, ""},
    {RD_KAFKA_RESP_ERR_NOT_COORDINATOR, absl::StatusCode::kUnavailable, ""},
    {RD_KAFKA_RESP_ERR_NOT_CONTROLLER, absl::StatusCode::kUnavailable, ""},
    {RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, absl::StatusCode::kUnavailable, ""},
    {RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR, absl::StatusCode::kUnavailable, "; the broker's disk fails"},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, absl::StatusCode::kUnavailable,
     "; fewer replicas are in sync than min.insync.replicas"},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, absl::StatusCode::kUnavailable,
     "; fewer replicas are in sync than min.insync.replicas"},
    {RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS, absl::StatusCode::kUnavailable, ""},
    {RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT, absl::StatusCode::kUnavailable, ""},
    {RD_KAFKA_RESP_ERR_REASSIGNMENT_IN_PROGRESS, absl::StatusCode::kUnavailable, ""},
    // Not there, or there already.
    {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, absl::StatusCode::kNotFound, ""},
    {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, absl::StatusCode::kNotFound, ""},
    {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, absl::StatusCode::kNotFound, ""},
    {RD_KAFKA_RESP_ERR__NOENT, absl::StatusCode::kNotFound, ""},
    {RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND, absl::StatusCode::kNotFound, ""},
    {RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS, absl::StatusCode::kAlreadyExists, ""},
    // Refused.
    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, absl::StatusCode::kInvalidArgument, ""},
    {RD_KAFKA_RESP_ERR_INVALID_PARTITIONS, absl::StatusCode::kInvalidArgument, ""},
    {RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR, absl::StatusCode::kInvalidArgument,
     "; the replication factor must not exceed the number of brokers"},
    {RD_KAFKA_RESP_ERR_INVALID_CONFIG, absl::StatusCode::kInvalidArgument, ""},
    {RD_KAFKA_RESP_ERR_INVALID_GROUP_ID, absl::StatusCode::kInvalidArgument, ""},
    {RD_KAFKA_RESP_ERR__INVALID_ARG, absl::StatusCode::kInvalidArgument, ""},
    {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, absl::StatusCode::kInvalidArgument, "; the broker's create policy refuses it"},
    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, absl::StatusCode::kInvalidArgument, ""},
    {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, absl::StatusCode::kInvalidArgument, ""},
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, absl::StatusCode::kInvalidArgument,
     "; a compacted topic refuses records without key, and a topic's message.timestamp settings refuse some times"},
    {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, absl::StatusCode::kInvalidArgument,
     "; the topic's message.timestamp settings refuse the record's time"},
    {RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT, absl::StatusCode::kInvalidArgument, ""},
    {RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE, absl::StatusCode::kInvalidArgument, ""},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION, absl::StatusCode::kUnimplemented,
     "; Millstream needs brokers of Kafka 2.5 or newer"},
    {RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE, absl::StatusCode::kUnimplemented,
     "; Millstream needs brokers of Kafka 2.5 or newer"},
    {RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE, absl::StatusCode::kOutOfRange, ""},
    {RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET, absl::StatusCode::kOutOfRange, ""},
    {RD_KAFKA_RESP_ERR__LOG_TRUNCATION, absl::StatusCode::kOutOfRange, ""},
    {RD_KAFKA_RESP_ERR__BAD_MSG, absl::StatusCode::kDataLoss, ""},
    {RD_KAFKA_RESP_ERR__BAD_COMPRESSION, absl::StatusCode::kDataLoss, ""},
    {RD_KAFKA_RESP_ERR_INVALID_MSG, absl::StatusCode::kDataLoss, ""},
    // Groups and fencing.
    {RD_KAFKA_RESP_ERR_NON_EMPTY_GROUP, absl::StatusCode::kFailedPrecondition,
     "; the group has members: stop them first"},
    {RD_KAFKA_RESP_ERR_GROUP_SUBSCRIBED_TO_TOPIC, absl::StatusCode::kFailedPrecondition, ""},
    {RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, absl::StatusCode::kFailedPrecondition, ""},
    {RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID, absl::StatusCode::kFailedPrecondition, ""},
    {RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID, absl::StatusCode::kFailedPrecondition, ""},
    {RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS, absl::StatusCode::kFailedPrecondition, ""},
    {RD_KAFKA_RESP_ERR__FENCED, absl::StatusCode::kAborted, ""},
    {RD_KAFKA_RESP_ERR_PRODUCER_FENCED, absl::StatusCode::kAborted, ""},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, absl::StatusCode::kAborted, ""},
    {RD_KAFKA_RESP_ERR_INVALID_TXN_STATE, absl::StatusCode::kAborted, ""},
    {RD_KAFKA_RESP_ERR__STATE, absl::StatusCode::kFailedPrecondition, ""},
    // Rights. The context names the resource.
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, absl::StatusCode::kPermissionDenied,
     "; an ACL on the topic is missing: inputs need Read and Describe, outputs and internal topics Write too"},
    {RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, absl::StatusCode::kPermissionDenied,
     "; the ACL Read on the group is missing"},
    {RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, absl::StatusCode::kPermissionDenied,
     "; the ACLs Write and Describe on the transactional id are missing"},
    {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, absl::StatusCode::kPermissionDenied,
     "; an ACL on the cluster is missing: Create to make topics, IdempotentWrite to write to brokers before 2.8"},
};

const Meaning* Find(rd_kafka_resp_err_t error) {
  for (const Meaning& meaning : kMeanings) {
    if (meaning.error == error) return &meaning;
  }
  return nullptr;
}

enum class Action { kRetry, kAbort, kRecreate, kUnknownOutcome };

// Rows by ErrorClass, columns by TransactionCall.
//
// A commit or abort that does not end with an answer for this very call is one of unknown outcome, also when the
// producer was fenced meanwhile: an earlier attempt of the library, whose answer was lost, may have ended the
// transaction before. Begin, Append and Flush send nothing that cannot be taken back by an abort.
constexpr Action kActions[][7] = {
    // kInit          kBegin             kAppend            kFlush             kSendOffsets       kCommit kAbort
    {Action::kRecreate, Action::kRecreate, Action::kRecreate, Action::kRecreate, Action::kRecreate,
     Action::kUnknownOutcome, Action::kUnknownOutcome},  // kFatal
    {Action::kRecreate, Action::kAbort, Action::kAbort, Action::kAbort, Action::kAbort, Action::kAbort,
     Action::kUnknownOutcome},  // kRequiresAbort
    {Action::kRetry, Action::kRetry, Action::kAbort, Action::kAbort, Action::kAbort, Action::kUnknownOutcome,
     Action::kUnknownOutcome},  // kTimedOut
    {Action::kRetry, Action::kRetry, Action::kAbort, Action::kAbort, Action::kRetry, Action::kUnknownOutcome,
     Action::kUnknownOutcome},  // kRetriable
    {Action::kRecreate, Action::kRecreate, Action::kRecreate, Action::kRecreate, Action::kRecreate,
     Action::kUnknownOutcome, Action::kUnknownOutcome},  // kOther
};

}  // namespace

absl::Status ToStatus(rd_kafka_resp_err_t error, std::string_view context, std::string_view detail) {
  const Meaning* const meaning = Find(error);
  const absl::StatusCode code = meaning == nullptr ? absl::StatusCode::kUnknown : meaning->code;
  if (detail.empty()) detail = rd_kafka_err2str(error);
  return absl::Status(code, StrCat(context, ": ", detail, " (", rd_kafka_err2name(error), ")",
                                   meaning == nullptr ? "" : meaning->hint));
}

std::string_view NameOf(TransactionCall call) {
  constexpr std::string_view kNames[] = {"init", "begin", "append", "flush", "send offsets", "commit", "abort"};
  return kNames[static_cast<size_t>(call)];
}

TransactionError Describe(const rd_kafka_error_t* error) {
  TransactionError described{
      .code = rd_kafka_error_code(error), .error_class = ErrorClass::kOther, .detail = rd_kafka_error_string(error)};
  if (rd_kafka_error_is_fatal(error)) {
    described.error_class = ErrorClass::kFatal;
  } else if (rd_kafka_error_txn_requires_abort(error)) {
    described.error_class = ErrorClass::kRequiresAbort;
  } else if (described.code == RD_KAFKA_RESP_ERR__TIMED_OUT) {
    described.error_class = ErrorClass::kTimedOut;
  } else if (rd_kafka_error_is_retriable(error)) {
    described.error_class = ErrorClass::kRetriable;
  }
  return described;
}

absl::Status ToTransactionStatus(TransactionCall call, const TransactionError& error, std::string_view context) {
  const absl::Status status = ToStatus(error.code, context, error.detail);
  switch (kActions[static_cast<size_t>(error.error_class)][static_cast<size_t>(call)]) {
    case Action::kRetry:
      return WithRecovery(status, Recovery::kRetry);
    case Action::kAbort:
      return WithRecovery(status, Recovery::kAbort);
    case Action::kRecreate:
      return WithRecovery(status, Recovery::kRecreate);
    case Action::kUnknownOutcome:
      return WithUnknownOutcome(status);
  }
  return status;
}

}  // namespace millstream::kafka
