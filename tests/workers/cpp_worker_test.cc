// sdk/cpp against the real worker server: what handlers see, what comes back in RESULT, and how connections end.
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millstream/gathered.h"
#include "millstream/worker.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/error_codes.h"
#include "sidecar/server/worker_server.h"

namespace millstream::worker {
namespace {

using protocol::Batch;
using protocol::EncodeFrame;
using protocol::StateValue;
using server::WorkerId;
using ::testing::HasSubstr;

// The engine's side: welcomes, and keeps what workers say.
class FakeEngine : public server::WorkerEvents {
 public:
  bool with_time = false;  // the manifest has a windowed store, one of sessions, and timers; set before workers connect

  absl::StatusOr<protocol::Welcome> OnHello(const server::ConnectedWorker& worker) override {
    if (worker.hello.inputs.has_value()) {
      for (const std::string& input : *worker.hello.inputs) {
        if (input != "in") return absl::InvalidArgumentError(StrCat("there is no input \"", input, "\"; inputs: in"));
      }
    }
    protocol::Welcome welcome;
    welcome.processor = "p";
    welcome.inputs = {{"in", "in-topic"}, {"unhandled", "t"}};
    welcome.outputs = {{"out", "out-topic", 100}, {"other", "other-topic", 1 << 20}};
    welcome.stores = {{"counts", "KeyValue", true, 50}, {"cold", "KeyValue", false, 1 << 20}};
    if (with_time) {
      welcome.stores.push_back({"minutes", "Window", true, 50, protocol::StoreInfo::Window{60, 60, 0, 60, true}});
      welcome.stores.push_back({"visits", "Session", true, 50, std::nullopt, protocol::StoreInfo::Session{10, 0, 10}});
      welcome.timers = true;
    }
    welcome.lookups = {{"rates", "rates-topic"}};
    welcome.deadline_ms = 10'000;
    welcome.min_timestamp_ms = -1000;
    welcome.max_timestamp_ms = 4'000'000'000'000;
    return welcome;
  }
  void OnConnected(const server::ConnectedWorker& worker) override {
    absl::MutexLock lock(&mutex_);
    workers_.push_back(worker.id);
  }
  void OnMessage(WorkerId id, server::InboundMessage message) override {
    absl::MutexLock lock(&mutex_);
    messages_.emplace_back(id, std::move(message));
  }
  void OnDisconnected(WorkerId id, const absl::Status& why, bool orderly) override {
    absl::MutexLock lock(&mutex_);
    ended_[id] = {orderly, why};
  }

  WorkerId WaitWorker(size_t number) {
    Await([&] { return workers_.size() >= number; });
    absl::MutexLock lock(&mutex_);
    return workers_.size() < number ? WorkerId() : workers_[number - 1];
  }
  // The next message, in order.
  server::InboundMessage Next() {
    ++taken_;
    Await([&] { return messages_.size() >= taken_; });
    absl::MutexLock lock(&mutex_);
    MS_CHECK(messages_.size() >= taken_);
    return messages_[taken_ - 1].second;
  }
  // Whether it ended in good order.
  bool WaitEnded(WorkerId id) { return WaitEnd(id).first; }
  // Why it ended; what an ERROR said is in it.
  std::string WaitReason(WorkerId id) { return std::string(WaitEnd(id).second.message()); }

 private:
  std::pair<bool, absl::Status> WaitEnd(WorkerId id) {
    Await([&] { return ended_.contains(id); });
    absl::MutexLock lock(&mutex_);
    return ended_[id];
  }
  template <typename Condition>
  void Await(const Condition& condition) {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&condition), absl::Seconds(10)));
  }
  absl::Mutex mutex_;
  std::vector<WorkerId> workers_;
  std::vector<std::pair<WorkerId, server::InboundMessage>> messages_;
  std::map<WorkerId, std::pair<bool, absl::Status>> ended_;
  size_t taken_ = 0;
};

class CppWorkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/ms-sdk-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    options_.socket_path = folder_ + "/worker.sock";
    options_.handle_signals = false;
    StartServer();
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Stop("the test ends", absl::Seconds(2));
    if (app_ != nullptr) app_->Stop();  // one that waits to connect again would go on waiting
    if (thread_.joinable()) thread_.join();
    server_.reset();
    rmdir(folder_.c_str());
  }
  void StartServer() {
    server::WorkerServerOptions options;
    options.socket_path = options_.socket_path;
    server_ = std::make_unique<server::WorkerServer>(options, &engine_, &SystemClock(), metrics_.get());
    ASSERT_EQ(server_->Start(), absl::OkStatus());
  }
  void RunWith(Handler handler, const std::string& input = "in") {
    app_ = std::make_unique<App>(options_);
    app_->On(input, std::move(handler));
    thread_ = std::thread([this] { status_ = app_->Run(); });
  }
  absl::Status Join() {
    thread_.join();
    return status_;
  }
  // A batch of records (key, value) with the state of store 0 per key.
  std::string BatchFrame(uint64_t seq, const std::vector<std::pair<MaybeView, std::string_view>>& records,
                         const std::map<std::string_view, std::string_view>& state = {}, uint32_t flags = 0) {
    Batch batch;
    batch.seq = seq;
    batch.task = TaskId(3);
    batch.flags = flags;
    for (size_t i = 0; i < records.size(); ++i) {
      protocol::RecordItem item;
      item.offset = Offset(100 + static_cast<int64_t>(i));
      item.timestamp_ms = 1000 + static_cast<int64_t>(i);
      item.value = records[i].second;
      if (records[i].first.has_value()) {
        const auto found = std::find(batch.keys.begin(), batch.keys.end(), *records[i].first);
        item.key_index = static_cast<int32_t>(found - batch.keys.begin());
        if (found == batch.keys.end()) batch.keys.push_back(*records[i].first);
      }
      batch.items.push_back(item);
    }
    auto& store = batch.state.emplace_back();
    for (std::string_view key : batch.keys) {
      const auto value = state.find(key);
      store.values.push_back(value == state.end() ? StateValue{} : StateValue{StateValue::What::kValue, value->second});
    }
    return EncodeFrame(batch);
  }
  void Send(const std::string& frame) { ASSERT_EQ(server_->Send(engine_.WaitWorker(1), frame), absl::OkStatus()); }
  // The next message has to be a Message; views stay valid until the next call.
  template <typename Message>
  Message Expect() {
    last_ = engine_.Next();
    auto* message = std::get_if<Message>(&last_.message);
    EXPECT_NE(message, nullptr) << "another kind came: index " << last_.message.index();
    return message == nullptr ? Message() : *message;
  }

  std::string folder_;
  AppOptions options_;
  FakeEngine engine_;
  std::unique_ptr<MetricsRegistry> metrics_ = NewMetricsRegistry();
  std::unique_ptr<server::WorkerServer> server_;
  std::unique_ptr<App> app_;
  std::thread thread_;
  absl::Status status_;
  server::InboundMessage last_;
};

// Appends the value to the state of the key and emits it.
absl::Status AppendHandler(Context& ctx) {
  auto before = ctx.State("counts").Get();
  if (!before.ok()) return before.status();
  std::string text(before->value_or(""));
  text += *ctx.value();
  absl::Status status = ctx.State("counts").Put(text);
  if (!status.ok()) return status;
  return ctx.Emit("out", ctx.key(), text);
}

TEST_F(CppWorkerTest, StateAndOutputs) {
  RunWith(AppendHandler);
  Send(BatchFrame(1, {{"a", "1"}, {"b", "2"}, {"a", "3"}}, {{"a", "x"}}));
  const auto result = Expect<protocol::Result>();
  EXPECT_EQ(result.seq, 1u);
  EXPECT_EQ(result.done, 3u);
  EXPECT_FALSE(result.failure.has_value());
  ASSERT_EQ(result.ops.size(), 1u);
  ASSERT_EQ(result.ops[0].second.size(), 2u) << "only the last write of a key is sent";
  EXPECT_EQ(result.ops[0].second[0].key, "b");
  EXPECT_EQ(result.ops[0].second[0].value, "2");
  EXPECT_EQ(result.ops[0].second[1].key, "a");
  EXPECT_EQ(result.ops[0].second[1].value, "x13");
  ASSERT_EQ(result.outputs.size(), 3u);
  EXPECT_EQ(result.outputs[0].value, "x1");
  EXPECT_EQ(result.outputs[2].value, "x13");
  EXPECT_EQ(result.outputs[2].timestamp_ms, 1002);
  EXPECT_EQ(result.outputs[2].output, 0u);
}

TEST_F(CppWorkerTest, ContextShowsTheRecord) {
  RunWith([](Context& ctx) -> absl::Status {
    EXPECT_EQ(ctx.input(), "in");
    EXPECT_EQ(ctx.key(), std::nullopt);
    EXPECT_EQ(ctx.offset(), 100);
    EXPECT_EQ(ctx.task(), 3);
    EXPECT_EQ(ctx.attempt(), 1u);
    EmitOptions options;
    options.timestamp_ms = -5;
    options.partition = 2;
    options.headers = {{"h", "v"}, {"h", std::nullopt}};
    return ctx.Emit("other", std::nullopt, std::nullopt, options);
  });
  Send(BatchFrame(1, {{std::nullopt, "v"}}));
  const auto result = Expect<protocol::Result>();
  ASSERT_EQ(result.outputs.size(), 1u);
  const auto& output = result.outputs[0];
  EXPECT_EQ(output.output, 1u);
  EXPECT_EQ(output.key, std::nullopt);
  EXPECT_EQ(output.value, std::nullopt);
  EXPECT_EQ(output.timestamp_ms, -5);
  EXPECT_EQ(output.partition, 2);
  ASSERT_EQ(output.headers.size(), 2u);
  EXPECT_EQ(output.headers[1].second, std::nullopt);
}

TEST_F(CppWorkerTest, AFailingItemLeavesThePrefix) {
  RunWith([](Context& ctx) -> absl::Status {
    absl::Status status = AppendHandler(ctx);
    return *ctx.value() == "bad" ? absl::InternalError("cannot take this") : status;
  });
  Send(BatchFrame(1, {{"a", "1"}, {"a", "bad"}, {"a", "3"}}));
  const auto result = Expect<protocol::Result>();
  EXPECT_EQ(result.done, 1u);
  ASSERT_TRUE(result.failure.has_value());
  EXPECT_EQ(result.failure->failure_class, "Handler");
  EXPECT_THAT(result.failure->message, HasSubstr("cannot take this"));
  EXPECT_TRUE(result.failure->retriable);
  ASSERT_EQ(result.ops[0].second.size(), 1u);
  EXPECT_EQ(result.ops[0].second[0].value, "1");
  EXPECT_EQ(result.outputs.size(), 1u);
}

TEST_F(CppWorkerTest, FailureClasses) {
  RunWith([](Context& ctx) -> absl::Status {
    const std::string_view what = *ctx.value();
    if (what == "throw") throw std::runtime_error("thrown");
    if (what == "reject") return RejectRecord("hopeless");
    if (what == "decode") return absl::DataLossError("no JSON");
    if (what == "large value") return ctx.State("counts").Put(std::string(51, 'x'));
    if (what == "large output")
      ctx.Emit("out", "k", std::string(100, 'x')).IgnoreError();  // fails the item all the same
    if (what == "time") return ctx.Emit("out", "k", "v", {.timestamp_ms = -1001, .headers = {}, .partition = {}});
    if (what == "store") return ctx.State("count").Get().status();
    if (what == "output") return ctx.Emit("nowhere", "k", "v");
    if (what == "null key") return ctx.State("counts").Get().status();
    if (what == "lookup") return ctx.State("rates").Put("k", "v");
    if (what == "type") return ctx.Windows("counts").Windows().status();
    return absl::OkStatus();
  });
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      {"throw", "Handler", "thrown"},
      {"reject", "Handler", "hopeless"},
      {"decode", "Decode", "no JSON"},
      {"large value", "Output", "takes 50"},
      {"large output", "Output", "takes 100"},
      {"time", "Output", "-1001"},
      {"store", "Handler", "counts, cold"},
      {"output", "Output", "out, other"},
      {"null key", "Handler", "no key"},
      {"lookup", "Handler", "store of type KeyValue"},
      {"type", "Handler", "store of type Window"},
  };
  uint64_t seq = 0;
  for (const auto& [value, failure_class, text] : cases) {
    SCOPED_TRACE(value);
    Send(BatchFrame(++seq, {{value == "null key" ? std::nullopt : MaybeView("k"), value}}));
    const auto result = Expect<protocol::Result>();
    EXPECT_EQ(result.done, 0u);
    EXPECT_TRUE(result.ops.empty() || result.ops[0].second.empty());
    EXPECT_TRUE(result.outputs.empty());
    if (!result.failure.has_value()) {
      ADD_FAILURE() << "no failure";
      continue;
    }
    EXPECT_EQ(result.failure->failure_class, failure_class);
    EXPECT_THAT(result.failure->message, HasSubstr(text));
    EXPECT_EQ(result.failure->retriable, value == "throw" || value == "null key");
  }
}

TEST_F(CppWorkerTest, EffectsBeyondAFrameComeInParts) {
  RunWith([](Context& ctx) -> absl::Status {
    const std::string large(900'000, 'x');
    const int outputs = *ctx.value() == "huge" ? 12 : 3;
    for (int i = 0; i < outputs; ++i) {
      if (absl::Status status = ctx.Emit("other", ctx.key(), large); !status.ok()) return status;
    }
    return absl::OkStatus();
  });
  Send(BatchFrame(1, {{"a", "1"}, {"a", "2"}, {"a", "3"}, {"a", "4"}, {"a", "5"}}));
  const auto part = Expect<protocol::Result>();
  EXPECT_EQ(part.done, 4u);  // four times three outputs are more than half a frame
  EXPECT_FALSE(part.failure.has_value());
  EXPECT_EQ(part.outputs.size(), 12u);
  Send(BatchFrame(2, {{"a", "1"}, {"a", "huge"}}));
  const auto failed = Expect<protocol::Result>();
  EXPECT_EQ(failed.done, 1u);
  EXPECT_EQ(failed.failure->failure_class, "Output");
  EXPECT_EQ(failed.outputs.size(), 3u);
}

TEST_F(CppWorkerTest, InputWithoutHandlerFails) {
  RunWith(AppendHandler);
  Batch batch;
  batch.seq = 1;
  batch.items.emplace_back().input = 1;
  Send(EncodeFrame(batch));
  EXPECT_THAT(Expect<protocol::Result>().failure->message, HasSubstr("no handler"));
}

TEST_F(CppWorkerTest, AsksForWhatIsNotPrefetched) {
  RunWith([](Context& ctx) -> absl::Status {
    absl::Status status = ctx.State("counts").Put("own");
    if (!status.ok()) return status;
    auto other = ctx.State("cold").Get("elsewhere");
    if (!other.ok()) return other.status();
    auto again = ctx.State("cold").Get("elsewhere");  // answered from memory
    auto rate = ctx.Lookup("rates").Get("EUR");
    auto own = ctx.State("counts").Get("a");  // the record's own key, by name
    return ctx.Emit("other", StrCat(std::string(**again), "/", rate->has_value() ? "known" : "unknown"),
                    StrCat(std::string(**own)));
  });
  Send(BatchFrame(5, {{"a", "1"}}));
  const auto get = Expect<protocol::Get>();
  EXPECT_EQ(get.seq, 5u);
  EXPECT_EQ(get.store, 1u);
  EXPECT_EQ(get.keys, std::vector<std::string_view>{"elsewhere"});
  ASSERT_EQ(get.new_ops.size(), 1u);
  EXPECT_EQ(get.new_ops[0].first, 0u);
  EXPECT_EQ(get.new_ops[0].second[0].value, "own");
  Send(EncodeFrame(protocol::Values{5, get.rid, {MaybeBytes("found")}, {}}));
  const auto lookup = Expect<protocol::Get>();
  EXPECT_EQ(lookup.store, 2u);
  EXPECT_TRUE(lookup.new_ops.empty());
  Send(EncodeFrame(protocol::Values{5, lookup.rid, {std::nullopt}, {}}));
  const auto result = Expect<protocol::Result>();
  EXPECT_FALSE(result.failure.has_value()) << result.failure->message;
  EXPECT_EQ(result.outputs[0].key, "found/unknown");
  EXPECT_EQ(result.outputs[0].value, "own");
}

TEST_F(CppWorkerTest, ScansPageByPage) {
  RunWith([](Context& ctx) -> absl::Status {
    auto rows = ctx.State("counts").Scan({.from = "a", .to = "z"});
    if (!rows.ok()) return rows.status();
    std::string keys;
    for (const auto& row : *rows) keys += row.first;
    return ctx.Emit("other", "k", keys);
  });
  Send(BatchFrame(5, {{"a", "1"}}));
  const auto first = Expect<protocol::Scan>();
  EXPECT_EQ(first.from, "a");
  EXPECT_EQ(first.to, "z");
  Send(EncodeFrame(protocol::Rows{5, first.rid, {{"b", "1"}, {"c", "2"}}, MaybeBytes("here"), {}}));
  const auto second = Expect<protocol::Scan>();
  EXPECT_EQ(second.cursor, "here");
  Send(EncodeFrame(protocol::Rows{5, second.rid, {{"d", "3"}}, std::nullopt, {}}));
  EXPECT_EQ(Expect<protocol::Result>().outputs[0].value, "bcd");
}

TEST_F(CppWorkerTest, ACancelledBatchEndsEmpty) {
  RunWith([](Context& ctx) -> absl::Status {
    ctx.State("counts").Put("x").IgnoreError();
    return ctx.State("cold").Get().status();
  });
  Send(BatchFrame(5, {{"a", "1"}}));
  Expect<protocol::Get>();
  Send(EncodeFrame(protocol::Cancel{5}));
  const auto result = Expect<protocol::Result>();
  EXPECT_EQ(result.seq, 5u);
  EXPECT_EQ(result.done, 0u);
  EXPECT_FALSE(result.failure.has_value());
  EXPECT_TRUE(result.ops.empty());
}

// Windows, sessions and timers: stores 2 ("minutes", emit: Final) and 3 ("visits").
class TimeTest : public CppWorkerTest {
 protected:
  using Type = protocol::RecordItem::Type;
  void SetUp() override {
    engine_.with_time = true;
    CppWorkerTest::SetUp();
  }
  void RunTimed(Handler on_record, Handler on_due) {
    app_ = std::make_unique<App>(options_);
    app_->On("in", std::move(on_record)).OnTimer("a", on_due).OnTimer("b", on_due).OnClose("minutes", on_due);
    thread_ = std::thread([this] { status_ = app_->Run(); });
  }
  static protocol::RecordItem Record(int64_t time, std::string_view value, protocol::ItemWindow window) {
    protocol::RecordItem item;
    item.timestamp_ms = time;
    item.key_index = 0;
    item.value = value;
    item.windows = {std::move(window)};
    return item;
  }
  static protocol::RecordItem TimerItem(std::string_view name, protocol::TimerClock clock, int64_t time) {
    protocol::RecordItem item;
    item.type = Type::kTimer;
    item.key_index = 0;
    item.clock = clock;
    item.name = name;
    item.timestamp_ms = time;
    return item;
  }
  static Batch BatchOf(uint64_t seq, std::vector<protocol::RecordItem> items) {
    Batch batch;
    batch.seq = seq;
    batch.keys = {"k"};
    batch.items = std::move(items);
    return batch;
  }
  static std::string SessionRow(int64_t start, int64_t end) {
    std::string row = "k";
    AppendBigEndian64(static_cast<uint64_t>(start) ^ (uint64_t{1} << 63), &row);
    AppendBigEndian64(static_cast<uint64_t>(end) ^ (uint64_t{1} << 63), &row);
    return row;
  }
  // The writes of the only store in a RESULT, in their order.
  static std::vector<std::pair<std::string, std::string>> Writes(const protocol::Result& result) {
    EXPECT_EQ(result.ops.size(), 1u);
    std::vector<std::pair<std::string, std::string>> writes;
    for (const auto& op : result.ops.at(0).second) writes.emplace_back(op.key, op.value.value_or("nil"));
    return writes;
  }
};

absl::Status Nothing(Context&) { return absl::OkStatus(); }

TEST_F(TimeTest, ATimerThatAnEarlierItemCancelledIsPassedOver) {
  RunTimed(Nothing, [](Context& ctx) -> absl::Status {
    if (ctx.timer() == "a") return ctx.CancelTimer("b");
    EXPECT_EQ(ctx.timer_clock(), TimerClock::kWallClock) << "the one that was cancelled is called";
    return ctx.Emit("out", ctx.key(), "b");
  });
  Send(EncodeFrame(BatchOf(
      1, {TimerItem("a", protocol::TimerClock::kEventTime, 100), TimerItem("b", protocol::TimerClock::kEventTime, 100),
          TimerItem("b", protocol::TimerClock::kWallClock, 101)})));
  const auto result = Expect<protocol::Result>();
  EXPECT_EQ(result.done, 3u);
  ASSERT_EQ(result.outputs.size(), 1u);
  EXPECT_EQ(result.outputs[0].timestamp_ms, 101);
  ASSERT_EQ(result.timers.size(), 1u);
  EXPECT_EQ(result.timers[0].name, "b");
  EXPECT_EQ(result.timers[0].time_ms, std::nullopt);
  Send(EncodeFrame(BatchOf(2, {TimerItem("c", protocol::TimerClock::kEventTime, 100)})));
  const auto failed = Expect<protocol::Result>();
  EXPECT_THAT(failed.failure->message, HasSubstr("no handler for timer \"c\""));
  EXPECT_THAT(failed.failure->message, HasSubstr("Handlers exist for: a, b"));
  EXPECT_FALSE(failed.failure->retriable);
}

TEST_F(TimeTest, SessionsGrowWithinABatch) {
  RunTimed(
      [](Context& ctx) -> absl::Status {
        if (ctx.value() == "-") return absl::OkStatus();
        const auto values = ctx.Sessions("visits").Values();
        if (!values.ok()) return values.status();
        std::string all;
        for (const std::string_view value : *values) all += value;
        return ctx.Sessions("visits").Put(all + std::string(*ctx.value()));
      },
      Nothing);
  Batch batch = BatchOf(
      1, {Record(10, "a", {3, 10, 10, true, {}}), Record(15, "b", {3, 10, 15, true, {{10, 10}}}),
          Record(17, "-", {3, 10, 17, true, {{10, 15}}}), Record(25, "c", {3, 10, 30, true, {{10, 17}, {30, 30}}})});
  auto& state = batch.state.emplace_back();
  state.store = 3;
  state.windowed = true;
  state.windows = {{{30, 30, {StateValue::What::kValue, "x"}}}};
  Send(EncodeFrame(batch));
  const std::vector<std::pair<std::string, std::string>> grown = {
      {SessionRow(10, 10), "a"}, {SessionRow(10, 15), "ab"}, {SessionRow(10, 17), "ab"}, {SessionRow(10, 30), "abxc"}};
  EXPECT_EQ(Writes(Expect<protocol::Result>()), grown);
  // Nothing came along: the values are asked for.
  Send(EncodeFrame(BatchOf(2, {Record(40, "d", {3, 10, 40, true, {{10, 30}}})})));
  const auto get = Expect<protocol::Get>();
  EXPECT_EQ(get.keys, std::vector<std::string_view>{SessionRow(10, 30)});
  Send(EncodeFrame(protocol::Values{2, get.rid, {MaybeBytes("y")}, {}}));
  const std::vector<std::pair<std::string, std::string>> asked = {{SessionRow(10, 40), "yd"}};
  EXPECT_EQ(Writes(Expect<protocol::Result>()), asked);
}

TEST_F(TimeTest, AClosingWindowWhoseValueDidNotTravelIsAskedFor) {
  RunTimed(Nothing, [](Context& ctx) -> absl::Status { return ctx.Emit("out", ctx.key(), ctx.value()); });
  protocol::RecordItem closing;
  closing.type = Type::kClosing;
  closing.key_index = 0;
  closing.store = 2;
  closing.closing = {0, 60, {StateValue::What::kNotPrefetched, {}}};
  Send(EncodeFrame(BatchOf(1, {closing})));
  const auto get = Expect<protocol::Get>();
  EXPECT_EQ(get.store, 2u);
  EXPECT_EQ(get.keys, std::vector<std::string_view>{std::string_view("k\0\0\0\0\0\0\0\0", 9)});
  Send(EncodeFrame(protocol::Values{1, get.rid, {MaybeBytes("last")}, {}}));
  const auto result = Expect<protocol::Result>();
  EXPECT_EQ(result.outputs.at(0).value, "last");
  EXPECT_EQ(result.outputs.at(0).timestamp_ms, 59);
}

TEST_F(TimeTest, BatchesThatDoNotFitTheWelcomeAreRefused) {
  RunTimed(Nothing, Nothing);
  protocol::RecordItem closing;
  closing.type = Type::kClosing;
  closing.key_index = 0;
  closing.store = 0;
  Batch rows = BatchOf(1, {});
  rows.state.push_back({0, {}, true, {{{0, 60, {StateValue::What::kValue, "x"}}}}});
  Batch values = BatchOf(1, {});
  values.state.push_back({2, {{StateValue::What::kValue, "x"}}, false, {}});
  const std::vector<std::pair<Batch, std::string>> cases = {
      {BatchOf(1, {Record(1, "a", {3, 0, 60, false, {}})}), "a window of store 3"},
      {BatchOf(1, {Record(1, "a", {2, 0, 60, true, {}})}), "a session of store 2"},
      {BatchOf(1, {Record(1, "a", {9, 0, 60, false, {}})}), "a window of store 9"},
      {BatchOf(1, {closing}), "a closing window of store 0"},
      {rows, "state of store 0 of the other form"},
      {values, "state of store 2 of the other form"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].second);
    const WorkerId worker = engine_.WaitWorker(i + 1);
    ASSERT_EQ(server_->Send(worker, EncodeFrame(cases[i].first)), absl::OkStatus());
    EXPECT_THAT(engine_.WaitReason(worker), HasSubstr(StrCat("BadFrame: batch 1 names ", cases[i].second)));
  }
}

TEST_F(TimeTest, AProgramThatDoesNotFitSaysSoToBothSides) {
  RunWith(AppendHandler);  // no handler for the windows of "minutes"
  EXPECT_THAT(engine_.WaitReason(engine_.WaitWorker(1)), HasSubstr("WorkerFailed: store \"minutes\""));
  const absl::Status status = Join();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("add OnClose(\"minutes\", ...)"));
}

// A program with all hooks; what it gathers is the values of its records.
class HooksTest : public CppWorkerTest {
 protected:
  void SetUp() override {
    CppWorkerTest::SetUp();
    app_ = std::make_unique<App>(options_);
    app_->On("in",
             [](Context& ctx) -> absl::Status {
               words_.Change(ctx, [word = std::string(*ctx.value())](std::string& all) { all += word + " "; });
               if (ctx.value() == "ask") return ctx.State("cold").Get().status();
               return ctx.value() == "bad" ? absl::InternalError("no") : absl::OkStatus();
             })
        .OnBegin([](Context& ctx) { return ctx.Emit("out", std::nullopt, "begin"); })
        .OnFinalize([](Context& ctx) -> absl::Status {
          const std::string words = words_.Take(ctx);
          if (words.starts_with("fetch")) return ctx.State("cold").Get("k").status();
          return ctx.Emit("out", std::nullopt, words);
        })
        .OnCommitted([this](int32_t task) {
          absl::MutexLock lock(&mutex_);
          committed_.push_back(task);
        });
    thread_ = std::thread([this] { status_ = app_->Run(); });
  }
  // The only output of the next RESULT, which answers a hook.
  std::string ExpectHook(uint64_t seq) {
    const auto result = Expect<protocol::Result>();
    EXPECT_EQ(result.seq, seq);
    EXPECT_EQ(result.done, 0u);
    EXPECT_FALSE(result.failure.has_value());
    EXPECT_EQ(result.outputs.size(), 1u);
    if (result.outputs.size() != 1) return "";
    EXPECT_EQ(result.outputs[0].timestamp_ms, std::nullopt);
    return std::string(*result.outputs[0].value);
  }

  static inline const Gathered<std::string> words_;
  absl::Mutex mutex_;
  std::vector<int32_t> committed_;
};

TEST_F(HooksTest, SeeTransactionsAndSendWhatWasGathered) {
  Send(EncodeFrame(protocol::Open{TaskId(3)}));
  Send(EncodeFrame(protocol::BeginTransaction{1, TaskId(3)}));
  EXPECT_EQ(ExpectHook(1), "begin");
  Send(BatchFrame(2, {{"k", "a"}, {"k", "b"}, {"k", "bad"}}));
  EXPECT_EQ(Expect<protocol::Result>().done, 2u);
  Send(BatchFrame(3, {{"k", "c"}}));
  EXPECT_EQ(Expect<protocol::Result>().done, 1u);
  Send(EncodeFrame(protocol::FinalizeTransaction{4, TaskId(3)}));
  EXPECT_EQ(ExpectHook(4), "a b c ");
  Send(EncodeFrame(protocol::Committed{{{TaskId(3), 4}, {TaskId(5), 1}}}));
  const auto told = [this] { return committed_.size() >= 2; };
  absl::MutexLock lock(&mutex_);
  ASSERT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&told), absl::Seconds(10)));
  EXPECT_THAT(committed_, ::testing::ElementsAre(3, 5));
}

TEST_F(HooksTest, WhatAnAbortedTransactionGatheredIsForgotten) {
  Send(EncodeFrame(protocol::BeginTransaction{1, TaskId(3)}));
  ExpectHook(1);
  Send(BatchFrame(2, {{"k", "lost"}}));
  Expect<protocol::Result>();
  Send(EncodeFrame(protocol::Close{TaskId(3)}));
  Send(EncodeFrame(protocol::Open{TaskId(3)}));
  Send(BatchFrame(3, {{"k", "again"}}));
  Expect<protocol::Result>();
  Send(EncodeFrame(protocol::FinalizeTransaction{4, TaskId(3)}));
  EXPECT_EQ(ExpectHook(4), "again ");
}

TEST_F(HooksTest, ABatchThatOutlivesItsTransactionGathersNothing) {
  Send(BatchFrame(2, {{"k", "ask"}}));
  const auto get = Expect<protocol::Get>();
  Send(EncodeFrame(protocol::Close{TaskId(3)}));
  Send(EncodeFrame(protocol::Open{TaskId(3)}));
  Send(EncodeFrame(protocol::Values{2, get.rid, {std::nullopt}, {}}));
  Expect<protocol::Result>();
  Send(EncodeFrame(protocol::FinalizeTransaction{4, TaskId(3)}));
  EXPECT_EQ(ExpectHook(4), "");
}

TEST_F(HooksTest, OneThatIsCancelledEndsEmpty) {
  Send(BatchFrame(2, {{"k", "fetch"}}));
  Expect<protocol::Result>();
  Send(EncodeFrame(protocol::FinalizeTransaction{4, TaskId(3)}));
  const auto get = Expect<protocol::Get>();
  EXPECT_EQ(get.seq, 4u);
  Send(EncodeFrame(protocol::Cancel{4}));
  const auto result = Expect<protocol::Result>();
  EXPECT_EQ(result.seq, 4u);
  EXPECT_TRUE(result.outputs.empty());
  EXPECT_FALSE(result.failure.has_value());
}

TEST_F(CppWorkerTest, TraceNamesEveryItemBeforeItStarts) {
  RunWith(AppendHandler);
  Send(BatchFrame(5, {{"a", "1"}, {"a", "2"}}, {}, protocol::kFlagTrace));
  EXPECT_EQ(Expect<protocol::Extend>().done, 0u);
  EXPECT_EQ(Expect<protocol::Extend>().done, 1u);
  EXPECT_EQ(Expect<protocol::Result>().done, 2u);
}

TEST_F(CppWorkerTest, ConnectsAgainAfterBeingCut) {
  RunWith(AppendHandler);
  server_->Close(engine_.WaitWorker(1), protocol::kDeadlineExceeded, "too slow");
  const WorkerId second = engine_.WaitWorker(2);
  ASSERT_EQ(server_->Send(second, BatchFrame(9, {{"a", "1"}})), absl::OkStatus());
  EXPECT_EQ(Expect<protocol::Result>().seq, 9u);
}

TEST_F(CppWorkerTest, GoodbyeEndsRun) {
  RunWith(AppendHandler);
  const WorkerId id = engine_.WaitWorker(1);
  server_->Stop("done", absl::Seconds(5));
  EXPECT_EQ(Join(), absl::OkStatus());
  EXPECT_TRUE(engine_.WaitEnded(id));
}

TEST_F(CppWorkerTest, StopFinishesWhatIsHeld) {
  RunWith([this](Context& ctx) -> absl::Status {
    app_->Stop();
    return AppendHandler(ctx);
  });
  const WorkerId id = engine_.WaitWorker(1);
  Send(BatchFrame(5, {{"a", "1"}}));
  EXPECT_EQ(Expect<protocol::Result>().done, 1u);
  EXPECT_EQ(Expect<protocol::Goodbye>().reason, "the program stops");
  EXPECT_EQ(Join(), absl::OkStatus());
  EXPECT_TRUE(engine_.WaitEnded(id));
}

TEST_F(CppWorkerTest, ARefusedProgramGivesUpWithTheReason) {
  RunWith(AppendHandler, "orders");
  const absl::Status status = Join();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("inputs: in"));
}

TEST_F(CppWorkerTest, WithoutASidecarItSaysHowToRun) {
  server_->Stop("gone", absl::ZeroDuration());
  options_.connect_timeout = absl::Milliseconds(200);
  RunWith(AppendHandler);
  const absl::Status status = Join();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("millstream run"));
}

}  // namespace
}  // namespace millstream::worker
