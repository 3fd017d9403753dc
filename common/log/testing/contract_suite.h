#ifndef MILLSTREAM_COMMON_LOG_TESTING_CONTRACT_SUITE_H_
#define MILLSTREAM_COMMON_LOG_TESTING_CONTRACT_SUITE_H_

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/log/log.h"

namespace millstream::log {

// A log under test. One object serves one test; topics and groups of other tests may lie in the same log.
class ContractBackend {
 public:
  virtual ~ContractBackend() = default;
  virtual Log& log() = 0;
  // The token of the group's only member, made by a join that raises the generation.
  virtual absl::StatusOr<GroupToken> JoinGroup(const std::string& group, const std::string& member_id) = 0;
  virtual void LeaveGroup(const GroupToken& token) = 0;

  // Upper bound on anything the suite waits for.
  virtual absl::Duration patience() const { return absl::Seconds(10); }
  // How long nothing must be seen to believe that nothing comes.
  virtual absl::Duration quiet() const { return absl::Milliseconds(100); }
  // Longest time the log takes to notice an expired transaction, beyond its timeout.
  virtual absl::Duration expiry_scan() const { return absl::Seconds(2); }
  // Whether topics have ids (Kafka before 2.8 has none).
  virtual bool has_topic_ids() const { return true; }
};

using ContractBackendFactory = std::function<std::unique_ptr<ContractBackend>()>;

// What every log promises, as tests. A backend's test program compiles the contract_*.cc files in and says
//   INSTANTIATE_TEST_SUITE_P(Embedded, LogContract, testing::Values(ContractBackendFactory(...)));
// Tests wait for conditions with the backend's deadlines; nothing is expected at once.
class LogContract : public testing::TestWithParam<ContractBackendFactory> {
 protected:
  void SetUp() override;

  Log& log() { return backend_->log(); }
  Admin& admin() { return backend_->log().admin(); }

  // A name no other test uses.
  std::string Unique(const std::string& stem) const;
  // Makes a topic and waits until it can be used.
  std::string MakeTopic(int partitions = 1, std::map<std::string, std::string> config = {});
  // A writer after Init, waiting as long as that takes.
  std::unique_ptr<TransactionalWriter> MakeWriter(const std::string& transactional_id,
                                                  absl::Duration timeout = absl::Seconds(15));
  GroupToken Join(const std::string& group, const std::string& member = "member");

  // Appends and flushes; fails the test on errors. Returns the last acknowledged offset of the last record's partition.
  Offset Append(TransactionalWriter& writer, const std::vector<OutgoingRecord>& records);
  // Begin, append, commit.
  void CommitRecords(TransactionalWriter& writer, const std::vector<OutgoingRecord>& records);
  void WritePlain(const std::vector<OutgoingRecord>& records);

  // Polls until the end of the partition has been reported at `until` or behind it; all records before that.
  std::vector<Record> ReadTo(Reader& reader, const TopicPartition& from, Offset until);
  // A fresh read_committed reader from the start to the end the log reports now.
  std::vector<Record> ReadAll(const TopicPartition& from, Isolation isolation = Isolation::kReadCommitted);
  // Polls until `stop` likes an event; fails the test if none comes. All events up to it.
  std::vector<ReaderEvent> PollUntil(Reader& reader, const std::function<bool(const ReaderEvent&)>& stop);
  // Nothing comes from the reader for the backend's quiet time.
  void ExpectQuiet(Reader& reader);
  // Waits until the end offset is `expected`.
  void ExpectEnd(const TopicPartition& of, Isolation isolation, int64_t expected);
  // Waits until `condition` holds.
  bool Eventually(const std::function<bool()>& condition, absl::Duration extra = absl::ZeroDuration());

  std::unique_ptr<ContractBackend> backend_;
};

// Records "key" -> "value" for one partition, in short.
OutgoingRecord To(const TopicPartition& to, MaybeBytes key, MaybeBytes value, int64_t timestamp_ms = 0);
std::vector<OutgoingRecord> Numbered(const TopicPartition& to, int from, int count);
std::vector<std::string> Values(const std::vector<Record>& records);

}  // namespace millstream::log

#endif  // MILLSTREAM_COMMON_LOG_TESTING_CONTRACT_SUITE_H_
