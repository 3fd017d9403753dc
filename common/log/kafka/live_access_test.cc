// What writers and admin make of an access that changes: against librdkafka's own broker in this process, which does
// not know enough for readers (reader_test.cc).
#include "common/log/kafka/live_access.h"

#include <gmock/gmock.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/kafka/open.h"
#include "common/log/kafka/testing/mock_broker_test.h"

namespace millstream::kafka {
namespace {

class LiveAccessTest : public MockBrokerTest {
 protected:
  LiveAccessTest() {
    KafkaLogOptions options;
    options.live_access = access_;
    options.metrics = metrics_.get();
    Open(std::move(options));
  }
  ~LiveAccessTest() override { log_.reset(); }

  // The same servers, by another version: what a rotation is to clients.
  void Rotate() { access_->Change(access_->Now()->access); }
  void RotateToNonsense() {
    ClusterAccess access = access_->Now()->access;
    access.tls.emplace().ca_pem = "no certificate";
    access_->Change(access);
  }
  double Renewed(const std::string& kind) {
    return metrics_->GetCounter("millstream_kafka_clients_renewed_total", "", {{"client", kind}})->Value();
  }
  static log::OutgoingRecord Record(int number) {
    return {.to = {"t", Partition(0)}, .timestamp_ms = 1000, .key = StrCat("k", number), .value = "v", .headers = {}};
  }
  static void Write(log::PlainWriter& writer, int first, int count) {
    for (int i = first; i < first + count; ++i) {
      const absl::Status appended = writer.Append({Record(i)});
      ASSERT_TRUE(appended.ok()) << appended;
    }
    const auto flushed = writer.Flush();
    ASSERT_TRUE(flushed.ok()) << flushed.status();
    EXPECT_EQ(flushed->at({"t", Partition(0)}), Offset(first + count - 1));
  }

  const std::unique_ptr<MetricsRegistry> metrics_ = NewMetricsRegistry();
  const std::shared_ptr<LiveAccess> access_ = std::make_shared<LiveAccess>(Access());
};

TEST(LiveAccess, HasAVersionAndTokensOfItsOwn) {
  LiveAccess live((ClusterAccess()));
  const auto first = live.Now();
  EXPECT_EQ(first->version, 1u);
  EXPECT_EQ(first->tokens, nullptr);
  ClusterAccess access;
  access.sasl.emplace().mechanism = SaslMechanism::kOauthBearer;
  live.Change(access);
  EXPECT_EQ(live.version(), 2u);
  EXPECT_EQ(live.Now()->version, 2u);
  EXPECT_NE(live.Now()->tokens, nullptr);
  EXPECT_EQ(first->tokens, nullptr);  // whoever has it keeps it
}

TEST_F(LiveAccessTest, ATransactionEndsOnTheClientItBeganOn) {
  const auto writer = ReadyWriter();
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Append({Record(0)}).ok());
  Rotate();
  ASSERT_TRUE(writer->Append({Record(1)}).ok());
  ASSERT_TRUE(writer->Flush().ok());
  const absl::Status committed = writer->Commit();
  ASSERT_TRUE(committed.ok()) << committed;
  EXPECT_EQ(Renewed("writer"), 0);

  for (int i = 2; i < 4; ++i) {
    const absl::Status begun = writer->Begin();
    ASSERT_TRUE(begun.ok()) << begun;
    ASSERT_TRUE(writer->Append({Record(i)}).ok());
    const absl::Status again = writer->Commit();
    ASSERT_TRUE(again.ok()) << again;
    EXPECT_EQ(Renewed("writer"), 1);
  }
}

TEST_F(LiveAccessTest, AWriterThatCannotBeMadeAnewHasToBeReplaced) {
  const auto writer = ReadyWriter();
  RotateToNonsense();
  const absl::Status begun = writer->Begin();
  ASSERT_FALSE(begun.ok());
  EXPECT_EQ(RecoveryOf(begun), Recovery::kRecreate);
}

TEST_F(LiveAccessTest, AWriterThatIsNotLetInTriesWithTheNextAccess) {
  const ClusterAccess right = access_->Now()->access;
  ClusterAccess wrong = right;
  wrong.bootstrap_servers = "127.0.0.1:1";
  access_->Change(wrong);
  const auto writer = NewWriter(absl::Seconds(1));
  EXPECT_EQ(RecoveryOf(writer->Init()), Recovery::kRetry);
  access_->Change(right);
  absl::Status again;
  for (int attempt = 0; attempt < 30; ++attempt) {
    again = writer->Init();
    if (again.ok()) break;
    ASSERT_EQ(RecoveryOf(again), Recovery::kRetry) << again;
  }
  ASSERT_TRUE(again.ok()) << again;
  EXPECT_TRUE(writer->Begin().ok());
  EXPECT_EQ(Renewed("writer"), 1);
}

TEST_F(LiveAccessTest, APlainWriterGoesOnWhenNothingIsUnderWay) {
  const auto writer = log_->NewPlainWriter();
  Write(*writer, 0, 3);
  ASSERT_TRUE(writer->Append({Record(3)}).ok());
  Rotate();
  Write(*writer, 4, 2);
  EXPECT_EQ(Renewed("plain writer"), 0);
  Write(*writer, 6, 2);
  EXPECT_EQ(Renewed("plain writer"), 1);
  // What the one before was acknowledged is not forgotten.
  Rotate();
  const auto flushed = writer->Flush();
  ASSERT_TRUE(flushed.ok()) << flushed.status();
  EXPECT_EQ(flushed->at({"t", Partition(0)}), Offset(7));
}

TEST_F(LiveAccessTest, CallsOfAdminGoOn) {
  for (int i = 0; i < 2; ++i) {
    const auto end = log_->admin().EndOffset({"t", Partition(0)}, log::Isolation::kReadUncommitted);
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(*end, Offset(0));
    if (i == 0) Rotate();
  }
  EXPECT_EQ(Renewed("admin"), 1);
}

}  // namespace
}  // namespace millstream::kafka
