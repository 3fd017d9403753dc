#ifndef MILLSTREAM_COMMON_LOG_KAFKA_ERRORS_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_ERRORS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/log/kafka/rd.h"

namespace millstream::kafka {

// A librdkafka or broker error as a plain status: its code by the table in errors.cc, its message
// "<context>: <detail> (<ERROR_NAME>)<hint>". `detail` empty: librdkafka's text for the code.
absl::Status ToStatus(rd_kafka_resp_err_t error, std::string_view context, std::string_view detail = {});

// ---------------------------------------------------------------- transactions

// The calls of a TransactionalWriter.
enum class TransactionCall { kInit, kBegin, kAppend, kFlush, kSendOffsets, kCommit, kAbort };
std::string_view NameOf(TransactionCall call);

// What librdkafka says about an error of a transactional call, the strongest first: its own documentation orders the
// flags so (INTRODUCTION.md, "Transactional producer API"), and calls an error without any of them fatal.
enum class ErrorClass {
  kFatal,          // the producer is unusable: fenced, or the broker ended its transaction
  kRequiresAbort,  // the transaction is void
  kTimedOut,       // the call's own deadline passed
  kRetriable,      // the same call may be repeated
  kOther,          // none of these: misuse, or a state the library does not know a way out of
};

struct TransactionError {
  rd_kafka_resp_err_t code;
  ErrorClass error_class;
  std::string detail;
};

// Takes ownership of nothing; `error` is not null.
TransactionError Describe(const rd_kafka_error_t* error);

// The status of a failed transactional call, with its Recovery: one table, (class, call) -> what to do. See
// docs/internals/kafka.md for the reasons.
absl::Status ToTransactionStatus(TransactionCall call, const TransactionError& error, std::string_view context);

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_ERRORS_H_
