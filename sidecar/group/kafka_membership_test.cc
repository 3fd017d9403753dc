// On a real broker: MILLSTREAM_TEST_KAFKA names it (label "kafka").
#include "sidecar/group/kafka_membership.h"

#include <algorithm>
#include <cstdlib>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/group/net/secrets.h"
#include "sidecar/group/testing/fake_engine.h"
#include "sidecar/group/transaction_ender.h"
#include "sidecar/group/wire/find_coordinator.h"
#include "sidecar/group/wire/init_producer_id.h"

namespace millstream::group {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Seen = FakeEngine::Seen;

// Adding a group's offsets opens a transaction without needing any topic.
struct AddOffsetsToTxnResponse {
  static constexpr std::string_view kName = "AddOffsetsToTxnResponse";
  int32_t throttle_ms = 0;
  wire::ErrorCode error = wire::ErrorCode::kNone;
  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.Int32(self.throttle_ms);
    archive.Enum16(self.error);
  }
};
struct AddOffsetsToTxnRequest {
  static constexpr std::string_view kName = "AddOffsetsToTxnRequest";
  static constexpr wire::ApiKey kApi = static_cast<wire::ApiKey>(25);
  static constexpr int16_t kVersion = 0;
  using Response = AddOffsetsToTxnResponse;
  std::string transactional_id;
  int64_t producer_id = 0;
  int16_t producer_epoch = 0;
  std::string group;
  template <typename Archive, typename Self>
  static void Fields(Archive& archive, Self& self) {
    archive.String(self.transactional_id);
    archive.Int64(self.producer_id);
    archive.Int16(self.producer_epoch);
    archive.String(self.group);
  }
};

class KafkaMembershipTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* bootstrap = std::getenv("MILLSTREAM_TEST_KAFKA");
    if (bootstrap == nullptr) GTEST_SKIP() << "MILLSTREAM_TEST_KAFKA names no broker";
    access_.bootstrap_servers = bootstrap;
    std::string suffix = RandomText(6);
    std::replace_if(
        suffix.begin(), suffix.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, 'x');
    group_ = StrCat("membership-test-", suffix);
  }
  void TearDown() override { EXPECT_THAT(ownership_.violations(), IsEmpty()); }

  KafkaMembershipOptions Options(const std::string& name) {
    KafkaMembershipOptions options;
    options.access = access_;
    options.group = group_;
    options.topics = {"orders", "payments"};
    options.tasks = kTasks;
    options.session_timeout = absl::Seconds(6);  // the least that brokers take
    options.heartbeat_interval = absl::Milliseconds(100);
    options.rebalance_timeout = absl::Seconds(20);
    options.transaction_timeout = absl::Seconds(60);
    options.host = name + ":8080";
    options.transactional_ids = {StrCat(group_, "-", name, "-0-a"), StrCat(group_, "-", name, "-0-b")};
    return options;
  }
  KafkaMembershipOptions Static(const std::string& name) {
    KafkaMembershipOptions options = Options(name);
    options.instance_id = name;
    return options;
  }

  static constexpr int kTasks = 7;
  kafka::ClusterAccess access_;
  std::string group_;
  Ownership ownership_;
};

TEST_F(KafkaMembershipTest, TasksAreSharedOutAndComeBackWhenAMemberLeaves) {
  FakeEngine a("a", &ownership_), b("b", &ownership_), c("c", &ownership_);
  a.Start(Options("a"));
  ASSERT_TRUE(a.AwaitTasks(7)) << a.seen().problem;
  EXPECT_EQ(a.seen().members, 1);
  const std::set<TaskId> before = a.seen().tasks;
  b.Start(Options("b"));
  ASSERT_TRUE(b.AwaitTasks(3)) << b.seen().problem;
  ASSERT_TRUE(a.AwaitTasks(4));
  EXPECT_EQ(a.seen().revoked, 3);  // what stays is not touched
  c.Start(Options("c"));
  ASSERT_TRUE(c.AwaitTasks(2));
  EXPECT_EQ(a.seen().tasks.size() + b.seen().tasks.size(), 5u);
  EXPECT_EQ(a.seen().revoked + b.seen().revoked, 5);
  EXPECT_EQ(c.seen().members, 3);
  b.Leave();
  ASSERT_TRUE(ownership_.AwaitOwned(7));
  ASSERT_TRUE(a.Await([](const Seen& seen) { return seen.members == 2; }));  // both may have gone to c
  EXPECT_GE(a.seen().tasks.size(), 3u);
  EXPECT_THAT(a.seen().lost, IsEmpty());
  a.Leave();
  c.Leave();
}

TEST_F(KafkaMembershipTest, ARestartUnderTheSameNameMovesNothing) {
  FakeEngine a("a", &ownership_), b("b", &ownership_);
  a.Start(Static("a"));
  ASSERT_TRUE(a.AwaitTasks(7)) << a.seen().problem;
  b.Start(Static("b"));
  ASSERT_TRUE(b.AwaitTasks(3));
  ASSERT_TRUE(a.AwaitTasks(4));
  ASSERT_TRUE(a.Await([&](const Seen& seen) { return seen.token.generation == b.seen().token.generation; }));
  const Seen a_before = a.seen(), b_before = b.seen();
  b.Kill();
  FakeEngine again("b again", &ownership_);
  again.Start(Static("b"));
  ASSERT_TRUE(again.AwaitTasks(3));
  EXPECT_EQ(again.seen().tasks, b_before.tasks);
  EXPECT_EQ(again.seen().token.generation, b_before.token.generation);
  EXPECT_EQ(a.seen().tokens, a_before.tokens);
  // The leader: it takes its tasks up again, and leads on: the other's leaving is noticed and planned.
  a.Kill();
  FakeEngine leader("a again", &ownership_);
  leader.Start(Static("a"));
  ASSERT_TRUE(leader.AwaitTasks(4));
  EXPECT_EQ(leader.seen().tasks, a_before.tasks);
  again.Leave();
  again.Kill();
  ASSERT_TRUE(leader.AwaitTasks(7));
  leader.Leave();
}

TEST_F(KafkaMembershipTest, TheFirstOfTwoWithTheSameNameStops) {
  FakeEngine first("first", &ownership_);
  first.Start(Static("twin"));
  ASSERT_TRUE(first.AwaitTasks(7)) << first.seen().problem;
  // The broker hands the tasks over to the second at once: between them stands only the fencing.
  Ownership other;
  FakeEngine second("second", &other);
  second.Start(Static("twin"));
  ASSERT_TRUE(second.AwaitTasks(7));
  ASSERT_TRUE(first.Await([](const Seen& seen) { return !seen.stopped.ok(); }));
  EXPECT_THAT(std::string(first.seen().stopped.message()), AllOf(HasSubstr("DuplicateInstance"), HasSubstr("twin")));
  EXPECT_THAT(first.seen().tasks, IsEmpty());
  EXPECT_THAT(first.seen().lost, SizeIs(1));
  EXPECT_TRUE(second.seen().stopped.ok());
  second.Leave();
}

TEST_F(KafkaMembershipTest, TheTransactionsOfAVanishedMemberAreEndedBeforeItsTasksMove) {
  FakeEngine a("a", &ownership_), b("b", &ownership_);
  a.Start(Options("a"));
  ASSERT_TRUE(a.AwaitTasks(7)) << a.seen().problem;
  b.Start(Options("b"));
  ASSERT_TRUE(b.AwaitTasks(3));
  EXPECT_THAT(b.membership().PresentTransactionalIds().value(), SizeIs(4));

  // Both have a transaction open; b dies.
  ClusterClient client(std::make_shared<kafka::LiveAccess>(access_), "test");
  const auto open_transaction = [&](const std::string& id) {
    EXPECT_THAT(TransactionEnder(&client, absl::Seconds(60)).End({id}, IoLimit::In(absl::Seconds(20), nullptr)),
                IsEmpty());
    wire::FindCoordinatorRequest find;
    find.key = id;
    find.kind = 1;
    const auto found = client.Call(std::nullopt, find, IoLimit::In(absl::Seconds(5), nullptr));
    EXPECT_TRUE(found.ok());
    const BrokerAddress coordinator{found->host, found->port};
    wire::InitProducerIdRequest init{.transactional_id = id, .transaction_timeout_ms = 60'000};
    const auto producer = client.Call(coordinator, init, IoLimit::In(absl::Seconds(5), nullptr));
    EXPECT_TRUE(producer.ok());
    return std::pair(coordinator, AddOffsetsToTxnRequest{id, producer->producer_id, producer->producer_epoch, group_});
  };
  const auto write = [&](const auto& transaction) {
    const auto answer = client.Call(transaction.first, transaction.second, IoLimit::In(absl::Seconds(5), nullptr));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer->error;
  };
  const auto of_a = open_transaction(Options("a").transactional_ids[0]);
  const auto of_b = open_transaction(Options("b").transactional_ids[1]);
  ASSERT_EQ(write(of_a), wire::ErrorCode::kNone);
  ASSERT_EQ(write(of_b), wire::ErrorCode::kNone);
  b.Kill();
  ASSERT_TRUE(a.AwaitTasks(7));
  EXPECT_THAT(a.membership().PresentTransactionalIds().value(), SizeIs(2));
  EXPECT_EQ(write(of_a), wire::ErrorCode::kNone);  // never a present member's
  EXPECT_NE(write(of_b), wire::ErrorCode::kNone);
  a.Leave();
}

TEST_F(KafkaMembershipTest, ADrainedMemberGivesItsTasksAwayAndLeaves) {
  FakeEngine a("a", &ownership_), b("b", &ownership_);
  a.Start(Options("a"));
  ASSERT_TRUE(a.AwaitTasks(7)) << a.seen().problem;
  b.Start(Options("b"));
  ASSERT_TRUE(b.AwaitTasks(3));
  const int tokens = a.seen().tokens + b.seen().tokens;
  a.membership().Drain();
  ASSERT_TRUE(a.Await([](const Seen& seen) { return seen.drained; }));
  ASSERT_TRUE(b.AwaitTasks(7));
  EXPECT_EQ(a.seen().revoked, 7);  // each in a generation of its own; some of those may have passed one of the two by
  EXPECT_GE(a.seen().tokens + b.seen().tokens, tokens + 4);
  EXPECT_THAT(a.seen().lost, IsEmpty());
  // The last one has nobody to give them to.
  b.membership().Drain();
  ASSERT_TRUE(b.Await([](const Seen& seen) { return seen.drained; }));
  EXPECT_THAT(b.seen().tasks, IsEmpty());
  // And may come back.
  ASSERT_TRUE(a.membership().Join().ok());
  ASSERT_TRUE(a.AwaitTasks(7));
  a.Leave();
}

TEST_F(KafkaMembershipTest, OnlyTheManualPartitionsAreSharedOut) {
  FakeEngine a("a", &ownership_), b("b", &ownership_);
  KafkaMembershipOptions options = Options("a");
  options.manual = {TaskId(5), TaskId(1), TaskId(2)};
  a.Start(options);
  ASSERT_TRUE(a.AwaitTasks(3)) << a.seen().problem;
  options.host = "b:8080";
  b.Start(options);
  ASSERT_TRUE(b.AwaitTasks(1));
  ASSERT_TRUE(a.AwaitTasks(2));
  a.Leave();
  b.Leave();
}

}  // namespace
}  // namespace millstream::group
