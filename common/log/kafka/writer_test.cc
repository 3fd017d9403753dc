// Writers against librdkafka's own broker in this process, which fails where it is told to. (It names no controller, so
// that admin calls, which readers need, find nobody there.)
#include <gmock/gmock.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/kafka/errors.h"
#include "common/log/kafka/open.h"
#include "common/log/kafka/rd.h"
#include "common/log/kafka/testing/mock_broker_test.h"

namespace millstream::kafka {
namespace {

using log::GroupOffset;
using log::GroupToken;
using testing::HasSubstr;
using OffsetPair = std::pair<TopicPartition, GroupOffset>;

// Keys of the requests that are made to fail (Kafka protocol guide).
enum Api : int16_t {
  kProduce = 0,
  kInitProducerId = 22,
  kAddPartitionsToTxn = 24,
  kTxnOffsetCommit = 28,
  kEndTxn = 26,
};

class KafkaWriter : public MockBrokerTest {
 protected:
  KafkaWriter() { Open(); }

  static std::vector<log::OutgoingRecord> Records(int count) {
    std::vector<log::OutgoingRecord> records;
    for (int i = 0; i < count; ++i) {
      records.push_back({.to = {"t", Partition(i % 2)},
                         .timestamp_ms = 1000 + i,
                         .key = StrCat("k", i),
                         .value = "v",
                         .headers = {}});
    }
    return records;
  }
  static void BeginWith(log::TransactionalWriter& writer, int records) {
    const absl::Status begun = writer.Begin();
    ASSERT_TRUE(begun.ok()) << begun;
    if (records == 0) return;
    const absl::Status appended = writer.Append(Records(records));
    ASSERT_TRUE(appended.ok()) << appended;
  }
  static void ExpectTransactionWorks(log::TransactionalWriter& writer) {
    BeginWith(writer, 4);
    const absl::Status committed = writer.Commit();
    EXPECT_TRUE(committed.ok()) << committed;
  }
  void Fail(Api api, rd_kafka_resp_err_t error) { rd_kafka_mock_push_request_errors(cluster_, api, 1, error); }
};

const GroupToken kToken{.group = "g", .member_id = "m", .instance_id = "", .generation = Generation(1)};
const std::vector<OffsetPair> kOffsets = {{{"t", Partition(0)}, {Offset(1), "metadata"}}};

TEST_F(KafkaWriter, CommitsAndTellsOffsets) {
  const auto writer = ReadyWriter();
  BeginWith(*writer, 6);
  const auto flushed = writer->Flush();
  ASSERT_TRUE(flushed.ok()) << flushed.status();
  EXPECT_EQ(flushed->at({"t", Partition(0)}), Offset(2));
  EXPECT_EQ(flushed->at({"t", Partition(1)}), Offset(2));
  ASSERT_TRUE(writer->Commit().ok());
  ExpectTransactionWorks(*writer);
}

TEST_F(KafkaWriter, ACommitThatIsNotAnsweredIsOfUnknownOutcome) {
  const auto writer = ReadyWriter(absl::Seconds(6));
  BeginWith(*writer, 2);
  ASSERT_TRUE(writer->Flush().ok());
  rd_kafka_mock_broker_push_request_error_rtts(cluster_, 1, kEndTxn, 1, RD_KAFKA_RESP_ERR_NO_ERROR, 60'000);
  const absl::Status status = writer->Commit();
  EXPECT_TRUE(IsOutcomeUnknown(status)) << status;
  EXPECT_EQ(RecoveryOf(status), Recovery::kRecreate);
  EXPECT_EQ(RecoveryOf(writer->Begin()), Recovery::kRecreate);
  EXPECT_EQ(RecoveryOf(writer->Abort()), Recovery::kRecreate);
}

TEST_F(KafkaWriter, AnAbortThatIsNotAnsweredIsOfUnknownOutcome) {
  const auto writer = ReadyWriter(absl::Seconds(6));
  BeginWith(*writer, 2);
  ASSERT_TRUE(writer->Flush().ok());
  rd_kafka_mock_broker_push_request_error_rtts(cluster_, 1, kEndTxn, 1, RD_KAFKA_RESP_ERR_NO_ERROR, 60'000);
  EXPECT_TRUE(IsOutcomeUnknown(writer->Abort()));
}

// engine.md, R6: librdkafka repeats EndTxn after a disconnect and says OK; the first one may still be on its way.
TEST_F(KafkaWriter, AfterAConnectionClosedTheOutcomeStandsButTheWriterStartsAfresh) {
  for (const bool commit : {true, false}) {
    const auto writer = ReadyWriter();
    BeginWith(*writer, 2);
    ASSERT_TRUE(writer->Flush().ok());
    Fail(kEndTxn, RD_KAFKA_RESP_ERR__TRANSPORT);
    const absl::Status ended = commit ? writer->Commit() : writer->Abort();
    EXPECT_TRUE(ended.ok()) << ended;
    const absl::Status begun = writer->Begin();
    EXPECT_EQ(RecoveryOf(begun), Recovery::kRecreate) << begun;
    EXPECT_FALSE(IsOutcomeUnknown(begun));
    EXPECT_THAT(begun.ToString(), HasSubstr("connection closed"));
  }
  ExpectTransactionWorks(*ReadyWriter());
}

TEST_F(KafkaWriter, TransientErrorsOfACommitAreRepeated) {
  const auto writer = ReadyWriter();
  BeginWith(*writer, 2);
  Fail(kEndTxn, RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS);
  const absl::Status status = writer->Commit();
  EXPECT_TRUE(status.ok()) << status;
  ExpectTransactionWorks(*writer);
}

TEST_F(KafkaWriter, AFencedCommitIsOfUnknownOutcome) {
  const auto writer = ReadyWriter();
  BeginWith(*writer, 2);
  Fail(kEndTxn, RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH);
  const absl::Status status = writer->Commit();
  EXPECT_TRUE(IsOutcomeUnknown(status)) << status;
  EXPECT_EQ(RecoveryOf(writer->Begin()), Recovery::kRecreate);
}

TEST_F(KafkaWriter, AFencedWriterIsToldSoByItsFlush) {
  const auto writer = ReadyWriter();
  Fail(kAddPartitionsToTxn, RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH);
  ASSERT_TRUE(writer->Begin().ok());
  absl::Status status = writer->Append(Records(2));
  if (status.ok()) status = writer->Flush().status();
  EXPECT_EQ(RecoveryOf(status), Recovery::kRecreate) << status;
  EXPECT_FALSE(IsOutcomeUnknown(status));
}

// librdkafka would let the flush wait for records that are never sent.
TEST_F(KafkaWriter, ATransactionThatBecameVoidEndsTheFlush) {
  const auto writer = ReadyWriter(absl::Minutes(10));  // far beyond the test's own time
  Fail(kAddPartitionsToTxn, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
  ASSERT_TRUE(writer->Begin().ok());
  absl::Status status = writer->Append(Records(2));
  if (status.ok()) status = writer->Flush().status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_EQ(RecoveryOf(status), Recovery::kAbort);
  EXPECT_THAT(status.ToString(), HasSubstr("ACL"));
  ASSERT_TRUE(writer->Abort().ok());
  ExpectTransactionWorks(*writer);
}

TEST_F(KafkaWriter, MissingRightsNameTheirResource) {
  {
    const auto writer = NewWriter();
    Fail(kInitProducerId, RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    const absl::Status status = writer->Init();
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    EXPECT_EQ(RecoveryOf(status), Recovery::kRecreate);
    EXPECT_THAT(status.ToString(), HasSubstr("writer-a"));
  }
  const auto writer = ReadyWriter();
  BeginWith(*writer, 0);
  Fail(kTxnOffsetCommit, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
  const absl::Status status = writer->SendOffsets(kToken, kOffsets);
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("group g"));
}

TEST_F(KafkaWriter, RefusedTokensAreNamedAndTheWriterGoesOn) {
  const auto writer = ReadyWriter();
  for (const auto& [error, name] : std::vector<std::pair<rd_kafka_resp_err_t, std::string>>{
           {RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, "ILLEGAL_GENERATION"},
           {RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID, "UNKNOWN_MEMBER_ID"},
           {RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID, "FENCED_INSTANCE_ID"}}) {
    BeginWith(*writer, 2);
    Fail(kTxnOffsetCommit, error);
    const absl::Status status = writer->SendOffsets(kToken, kOffsets);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(RecoveryOf(status), Recovery::kAbort);
    EXPECT_THAT(status.ToString(), HasSubstr(name));
    EXPECT_FALSE(writer->Commit().ok());
    const absl::Status aborted = writer->Abort();
    ASSERT_TRUE(aborted.ok()) << aborted;
  }
  ExpectTransactionWorks(*writer);
}

TEST_F(KafkaWriter, HalfATokenIsRefused) {
  const auto writer = ReadyWriter();
  GroupToken token = kToken;
  token.generation = Generation(-1);
  BeginWith(*writer, 0);
  const absl::Status status = writer->SendOffsets(token, kOffsets);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(writer->Abort().ok());
}

// A refused record has a number that the ones behind it count on: the next transaction needs another producer.
TEST_F(KafkaWriter, AfterARefusedRecordTheNextTransactionWorks) {
  const auto writer = ReadyWriter();
  for (int round = 0; round < 2; ++round) {
    BeginWith(*writer, 0);
    Fail(kProduce, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    absl::Status status = writer->Append(Records(1));
    if (status.ok()) status = writer->Flush().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(RecoveryOf(status), Recovery::kAbort);
    EXPECT_THAT(status.ToString(), HasSubstr("t-0"));
    EXPECT_THAT(status.ToString(), HasSubstr("key 'k0'"));
    ASSERT_TRUE(writer->Abort().ok());
    ExpectTransactionWorks(*writer);
  }
}

TEST_F(KafkaWriter, ATransactionTimeoutAboveTheBrokersNamesBoth) {
  const auto writer = NewWriter();
  Fail(kInitProducerId, RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT);
  const absl::Status status = writer->Init();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(RecoveryOf(status), Recovery::kRecreate);
  EXPECT_THAT(status.ToString(), HasSubstr("transaction.timeout is 30000 ms"));
  EXPECT_THAT(status.ToString(), HasSubstr("transaction.max.timeout.ms"));
}

TEST_F(KafkaWriter, InitWaitsForABrokerAndMayBeRepeated) {
  rd_kafka_mock_broker_set_down(cluster_, 1);
  const auto writer = NewWriter(absl::Seconds(1));
  const absl::Status status = writer->Init();
  EXPECT_EQ(RecoveryOf(status), Recovery::kRetry) << status;
  rd_kafka_mock_broker_set_up(cluster_, 1);
  absl::Status again;
  for (int attempt = 0; attempt < 30; ++attempt) {
    again = writer->Init();
    if (again.ok()) break;
    EXPECT_EQ(RecoveryOf(again), Recovery::kRetry) << again;
  }
  ASSERT_TRUE(again.ok()) << again;
  BeginWith(*writer, 1);
}

TEST_F(KafkaWriter, ATopicThatIsNotThereIsNamed) {
  const auto writer = ReadyWriter();
  BeginWith(*writer, 0);
  const absl::Status status =
      writer->Append({{.to = {"t", Partition(7)}, .timestamp_ms = 1, .key = "k", .value = "v", .headers = {}}});
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_EQ(RecoveryOf(status), Recovery::kAbort);
  EXPECT_THAT(status.ToString(), HasSubstr("t-7"));
  EXPECT_THAT(status.ToString(), HasSubstr("2 partitions"));
  EXPECT_TRUE(writer->Abort().ok());
}

TEST_F(KafkaWriter, EndsWithRecordsUnderWayAndNoBroker) {
  const auto writer = ReadyWriter();
  BeginWith(*writer, 2);
  ASSERT_TRUE(writer->Flush().ok());
  rd_kafka_mock_broker_set_down(cluster_, 1);
  EXPECT_TRUE(writer->Append(Records(1000)).ok());
  // The destructor comes back; that is the test.
}

TEST_F(KafkaWriter, PlainRecordsAreAcknowledgedAndARefusedOneDoesNotStopThem) {
  const auto writer = log_->NewPlainWriter();
  ASSERT_TRUE(writer->Append(Records(4)).ok());
  auto flushed = writer->Flush();
  ASSERT_TRUE(flushed.ok()) << flushed.status();
  EXPECT_EQ(flushed->at({"t", Partition(1)}), Offset(1));
  Fail(kProduce, RD_KAFKA_RESP_ERR_INVALID_RECORD);
  absl::Status status = writer->Append(Records(1));
  if (status.ok()) status = writer->Flush().status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  ASSERT_TRUE(writer->Append(Records(4)).ok());
  flushed = writer->Flush();
  ASSERT_TRUE(flushed.ok()) << flushed.status();
  EXPECT_EQ(flushed->at({"t", Partition(1)}), Offset(3));
}

TEST(KafkaOptions, ProtectedAndUnknownPropertiesAreRefused) {
  KafkaLogOptions options;
  options.access.bootstrap_servers = "127.0.0.1:1";
  options.access.config = {{"enable.idempotence", "false"}};
  absl::Status status = OpenKafkaLog(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("enable.idempotence"));
  options.access.config = {{"no.such.property", "1"}};
  status = OpenKafkaLog(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("no.such.property"));
  options.access.config = {{"compression.type", "zstd"}, {"linger.ms", "20"}};
  EXPECT_TRUE(OpenKafkaLog(options).ok());
}

TEST(KafkaOptions, ACallWithoutABrokerFailsInTimeAndSaysWhy) {
  KafkaLogOptions options;
  options.access.bootstrap_servers = "127.0.0.1:1";
  options.admin_deadline = absl::Seconds(5);
  auto log = OpenKafkaLog(options);
  ASSERT_TRUE(log.ok()) << log.status();
  const absl::Status status = (*log)->admin().DescribeTopic("t").status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("127.0.0.1:1"));
}

TEST(ErrorTable, SaysWhatToDo) {
  const auto action = [](ErrorClass error_class, TransactionCall call) {
    return ToTransactionStatus(call, {RD_KAFKA_RESP_ERR__FAIL, error_class, "detail"}, "context");
  };
  for (const TransactionCall call : {TransactionCall::kCommit, TransactionCall::kAbort}) {
    for (const ErrorClass error_class :
         {ErrorClass::kFatal, ErrorClass::kTimedOut, ErrorClass::kRetriable, ErrorClass::kOther}) {
      EXPECT_TRUE(IsOutcomeUnknown(action(error_class, call))) << static_cast<int>(error_class);
    }
  }
  EXPECT_EQ(RecoveryOf(action(ErrorClass::kRequiresAbort, TransactionCall::kCommit)), Recovery::kAbort);
  EXPECT_TRUE(IsOutcomeUnknown(action(ErrorClass::kRequiresAbort, TransactionCall::kAbort)));
  for (const TransactionCall call : {TransactionCall::kInit, TransactionCall::kBegin, TransactionCall::kAppend,
                                     TransactionCall::kFlush, TransactionCall::kSendOffsets}) {
    EXPECT_EQ(RecoveryOf(action(ErrorClass::kFatal, call)), Recovery::kRecreate);
    EXPECT_EQ(RecoveryOf(action(ErrorClass::kOther, call)), Recovery::kRecreate);
    EXPECT_FALSE(IsOutcomeUnknown(action(ErrorClass::kFatal, call)));
  }
  EXPECT_EQ(RecoveryOf(action(ErrorClass::kTimedOut, TransactionCall::kInit)), Recovery::kRetry);
  EXPECT_EQ(RecoveryOf(action(ErrorClass::kTimedOut, TransactionCall::kFlush)), Recovery::kAbort);
  EXPECT_EQ(RecoveryOf(action(ErrorClass::kRetriable, TransactionCall::kSendOffsets)), Recovery::kRetry);
}

}  // namespace
}  // namespace millstream::kafka
