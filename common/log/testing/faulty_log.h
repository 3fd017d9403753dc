#ifndef MILLSTREAM_COMMON_LOG_TESTING_FAULTY_LOG_H_
#define MILLSTREAM_COMMON_LOG_TESTING_FAULTY_LOG_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/log/log.h"

namespace millstream::log {

// Every call a fault can be put on.
enum class Call {
  kInit,
  kBegin,
  kAppend,
  kFlush,
  kSendOffsets,
  kCommit,
  kAbort,  // TransactionalWriter
  kPlainAppend,
  kPlainFlush,  // PlainWriter
  kAdd,
  kPoll,  // Reader
  kListTopics,
  kDescribeTopic,
  kCreateTopic,
  kDeleteTopic,
  kStartOffset,
  kEndOffset,
  kOffsetForTime,  // Admin
  kStableGroupOffsets,
  kSetGroupOffsets,
  kListGroups,
  kDeleteGroup,
};

// What goes wrong, once or several times, with calls that match.
struct Fault {
  Call call = Call::kCommit;
  // Transactional id, topic or group the call is about; empty: any.
  std::string of = {};
  int skip = 0;   // matching calls let through first
  int times = 1;  // calls struck after those

  enum class When {
    kBefore,  // the call fails, and nothing has happened
    kAfter,   // it happens, and the caller gets the error: a lost answer
    kLater,   // the caller gets the error, and it happens at HappenNow or right before the next Init of the
              // transactional id, as a request still on its way. Writer calls only
  };
  When when = When::kBefore;
  // What the caller gets; see the makers below. OK: the call's own answer (for holds and delays).
  absl::Status status = {};
  // Before anything else: waits so long (real time), or until Release when held.
  absl::Duration delay = {};
  bool hold = false;
};

// Errors as writers make them.
absl::Status OutcomeUnknown(const std::string& what = "no answer from the log");  // kRecreate, outcome unknown
absl::Status Fenced(const std::string& what = "PRODUCER_FENCED");                 // kRecreate
absl::Status MustAbort(const std::string& what = "the log wants an abort");       // kAbort
absl::Status IllegalGeneration();                                                 // kAbort
absl::Status MayRetry(const std::string& what = "the log is busy");               // kRetry

// A log that does what the one under it does, except where a test has put a fault. Struck writers behave as the
// contract says: after an error with kRecreate every call repeats it, after one with kAbort all but Abort do.
// Thread-safe. The log under it, and this, outlive the readers and writers made here. Its destructor releases what is
// held.
class FaultyLog : public Log {
 public:
  explicit FaultyLog(Log* under);
  ~FaultyLog() override;

  // Returns the fault's number. Faults are tried in order of injection; the first that matches strikes.
  int Inject(Fault fault);
  // Takes the fault away; calls it holds go on.
  void Remove(int fault);
  // Lets the calls it holds go on, and later ones pass its hold.
  void Release(int fault);
  // Calls struck so far.
  int Strikes(int fault) const;
  // True once a call is held by the fault; false after `patience`.
  bool WaitUntilHeld(int fault, absl::Duration patience) const;

  // The struck kLater calls of the id happen now, or never. HappenNow returns the first error.
  absl::Status HappenNow(const std::string& transactional_id);
  void NeverHappen(const std::string& transactional_id);

  // Every reader that reads the partition gets a PartitionFailed with the status in its next Poll, and nothing more of
  // it until a Seek.
  void FailPartition(const TopicPartition& partition, absl::Status status);

  std::unique_ptr<Reader> NewReader(const ReaderOptions& options) override;
  std::unique_ptr<TransactionalWriter> NewTransactionalWriter(const WriterOptions& options) override;
  std::unique_ptr<PlainWriter> NewPlainWriter() override;
  Admin& admin() override;

  class Script;  // the faults, shared by all parts; for faulty_log.cc

 private:
  Log* const under_;
  const std::shared_ptr<Script> script_;
  const std::unique_ptr<Admin> admin_;
};

}  // namespace millstream::log

#endif  // MILLSTREAM_COMMON_LOG_TESTING_FAULTY_LOG_H_
