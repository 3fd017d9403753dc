#include "sidecar/host/sidecar.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <functional>
#include <thread>

#include "common/base/strings.h"
#include "common/log/embedded/embedded_log.h"
#include "common/log/partitioner.h"
#include "common/spec/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millstream/worker.h"
#include "sidecar/group/local_membership.h"

namespace millstream::host {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kPartitions = 3;

// A C++ worker on a thread of this process: counts per key, one output per record.
class CountingWorker {
 public:
  CountingWorker(const std::string& socket, const std::vector<std::string>& inputs) : app_(Options(socket)) {
    const auto count = [](worker::Context& ctx) -> absl::Status {
      worker::Store counts = ctx.State("counts");
      const auto before = counts.Get();
      if (!before.ok()) return before.status();
      int count = 0;
      if (before->has_value()) std::from_chars((*before)->data(), (*before)->data() + (*before)->size(), count);
      const std::string text = std::to_string(count + 1);
      if (const absl::Status put = counts.Put(text); !put.ok()) return put;
      return ctx.Emit("out", ctx.key(), text);
    };
    for (const std::string& input : inputs) app_.On(input, count);
    thread_ = std::thread([this] { (void)app_.Run(); });
  }
  ~CountingWorker() {
    app_.Stop();
    thread_.join();
  }

 private:
  static worker::AppOptions Options(const std::string& socket) {
    worker::AppOptions options;
    options.socket_path = socket;
    options.handle_signals = false;
    return options;
  }
  worker::App app_;
  std::thread thread_;
};

class SidecarTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/ms-sidecar-XXXXXX";  // short: the socket is in it
    root_ = mkdtemp(pattern.data());
    auto log = log::EmbeddedLog::Open({.directory = root_ + "/log"});
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
    const spec::ParseResult parsed = spec::ParseManifests(
        "apiVersion: millstream.dev/v1alpha1\nkind: StreamProcessor\nmetadata: {name: counting}\nspec:\n  inputs: "
        "[{topic: in}]\n"
        "  stores: [{name: counts}]\n  outputs: [{topic: out, create: {partitions: 2}}]\n",
        "test.yaml");
    ASSERT_TRUE(parsed.ok()) << spec::ToText(parsed.diagnostics);
    spec_ = parsed.manifests[0].processor;
    const auto prepared = PrepareTopics(&log_->admin(), {&spec_}, {.partitions = kPartitions});
    ASSERT_TRUE(prepared.ok()) << prepared.status();
  }
  void TearDown() override {
    Stop();
    environment_.reset();
    log_.reset();
    std::filesystem::remove_all(root_);
  }

  absl::Status Start() {
    auto report = PrepareTopics(&log_->admin(), {&spec_}, {.partitions = kPartitions});
    if (!report.ok()) return report.status();
    environment_ = std::make_unique<store::StateEnvironment>(
        store::StateMemory{.block_cache_bytes = 8 << 20, .memtable_bytes = 16 << 20});
    metrics_ = NewMetricsRegistry();
    SidecarOptions options;
    options.spec = spec_;
    options.topics = report->processors[0];
    options.state_directory = root_ + "/state";
    options.socket_path = root_ + "/w.sock";
    options.instance_id = "test";
    options.memory = SplitMemory(256 << 20, 1);
    options.shared = shared_;
    options.leaves = leaves_;
    options.orders = orders_;
    options.foreign_transactions = foreign_transactions_;
    options.secrets = secrets_;
    options.topic_watch_interval = absl::Milliseconds(20);
    const auto membership = [this](const group::ProcessState& process, group::MembershipEvents* events) {
      process_ = process;
      return group::NewLocalMembership({.tasks = spec_.TasksOf(kPartitions),
                                        .join = [this] { return log_->JoinGroup(spec_.group, "me"); },
                                        .leave =
                                            [this](const log::GroupToken& token) {
                                              ++left_;
                                              log_->LeaveGroup(token);
                                            }},
                                       events);
    };
    auto sidecar =
        Sidecar::Start(std::move(options), log_.get(), environment_.get(), membership, &SystemClock(), metrics_.get());
    if (!sidecar.ok()) return sidecar.status();
    sidecar_ = *std::move(sidecar);
    return absl::OkStatus();
  }
  void StartWorker() {
    std::vector<std::string> inputs;
    for (const spec::InputSpec& input : spec_.inputs) inputs.push_back(input.name);
    worker_ = std::make_unique<CountingWorker>(root_ + "/w.sock", inputs);
  }

  // Orderly.
  void Stop() {
    if (sidecar_ != nullptr) {
      sidecar_->BeginDrain(absl::Seconds(20));
      EXPECT_TRUE(sidecar_->Stop(absl::Seconds(30)));
    }
    worker_.reset();
    sidecar_.reset();
  }

  void Produce(const std::string& key, int times) {
    auto writer = log_->NewPlainWriter();
    std::vector<log::OutgoingRecord> records;
    for (int i = 0; i < times; ++i) {
      records.push_back({.to = {"in", log::PartitionOfKey(log::KeyHash::kMurmur2, key, kPartitions)},
                         .timestamp_ms = i,
                         .key = key,
                         .value = "1",
                         .headers = {}});
    }
    ASSERT_TRUE(writer->Append(std::move(records)).ok());
    ASSERT_TRUE(writer->Flush().ok());
  }

  absl::StatusOr<MaybeBytes> Ask(const std::string& key) {
    absl::Mutex mutex;
    bool done = false;
    absl::StatusOr<MaybeBytes> result = absl::UnknownError("no answer");
    sidecar_->queries()->GetKey(0, key, std::nullopt, [&](absl::StatusOr<server::KeyAnswer> answer) {
      absl::MutexLock lock(&mutex);
      result = answer.ok() ? absl::StatusOr<MaybeBytes>(answer->value) : answer.status();
      done = true;
    });
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&done), absl::Seconds(30)));
    return result;
  }
  void WaitFor(const std::string& what, const std::function<bool()>& condition) {
    for (int i = 0; i < 6000; ++i) {
      if (condition()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    FAIL() << what << "; last error: " << sidecar_->Status().engine.last_error;
  }
  void WaitForCount(const std::string& key, int count) {
    WaitFor(key + " never counted to " + std::to_string(count), [&] {
      const auto value = Ask(key);
      return value.ok() && *value == std::to_string(count);
    });
  }
  int64_t Outputs() {
    int64_t records = 0;
    auto reader = log_->NewReader({});
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(reader->Add({"out", Partition(i)}, Offset(0)).ok());
    for (int ends = 0; ends < 2;) {
      const auto events = reader->Poll(absl::Seconds(10));
      EXPECT_TRUE(events.ok());
      for (const log::ReaderEvent& event : *events) {
        if (const auto* read = std::get_if<log::RecordsRead>(&event))
          records += static_cast<int64_t>(read->records.size());
        if (std::holds_alternative<log::EndOfPartition>(event)) ++ends;
      }
    }
    return records;
  }

  std::string root_;
  std::unique_ptr<log::EmbeddedLog> log_;
  spec::StreamProcessorSpec spec_;
  bool shared_ = false, leaves_ = true;
  std::optional<Orders> orders_;
  int left_ = 0;  // times the group was left
  ForeignTransactions foreign_transactions_;
  std::function<std::vector<Condition>()> secrets_;
  group::ProcessState process_;  // of the running one
  std::unique_ptr<store::StateEnvironment> environment_;
  std::unique_ptr<MetricsRegistry> metrics_;
  std::unique_ptr<Sidecar> sidecar_;
  std::unique_ptr<CountingWorker> worker_;
};

TEST_F(SidecarTest, CountsExactlyOnceOverAnOrderlyRestart) {
  Produce("a", 500);
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitForCount("a", 500);
  Produce("b", 20);
  WaitForCount("b", 20);
  Stop();
  Produce("a", 7);
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitForCount("a", 507);
  EXPECT_EQ(Outputs(), 527);
  WaitFor("tasks do not run", [this] { return sidecar_->Status().running == kPartitions; });
}

TEST_F(SidecarTest, AnOrderToDrainGivesTheTasksAwayAndTakingItBackBringsThemBack) {
  Produce("a", 100);
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitForCount("a", 100);
  WaitFor("not ready", [this] { return sidecar_->queries()->Readiness().ok; });
  EXPECT_EQ(sidecar_->queries()->Tasks().drain, "No");
  sidecar_->SetOrders(Orders{.drain = true}, absl::OkStatus());
  WaitFor("not drained", [this] { return sidecar_->Status().drain == DrainState::kDrained; });
  const server::ProcessorReport report = sidecar_->queries()->Tasks();
  EXPECT_EQ(report.drain, "Drained");
  EXPECT_FALSE(report.in_group);
  EXPECT_EQ(report.orders, R"({"drain":true})");
  for (const server::TaskReport& task : report.tasks) EXPECT_EQ(task.state, "idle");
  EXPECT_TRUE(sidecar_->queries()->Readiness().ok);
  EXPECT_TRUE(sidecar_->Status().conditions.empty());
  EXPECT_THAT(metrics_->Expose(), HasSubstr("millstream_drained{processor=\"counting\"} 1\n"));
  EXPECT_EQ(left_, 1);
  Produce("a", 5);
  sidecar_->SetOrders(Orders(), absl::OkStatus());
  WaitForCount("a", 105);
  EXPECT_EQ(sidecar_->Status().drain, DrainState::kNo);
  // Taken back at once, again and again: wherever it hits, everything comes back and nothing is lost or doubled.
  for (int i = 0; i < 20; ++i) {
    sidecar_->SetOrders(Orders{.drain = true}, absl::OkStatus());
    absl::SleepFor(absl::Milliseconds(3 * i));
    sidecar_->SetOrders(std::nullopt, absl::OkStatus());
    Produce("a", 1);
  }
  WaitForCount("a", 125);
  WaitFor("tasks do not run", [this] { return sidecar_->Status().running == kPartitions; });
  EXPECT_EQ(Outputs(), 125);
}

TEST_F(SidecarTest, OrderedToDrainFromTheStartItTakesNoTask) {
  orders_ = Orders{.drain = true};
  Produce("a", 3);
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitFor("not drained", [this] { return sidecar_->Status().drain == DrainState::kDrained; });
  EXPECT_TRUE(sidecar_->Status().engine.tasks.empty());
  sidecar_->SetOrders(Orders(), absl::OkStatus());
  WaitForCount("a", 3);
}

TEST_F(SidecarTest, OrdersPauseAndResumeBeforeTheManifest) {
  spec_.desired_state = spec::DesiredState::kPaused;
  orders_ = Orders{.state = spec::DesiredState::kRunning};
  Produce("a", 3);
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitForCount("a", 3);
  sidecar_->SetOrders(Orders{.state = spec::DesiredState::kPaused}, absl::OkStatus());
  WaitFor("not paused", [this] { return sidecar_->queries()->Tasks().paused; });
  Produce("a", 4);
  WaitFor("what waits is not told", [this] { return sidecar_->queries()->Tasks().lag_records == 4; });
  EXPECT_TRUE(sidecar_->queries()->Tasks().in_group);
  WaitFor("not ready", [this] { return sidecar_->queries()->Tasks().ready; });  // tasks without records open last
  // The records have the times 0 to 3: since 1970.
  WaitFor("the oldest is not told", [this] {
    const auto lag = sidecar_->queries()->Tasks().lag_time;
    return lag && *lag > absl::Hours(24 * 365 * 50);
  });
  sidecar_->SetOrders(Orders{.state = spec::DesiredState::kRunning}, absl::OkStatus());
  WaitForCount("a", 7);
  WaitFor("the lag stays", [this] { return sidecar_->queries()->Tasks().lag_time == absl::ZeroDuration(); });
  sidecar_->SetOrders(std::nullopt, absl::OkStatus());
  WaitFor("not as the manifest says", [this] { return sidecar_->queries()->Tasks().paused; });
}

TEST_F(SidecarTest, OrdersThatCannotBeFollowedAreACondition) {
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitFor("not ready", [this] { return sidecar_->queries()->Readiness().ok; });
  sidecar_->SetOrders(Orders{.drain = false}, absl::InvalidArgumentError("orders in f: drain is 1"));
  const std::vector<Condition> conditions = sidecar_->Status().conditions;
  ASSERT_EQ(conditions.size(), 1u);
  EXPECT_EQ(conditions[0].reason, "OrdersUnreadable");
  EXPECT_THAT(conditions[0].message, HasSubstr("drain is 1"));
  sidecar_->SetOrders(Orders{.drain = false}, absl::OkStatus());
  EXPECT_TRUE(sidecar_->Status().conditions.empty());
}

TEST_F(SidecarTest, SecretsThatAreNotTakenAreACondition) {
  const auto refused = std::make_shared<std::atomic<bool>>(true);
  const Condition told{"SecretRefused", "the rotated secrets are not taken"};
  secrets_ = [refused, told] { return *refused ? std::vector<Condition>{told} : std::vector<Condition>{}; };
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitFor("not ready", [this] { return sidecar_->queries()->Readiness().ok; });
  EXPECT_EQ(sidecar_->Status().conditions, std::vector<Condition>{told});
  *refused = false;
  EXPECT_TRUE(sidecar_->Status().conditions.empty());
}

TEST_F(SidecarTest, WhoComesBackUnderItsNameLeavesOnlyByOrder) {
  leaves_ = false;
  Produce("a", 3);
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitForCount("a", 3);
  Stop();
  EXPECT_EQ(left_, 0);
  ASSERT_TRUE(Start().ok());
  sidecar_->SetOrders(Orders{.drain = true}, absl::OkStatus());
  Stop();
  EXPECT_EQ(left_, 1);
}

TEST_F(SidecarTest, StateOnDiskThatIsLostComesBackFromTheChangelog) {
  Produce("a", 100);
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitForCount("a", 100);
  Stop();
  environment_.reset();
  std::filesystem::remove_all(root_ + "/state");
  ASSERT_TRUE(Start().ok());
  WaitForCount("a", 100);  // before any worker is there
}

TEST_F(SidecarTest, WithoutAWorkerItSaysSo) {
  spec_.sidecar.workers.connect_timeout = absl::Milliseconds(10);
  ASSERT_TRUE(Start().ok());
  WaitFor("no WorkerNotConnected", [this] {
    const SidecarStatus status = sidecar_->Status();
    return !status.conditions.empty() && status.conditions[0].reason == "WorkerNotConnected" &&
           status.conditions[0].message.find(root_ + "/w.sock") != std::string::npos;
  });
  EXPECT_TRUE(sidecar_->queries()->Health().ok);
  EXPECT_FALSE(sidecar_->queries()->Readiness().ok);
  StartWorker();
  WaitFor("the condition stays", [this] { return sidecar_->Status().conditions.empty(); });
}

TEST_F(SidecarTest, StateWithoutOffsetsStopsTheTask) {
  Produce("a", 10);
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitForCount("a", 10);
  Stop();
  const absl::Status deleted = log_->admin().DeleteGroup(spec_.group);
  ASSERT_TRUE(deleted.ok()) << deleted;
  ASSERT_TRUE(Start().ok());
  WaitFor("no task stopped by OffsetsLost", [this] {
    const SidecarStatus status = sidecar_->Status();
    for (const Condition& condition : status.conditions) {
      if (condition.message.find("OffsetsLost") != std::string::npos) return true;
    }
    return false;
  });
}

TEST_F(SidecarTest, AGroupOfAnotherProcessorIsRefusedByName) {
  Produce("a", 1);
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitForCount("a", 1);
  Stop();
  spec_.name = "other";  // the same group
  const absl::Status refused = Start();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("GroupOwnedByAnother"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("local/default/counting"));
}

TEST_F(SidecarTest, ASharedGroupIsJoinedWhenThereIsAWorkerAndWhatAnEarlierRunLeftOpenIsEnded) {
  shared_ = true;
  std::vector<std::string> ended;  // by the joining thread; read when a count shows that it has joined
  foreign_transactions_.offsets_now = [this](const std::vector<TopicPartition>& inputs) {
    return log_->admin().StableGroupOffsets(spec_.group, inputs);
  };
  foreign_transactions_.end = [&ended](const std::vector<std::string>& ids) {
    ended.insert(ended.end(), ids.begin(), ids.end());
    return absl::OkStatus();
  };
  Produce("a", 3);
  ASSERT_TRUE(Start().ok());
  // Nothing was assigned: the engine has no task.
  EXPECT_TRUE(sidecar_->Status().engine.tasks.empty());
  EXPECT_TRUE(sidecar_->Status().conditions.empty());
  StartWorker();
  WaitForCount("a", 3);
  Stop();
  EXPECT_EQ(ended, TransactionalIdsOf(spec_, "test"));
}

TEST_F(SidecarTest, AChangelogMadeAnewBehindItsBackStopsTheTasks) {
  Produce("a", 10);
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitForCount("a", 10);
  WaitFor("tasks do not run", [this] { return sidecar_->Status().running == kPartitions; });
  const std::string changelog = spec_.stores[0].changelog.topic;
  ASSERT_TRUE(log_->admin().DeleteTopic(changelog).ok());
  ASSERT_TRUE(
      log_->admin()
          .CreateTopic({.name = changelog, .partitions = kPartitions, .config = {{"cleanup.policy", "compact"}}})
          .ok());
  WaitFor("the tasks go on", [this] { return sidecar_->Status().stopped == kPartitions; });
  const SidecarStatus status = sidecar_->Status();
  // Whoever looks between the two sees it gone.
  EXPECT_THAT(status.engine.tasks[0].error, AnyOf(HasSubstr("TopicRecreated"), HasSubstr("TopicDeleted")));
  bool said = false;
  for (const Condition& condition : status.conditions) {
    said = said || condition.reason == "TopicRecreated" || condition.reason == "TopicDeleted";
  }
  EXPECT_TRUE(said);
  EXPECT_THAT(metrics_->Expose(), HasSubstr("millstream_tasks{processor=\"counting\",state=\"stopped\"} 3\n"));
}

TEST_F(SidecarTest, AChangelogMadeAnewBetweenTwoRunsStopsTheTasks) {
  Produce("a", 10);
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitForCount("a", 10);
  Stop();
  ASSERT_TRUE(log_->admin().DeleteTopic(spec_.stores[0].changelog.topic).ok());
  ASSERT_TRUE(Start().ok());  // which makes it anew
  WaitFor("the tasks go on", [this] {
    const std::vector<Condition> conditions = sidecar_->Status().conditions;
    return !conditions.empty() && conditions[0].reason == "TopicRecreated" &&
           conditions[0].message.find(spec_.stores[0].changelog.topic) != std::string::npos;
  });
}

TEST_F(SidecarTest, AnInputMadeAnewBetweenTwoRunsStopsTheTasks) {
  spec_.inputs.push_back({.name = "more", .topic = "more", .start_from = {}, .prefetch = {}});
  Produce("a", 10);
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitForCount("a", 10);
  WaitFor("tasks do not run", [this] { return sidecar_->Status().running == kPartitions; });
  const std::string before = log_->admin().DescribeTopic("more")->id;
  Stop();
  ASSERT_TRUE(log_->admin().DeleteTopic("more").ok());
  ASSERT_TRUE(Start().ok());  // which makes it anew
  const std::string after = log_->admin().DescribeTopic("more")->id;
  WaitFor("the tasks go on", [&] {
    const std::vector<Condition> conditions = sidecar_->Status().conditions;
    return !conditions.empty() && conditions[0].reason == "TopicRecreated" &&
           conditions[0].message.find(before) != std::string::npos &&
           conditions[0].message.find(after) != std::string::npos;
  });
}

TEST_F(SidecarTest, RunsTheChosenPartitionsAndNoOther) {
  spec_.manual_partitions = {0, 2};
  std::vector<std::string> keys(kPartitions);  // one per partition
  for (int i = 0; std::any_of(keys.begin(), keys.end(), [](const std::string& key) { return key.empty(); }); ++i) {
    const std::string key = StrCat("key-", i);
    keys[static_cast<size_t>(log::PartitionOfKey(log::KeyHash::kMurmur2, key, kPartitions).value())] = key;
  }
  for (const std::string& key : keys) Produce(key, 5);
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitForCount(keys[0], 5);
  WaitForCount(keys[2], 5);
  const absl::Status elsewhere = Ask(keys[1]).status();
  EXPECT_TRUE(absl::IsNotFound(elsewhere)) << elsewhere;
  EXPECT_THAT(std::string(elsewhere.message()), HasSubstr("partitions.manual"));
  EXPECT_THAT(sidecar_->queries()->TasksToScan(), ElementsAre(TaskId(0), TaskId(2)));
  EXPECT_EQ(sidecar_->queries()->Tasks().tasks.size(), 2u);
  EXPECT_EQ(Outputs(), 10);
  // All of them again: the one that was left out begins at its start, the others go on.
  Stop();
  spec_.manual_partitions.clear();
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitForCount(keys[1], 5);
  EXPECT_EQ(Outputs(), 15);
}

TEST_F(SidecarTest, TellsTheGroupWhichStateItHas) {
  shared_ = true;
  Produce("a", 20);
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(process_.alive());
  EXPECT_TRUE(process_.positions().empty());
  StartWorker();
  WaitForCount("a", 20);
  const TaskId task(log::PartitionOfKey(log::KeyHash::kMurmur2, "a", kPartitions).value());
  const auto position = [&] {
    for (const group::RestoredPosition& state : process_.positions()) {
      if (state.task == task) return state.position;
    }
    return int64_t{-1};
  };
  WaitFor("the state is not applied", [&] { return position() > 0; });
  Stop();
  const auto end = log_->admin().EndOffset({spec_.stores[0].changelog.topic, Partition(task.value())},
                                           log::Isolation::kReadCommitted);
  ASSERT_TRUE(end.ok()) << end.status();
  // No worker: nothing is opened, and what is on disk is known all the same.
  ASSERT_TRUE(Start().ok());
  WaitFor("the folders were not looked at", [&] { return position() > 0; });
  EXPECT_LE(position(), end->value());
  EXPECT_GE(position(), end->value() - 1);  // the commit marker is behind it
}

TEST_F(SidecarTest, KeysThatAreWhereAnotherPartitionerPutsThemAreACondition) {
  auto writer = log_->NewPlainWriter();
  std::vector<log::OutgoingRecord> records;
  for (int i = 0; i < 300; ++i) {
    const std::string key = StrCat("key-", i);
    records.push_back({.to = {"in", log::PartitionOfKey(log::KeyHash::kCrc32, key, kPartitions)},
                       .timestamp_ms = i,
                       .key = key,
                       .value = "1",
                       .headers = {}});
  }
  ASSERT_TRUE(writer->Append(std::move(records)).ok());
  ASSERT_TRUE(writer->Flush().ok());
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitFor("no condition", [this] {
    const SidecarStatus status = sidecar_->Status();
    return !status.conditions.empty() && status.conditions[0].reason == "PartitionerMismatch" &&
           status.conditions[0].message.find("Crc32") != std::string::npos;
  });
}

TEST_F(SidecarTest, TellsWhereTheTimeOfATransactionGoes) {
  Produce("a", 10);
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitForCount("a", 10);
  WaitFor("phases are not measured", [this] {
    const std::string text = metrics_->Expose();
    for (const char* phase : {"flush", "offsets", "commit", "apply"}) {
      const size_t at = text.find(
          StrCat("millstream_transaction_phase_seconds_count{phase=\"", phase, "\",processor=\"counting\"} "));
      if (at == std::string::npos || text[text.find("} ", at) + 2] == '0') return false;
    }
    return true;
  });
}

TEST_F(SidecarTest, StartFromLatestSkipsWhatWasThere) {
  spec_.inputs[0].start_from.type = spec::StartFrom::Type::kLatest;
  Produce("a", 10);
  ASSERT_TRUE(Start().ok());
  StartWorker();
  WaitFor("tasks do not run", [this] { return sidecar_->Status().running == kPartitions; });
  Produce("a", 3);
  WaitForCount("a", 3);
}

}  // namespace
}  // namespace millstream::host
