#include "sidecar/server/worker_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/protocol/error_codes.h"
#include "sidecar/server/testing/raw_worker.h"

namespace millstream::server {
namespace {

using protocol::EncodeFrame;
using ::testing::HasSubstr;

// Keeps what the server said, and waits for it with a deadline.
class Recorder : public WorkerEvents {
 public:
  struct Ended {
    absl::Status cause;
    bool orderly;
  };

  absl::StatusOr<protocol::Welcome> OnHello(const ConnectedWorker& worker) override {
    if (worker.hello.name == "unwanted")
      return absl::InvalidArgumentError("there is no input named \"x\"; inputs: orders");
    protocol::Welcome welcome;
    welcome.processor = "p";
    welcome.inputs = {{"orders", "orders-topic"}};
    welcome.deadline_ms = deadline_ms;
    return welcome;
  }
  void OnConnected(const ConnectedWorker& worker) override {
    absl::MutexLock lock(&mutex_);
    connected_.push_back(worker);
  }
  void OnMessage(WorkerId id, InboundMessage message) override {
    absl::MutexLock lock(&mutex_);
    messages_.emplace_back(id, std::move(message));
  }
  void OnDisconnected(WorkerId id, const absl::Status& cause, bool orderly) override {
    absl::MutexLock lock(&mutex_);
    ended_.insert({id, {cause, orderly}});
  }
  void OnWritable(WorkerId) override {
    absl::MutexLock lock(&mutex_);
    ++writable_;
  }

  std::vector<ConnectedWorker> WaitConnected(size_t count) {
    Await([&] { return connected_.size() >= count; });
    absl::MutexLock lock(&mutex_);
    return connected_;
  }
  std::vector<std::pair<WorkerId, InboundMessage>> WaitMessages(size_t count) {
    Await([&] { return messages_.size() >= count; });
    absl::MutexLock lock(&mutex_);
    return messages_;
  }
  Ended WaitEnded(WorkerId id) {
    Await([&] { return ended_.contains(id); });
    absl::MutexLock lock(&mutex_);
    const auto ended = ended_.find(id);
    return ended == ended_.end() ? Ended{absl::DeadlineExceededError("no end was reported"), false} : ended->second;
  }
  size_t messages() {
    absl::MutexLock lock(&mutex_);
    return messages_.size();
  }
  int WaitWritable() {
    Await([&] { return writable_ > 0; });
    absl::MutexLock lock(&mutex_);
    return writable_;
  }

  int64_t deadline_ms = 1000;

 private:
  template <typename Condition>
  void Await(const Condition& condition) {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&condition), absl::Seconds(10)));
  }

  absl::Mutex mutex_;
  std::vector<ConnectedWorker> connected_;
  std::vector<std::pair<WorkerId, InboundMessage>> messages_;
  std::map<WorkerId, Ended> ended_;
  int writable_ = 0;
};

class WorkerServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/ms-server-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    options_.socket_path = folder_ + "/worker.sock";
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Stop("the test ends", absl::ZeroDuration());
    server_.reset();
    unlink(options_.socket_path.c_str());
    rmdir(folder_.c_str());
  }
  void Start() {
    server_ = std::make_unique<WorkerServer>(options_, &events_, &SystemClock(), metrics_.get());
    ASSERT_EQ(server_->Start(), absl::OkStatus());
  }
  RawWorker Connect() {
    auto worker = RawWorker::Connect(options_.socket_path);
    MS_CHECK_OK(worker);
    return *std::move(worker);
  }
  // A welcomed worker and its id.
  std::pair<RawWorker, WorkerId> Join(protocol::Hello hello = RawWorker::DefaultHello()) {
    RawWorker worker = Connect();
    MS_CHECK_OK(worker.Greet(std::move(hello)));
    return {std::move(worker), events_.WaitConnected(++joined_).back().id};
  }
  protocol::Batch BatchOf(uint64_t seq) {
    protocol::Batch batch;
    batch.seq = seq;
    return batch;
  }
  protocol::Result ResultOf(uint64_t seq) {
    protocol::Result result;
    result.seq = seq;
    return result;
  }
  // Sends the batch and waits until the worker has it.
  void Deliver(RawWorker& worker, WorkerId id, uint64_t seq) {
    ASSERT_EQ(server_->Send(id, EncodeFrame(BatchOf(seq))), absl::OkStatus());
    while (true) {
      auto message = worker.Receive();
      ASSERT_EQ(message.status(), absl::OkStatus());
      if (std::holds_alternative<protocol::Batch>(*message)) break;
    }
  }
  // The worker is told this code and cut; the engine hears of it. Gives the cause's text.
  std::string ExpectExpelled(RawWorker& worker, WorkerId id, const std::string& code) {
    while (true) {
      auto message = worker.Receive();
      if (!message.ok()) {
        ADD_FAILURE() << "no ERROR " << code << ": " << message.status();
        break;
      }
      if (auto* error = std::get_if<protocol::Error>(&*message)) {
        EXPECT_EQ(error->code, code);
        break;
      }
    }
    EXPECT_TRUE(worker.WaitForEnd());
    const auto ended = events_.WaitEnded(id);
    EXPECT_FALSE(ended.orderly);
    EXPECT_EQ(server_->FirstError().ok(), false);
    return std::string(ended.cause.message());
  }
  // Before a session: ERROR with this code, then the end. Gives the message.
  std::string ExpectRefused(RawWorker& worker, const std::string& code) {
    auto message = worker.Receive();
    EXPECT_EQ(message.status(), absl::OkStatus());
    if (!message.ok()) return "";
    auto* error = std::get_if<protocol::Error>(&*message);
    EXPECT_NE(error, nullptr);
    if (error == nullptr) return "";
    EXPECT_EQ(error->code, code);
    EXPECT_TRUE(worker.WaitForEnd());
    return error->message;
  }
  void ExpectServesOthers() {
    auto [worker, id] = Join();
    Deliver(worker, id, 900);
    const size_t before = events_.messages();
    ASSERT_TRUE(worker.Send(ResultOf(900)));
    events_.WaitMessages(before + 1);
    ASSERT_TRUE(worker.Send(protocol::Goodbye{"done"}));  // leaves without an error
  }

  std::string folder_;
  WorkerServerOptions options_;
  Recorder events_;
  std::unique_ptr<MetricsRegistry> metrics_ = NewMetricsRegistry();
  std::unique_ptr<WorkerServer> server_;
  size_t joined_ = 0;
};

TEST_F(WorkerServerTest, GreetsAndPassesMessagesBothWays) {
  Start();
  RawWorker worker = Connect();
  auto welcome = worker.Greet();
  ASSERT_EQ(welcome.status(), absl::OkStatus());
  EXPECT_EQ(welcome->version, 1);
  EXPECT_LT(welcome->session, uint64_t{1} << 53);
  EXPECT_EQ(welcome->frame_cap, protocol::kDefaultFrameCap);
  EXPECT_EQ(welcome->inputs[0].topic, "orders-topic");
  const ConnectedWorker connected = events_.WaitConnected(1)[0];
  EXPECT_EQ(connected.session, welcome->session);
  EXPECT_EQ(connected.pid, getpid());
  EXPECT_EQ(server_->connected_workers(), 1);

  Deliver(worker, connected.id, 7);
  protocol::Result result = ResultOf(7);
  const std::string value(200'000, 'v');
  result.outputs.push_back(
      {.output = 0, .key = "k", .value = value, .timestamp_ms = 1, .headers = {}, .partition = {}});
  ASSERT_TRUE(worker.Send(result));
  auto messages = events_.WaitMessages(1);
  EXPECT_EQ(messages[0].first, connected.id);
  const auto& got = std::get<protocol::Result>(messages[0].second.message);
  EXPECT_EQ(got.seq, 7u);
  EXPECT_EQ(got.outputs[0].value, value);  // a view of messages[0].second.buffer
  EXPECT_EQ(messages[0].second.frame_bytes, EncodeFrame(result).size());
}

TEST_F(WorkerServerTest, SessionsAndWorkerIdsAreNeverReused) {
  Start();
  auto [first, first_id] = Join();
  first.Close();
  events_.WaitEnded(first_id);
  auto [second, second_id] = Join();
  EXPECT_NE(first_id, second_id);
  const auto workers = events_.WaitConnected(2);
  EXPECT_NE(workers[0].session, workers[1].session);
  EXPECT_TRUE(absl::IsNotFound(server_->Send(first_id, EncodeFrame(BatchOf(1)))));
}

TEST_F(WorkerServerTest, AnswersPing) {
  Start();
  auto [worker, id] = Join();
  ASSERT_TRUE(worker.Send(protocol::Ping{99}));
  auto pong = worker.Receive();
  ASSERT_EQ(pong.status(), absl::OkStatus());
  EXPECT_EQ(std::get<protocol::Pong>(*pong).nonce, 99u);
}

// --- Refused before there is a session.

TEST_F(WorkerServerTest, VersionMismatchNamesBothRanges) {
  Start();
  RawWorker worker = Connect();
  protocol::Hello hello = RawWorker::DefaultHello();
  hello.min_version = 2, hello.max_version = 3;
  ASSERT_TRUE(worker.Send(hello));
  const std::string message = ExpectRefused(worker, protocol::kVersionMismatch);
  EXPECT_THAT(message, HasSubstr("2 to 3"));
  EXPECT_THAT(message, HasSubstr("1 to 1"));
  EXPECT_FALSE(server_->FirstError().ok());
  ExpectServesOthers();
}

TEST_F(WorkerServerTest, TheProcessorMayRefuse) {
  Start();
  RawWorker worker = Connect();
  protocol::Hello hello = RawWorker::DefaultHello();
  hello.name = "unwanted";
  ASSERT_TRUE(worker.Send(hello));
  EXPECT_THAT(ExpectRefused(worker, protocol::kRefused), HasSubstr("inputs: orders"));
}

TEST_F(WorkerServerTest, MoreWorkersThanTheMaximumAreRefused) {
  options_.max_workers = 1;
  Start();
  auto [first, id] = Join();
  RawWorker second = Connect();
  ASSERT_TRUE(second.Send(RawWorker::DefaultHello()));
  EXPECT_THAT(ExpectRefused(second, protocol::kTooManyWorkers), HasSubstr("sidecar.workers.max"));
  Deliver(first, id, 1);  // the first one is not disturbed
  first.Close();
  events_.WaitEnded(id);
  ExpectServesOthers();  // and its place is free again
}

TEST_F(WorkerServerTest, FirstFrameHasToBeHello) {
  Start();
  RawWorker worker = Connect();
  ASSERT_TRUE(worker.Send(ResultOf(1)));
  EXPECT_THAT(ExpectRefused(worker, protocol::kBadFrame), HasSubstr("RESULT"));
}

TEST_F(WorkerServerTest, SlowLorisIsCutInTime) {
  options_.hello_timeout = absl::Milliseconds(300);
  Start();
  RawWorker worker = Connect();
  const std::string frame = EncodeFrame(RawWorker::DefaultHello());
  const absl::Duration start = SystemClock().Monotonic();
  std::thread dripping([&] {
    for (size_t i = 0; i < frame.size() - 1; ++i) {
      if (!worker.SendBytes(frame.substr(i, 1))) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  dripping.join();
  const std::string message = ExpectRefused(worker, protocol::kHelloTimeout);
  EXPECT_THAT(message, HasSubstr("bytes came"));
  EXPECT_LT(SystemClock().Monotonic() - start, absl::Seconds(4));
  ExpectServesOthers();
}

TEST_F(WorkerServerTest, ManySilentConnectionsDoNotKeepAWorkerOut) {
  options_.hello_timeout = absl::Seconds(60);
  Start();
  std::vector<RawWorker> silent;
  for (int i = 0; i < 100; ++i) {
    auto worker = RawWorker::Connect(options_.socket_path);
    if (worker.ok()) silent.push_back(*std::move(worker));
  }
  ExpectServesOthers();
}

TEST_F(WorkerServerTest, BytesBeforeHelloAreBounded) {
  Start();
  RawWorker worker = Connect();
  ASSERT_TRUE(worker.SendBytes(std::string("\x00\x01\x00\x01", 4)));  // 65,537 bytes to come
  EXPECT_THAT(ExpectRefused(worker, protocol::kFrameTooLarge), HasSubstr("65536"));
}

TEST_F(WorkerServerTest, AProbeIsNoError) {
  Start();
  Connect().Close();
  ExpectServesOthers();
  EXPECT_EQ(server_->FirstError(), absl::OkStatus());
}

// --- Wrong frames inside a session.

TEST_F(WorkerServerTest, OversizedFrame) {
  Start();
  auto [worker, id] = Join();
  ASSERT_TRUE(worker.SendBytes(std::string("\x80\x00\x00\x00", 4)));  // 2^31
  EXPECT_THAT(ExpectExpelled(worker, id, protocol::kFrameTooLarge), HasSubstr("2147483648"));
  ExpectServesOthers();
}

TEST_F(WorkerServerTest, EmptyFrame) {
  Start();
  auto [worker, id] = Join();
  ASSERT_TRUE(worker.SendBytes(std::string(4, '\0')));
  ExpectExpelled(worker, id, protocol::kBadFrame);
}

TEST_F(WorkerServerTest, TruncatedFrame) {
  Start();
  auto [worker, id] = Join();
  Deliver(worker, id, 5);
  const std::string frame = EncodeFrame(ResultOf(5));
  ASSERT_TRUE(worker.SendBytes(frame.substr(0, frame.size() - 1)));
  worker.Close();
  const auto ended = events_.WaitEnded(id);
  EXPECT_FALSE(ended.orderly);
  EXPECT_THAT(std::string(ended.cause.message()), HasSubstr("inside a frame"));
  EXPECT_EQ(events_.messages(), 0u);
}

TEST_F(WorkerServerTest, RandomFrames) {
  Start();
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    auto [worker, id] = Join();
    std::string payload(1 + random() % 300, '\0');
    for (char& c : payload) c = static_cast<char>(random());
    payload[0] = static_cast<char>(0x90 | random() % 16);
    std::string frame(4, '\0');
    frame[2] = static_cast<char>(payload.size() >> 8);
    frame[3] = static_cast<char>(payload.size());
    ASSERT_TRUE(worker.SendBytes(frame + payload));
    worker.HalfClose();
    EXPECT_TRUE(worker.WaitForEnd());
    events_.WaitEnded(id);
  }
  EXPECT_EQ(events_.messages(), 0u);
  ExpectServesOthers();
}

TEST_F(WorkerServerTest, ResultForABatchNeverSent) {
  Start();
  auto [worker, id] = Join();
  Deliver(worker, id, 5);
  ASSERT_TRUE(worker.Send(ResultOf(6)));
  EXPECT_THAT(ExpectExpelled(worker, id, protocol::kUnknownBatch), HasSubstr("batch 6"));
  EXPECT_EQ(events_.messages(), 0u);
}

TEST_F(WorkerServerTest, HooksAreAnsweredAsBatchesAre) {
  Start();
  auto [worker, id] = Join();
  ASSERT_EQ(server_->Send(id, EncodeFrame(protocol::BeginTransaction{5, TaskId(0)})), absl::OkStatus());
  ASSERT_EQ(server_->Send(id, EncodeFrame(protocol::FinalizeTransaction{6, TaskId(0)})), absl::OkStatus());
  ASSERT_TRUE(std::holds_alternative<protocol::BeginTransaction>(*worker.Receive()));
  ASSERT_TRUE(std::holds_alternative<protocol::FinalizeTransaction>(*worker.Receive()));
  protocol::Get get;
  get.seq = 6;
  get.keys = {"a"};
  ASSERT_TRUE(worker.Send(get));
  ASSERT_TRUE(worker.Send(ResultOf(5)));
  ASSERT_TRUE(worker.Send(ResultOf(6)));
  events_.WaitMessages(3);
  EXPECT_EQ(server_->connected_workers(), 1);
}

TEST_F(WorkerServerTest, LoadAndStoreHaveAnswersOfTheirOwn) {
  Start();
  auto [worker, id] = Join();
  ASSERT_EQ(server_->Send(id, EncodeFrame(protocol::Load{5, TaskId(0)})), absl::OkStatus());
  ASSERT_EQ(server_->Send(id, EncodeFrame(protocol::Store{6, TaskId(0), 1, "checkpoint"})), absl::OkStatus());
  ASSERT_TRUE(std::holds_alternative<protocol::Load>(*worker.Receive()));
  ASSERT_TRUE(std::holds_alternative<protocol::Store>(*worker.Receive()));
  ASSERT_TRUE(worker.Send(protocol::Checkpoint{5, 1, std::nullopt}));
  ASSERT_TRUE(worker.Send(protocol::Stored{6, true}));
  events_.WaitMessages(2);
  ASSERT_TRUE(worker.Send(protocol::Stored{6, true}));
  EXPECT_THAT(ExpectExpelled(worker, id, protocol::kUnknownBatch), HasSubstr("STORED for batch 6"));
}

TEST_F(WorkerServerTest, ResultsOfAnOldSessionAreRefused) {
  Start();
  auto [first, first_id] = Join();
  Deliver(first, first_id, 5);
  first.Close();
  events_.WaitEnded(first_id);
  auto [second, second_id] = Join();
  ASSERT_TRUE(second.Send(ResultOf(5)));
  ExpectExpelled(second, second_id, protocol::kUnknownBatch);
  EXPECT_EQ(events_.messages(), 0u);
}

TEST_F(WorkerServerTest, ASecondResultIsRefused) {
  Start();
  auto [worker, id] = Join();
  Deliver(worker, id, 5);
  ASSERT_TRUE(worker.Send(ResultOf(5)));
  ASSERT_TRUE(worker.Send(ResultOf(5)));
  ExpectExpelled(worker, id, protocol::kUnknownBatch);
  EXPECT_EQ(events_.messages(), 1u);
}

TEST_F(WorkerServerTest, ResultOfACancelledBatchIsDelivered) {
  Start();
  auto [worker, id] = Join();
  Deliver(worker, id, 5);
  ASSERT_EQ(server_->Send(id, EncodeFrame(protocol::Cancel{5})), absl::OkStatus());
  ASSERT_TRUE(std::holds_alternative<protocol::Cancel>(*worker.Receive()));
  ASSERT_TRUE(worker.Send(ResultOf(5)));
  events_.WaitMessages(1);
  EXPECT_EQ(server_->connected_workers(), 1);
}

TEST_F(WorkerServerTest, SecondHello) {
  Start();
  auto [worker, id] = Join();
  ASSERT_TRUE(worker.Send(RawWorker::DefaultHello()));
  ExpectExpelled(worker, id, protocol::kBadFrame);
}

TEST_F(WorkerServerTest, FloodOfRequests) {
  Start();
  auto [worker, id] = Join();
  Deliver(worker, id, 5);
  protocol::Get get;
  get.seq = 5;
  get.keys = {"k"};
  for (int i = 0; i < 2000; ++i) {
    get.rid = static_cast<uint64_t>(i);
    if (!worker.Send(get)) break;
  }
  ExpectExpelled(worker, id, protocol::kFlood);
  EXPECT_LE(events_.messages(), 1024u);
}

TEST_F(WorkerServerTest, ExtendsThatSayNothingNewAreNotPassedOn) {
  Start();
  auto [worker, id] = Join();
  Deliver(worker, id, 5);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(worker.Send(protocol::Extend{5, static_cast<uint32_t>(i / 500)}));
  ASSERT_TRUE(worker.Send(ResultOf(5)));
  EXPECT_EQ(events_.WaitMessages(3).size(), 3u);
}

// --- Peers that stop.

TEST_F(WorkerServerTest, PeerThatNeverReads) {
  options_.max_queued_bytes = 1 << 20;
  Start();
  auto [worker, id] = Join();
  protocol::Batch batch = BatchOf(1);
  const std::string key(100'000, 'k');
  batch.keys = {key};
  absl::Status status;
  size_t sent = 0;
  while (status.ok() && sent < 200) {
    batch.seq = ++sent;
    status = server_->Send(id, EncodeFrame(batch));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_LE(server_->QueuedBytes(id), options_.max_queued_bytes);
  // It is still listened to. (A batch can be spoken of once it has been read: sent to the socket, not only queued.)
  ASSERT_EQ(worker.Receive().status(), absl::OkStatus());
  ASSERT_TRUE(worker.Send(protocol::Extend{1, 0}));
  events_.WaitMessages(1);
  // Once it reads, there is room again, and everything taken arrives in order.
  for (uint64_t seq = 2; seq < sent; ++seq) {
    auto message = worker.Receive();
    ASSERT_EQ(message.status(), absl::OkStatus());
    EXPECT_EQ(std::get<protocol::Batch>(*message).seq, seq);
  }
  EXPECT_EQ(events_.WaitWritable(), 1);
  EXPECT_EQ(server_->Send(id, EncodeFrame(BatchOf(1000))), absl::OkStatus());
}

TEST_F(WorkerServerTest, PingsOfAPeerThatNeverReadsEndInNotReading) {
  options_.max_queued_bytes = 64 << 10;
  Start();
  auto [worker, id] = Join();
  std::string pings;
  for (int i = 0; i < 1000; ++i) pings += EncodeFrame(protocol::Ping{1'000'000});
  while (worker.SendBytes(pings)) continue;
  const auto ended = events_.WaitEnded(id);
  EXPECT_THAT(std::string(ended.cause.message()), HasSubstr("NotReading"));
  ExpectServesOthers();
}

TEST_F(WorkerServerTest, SilentIdleWorkerIsPingedThenCut) {
  options_.ping_after = absl::Milliseconds(50);
  options_.dead_after = absl::Milliseconds(150);
  Start();
  auto [worker, id] = Join();
  for (int i = 0; i < 3; ++i) {
    auto ping = worker.Receive();
    ASSERT_EQ(ping.status(), absl::OkStatus());
    ASSERT_TRUE(worker.Send(protocol::Pong{std::get<protocol::Ping>(*ping).nonce}));
  }
  EXPECT_EQ(server_->connected_workers(), 1);
  ExpectExpelled(worker, id, protocol::kUnresponsive);
}

TEST_F(WorkerServerTest, ABusyWorkerIsNotPinged) {
  options_.ping_after = absl::Milliseconds(20);
  options_.dead_after = absl::Milliseconds(50);
  Start();
  auto [worker, id] = Join();
  Deliver(worker, id, 5);
  EXPECT_TRUE(absl::IsDeadlineExceeded(worker.Receive(absl::Milliseconds(400)).status()));
  EXPECT_EQ(server_->connected_workers(), 1);
  ASSERT_TRUE(worker.Send(ResultOf(5)));
  events_.WaitMessages(1);
}

TEST_F(WorkerServerTest, AWorkerDeepInACancelledBatchIsLeftInPeaceForItsDeadline) {
  options_.ping_after = absl::Milliseconds(20);
  options_.dead_after = absl::Milliseconds(100);
  events_.deadline_ms = 600;
  Start();
  auto [worker, id] = Join();
  ASSERT_TRUE(std::holds_alternative<protocol::Ping>(*worker.Receive()));  // stays unanswered: a batch comes first
  Deliver(worker, id, 5);
  ASSERT_EQ(server_->Send(id, EncodeFrame(protocol::Cancel{5})), absl::OkStatus());
  ASSERT_TRUE(std::holds_alternative<protocol::Cancel>(*worker.Receive()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(worker.Receive(absl::Milliseconds(400)).status()));
  EXPECT_EQ(server_->connected_workers(), 1);
  ExpectExpelled(worker, id, protocol::kUnresponsive);  // in the end it is
}

TEST_F(WorkerServerTest, HalfOpenConnectionIsEnded) {
  Start();
  auto [worker, id] = Join();
  Deliver(worker, id, 5);
  worker.HalfClose();
  EXPECT_FALSE(events_.WaitEnded(id).orderly);
  EXPECT_TRUE(worker.WaitForEnd());
}

TEST_F(WorkerServerTest, TheLastWordsOfADyingWorkerAreHeard) {
  Start();
  auto [worker, id] = Join();
  Deliver(worker, id, 5);
  ASSERT_TRUE(worker.Send(protocol::Error{protocol::kWorkerFailed, "Traceback: boom"}));
  worker.Close();
  EXPECT_THAT(std::string(events_.WaitEnded(id).cause.message()), HasSubstr("Traceback: boom"));
  EXPECT_THAT(std::string(server_->FirstError().message()), HasSubstr("Traceback: boom"));
  EXPECT_THAT(metrics_->Expose(), HasSubstr("millstream_worker_disconnects_total{cause=\"WorkerError\"} 1"));
}

TEST_F(WorkerServerTest, TheFirstErrorIsKept) {
  Start();
  for (const char* text : {"first", "second"}) {
    auto [worker, id] = Join();
    ASSERT_TRUE(worker.Send(protocol::Error{protocol::kWorkerFailed, text}));
    events_.WaitEnded(id);
  }
  EXPECT_THAT(std::string(server_->FirstError().message()), HasSubstr("first"));
  server_->ClearFirstError();
  EXPECT_EQ(server_->FirstError(), absl::OkStatus());
}

// --- Ends.

TEST_F(WorkerServerTest, CloseTellsTheWorkerWhy) {
  Start();
  auto [worker, id] = Join();
  server_->Close(id, protocol::kUnknownStore, "store 9; there are 2");
  EXPECT_THAT(ExpectExpelled(worker, id, protocol::kUnknownStore), HasSubstr("store 9"));
  EXPECT_TRUE(absl::IsNotFound(server_->Send(id, EncodeFrame(BatchOf(1)))));
}

TEST_F(WorkerServerTest, CloseOfAPeerThatNeverReadsIsBounded) {
  options_.linger = absl::Milliseconds(200);
  Start();
  auto [worker, id] = Join();
  protocol::Batch batch = BatchOf(1);
  const std::string key(4 << 20, 'k');
  batch.keys = {key};
  ASSERT_EQ(server_->Send(id, EncodeFrame(batch)), absl::OkStatus());
  server_->Close(id, protocol::kDeadlineExceeded, "the batch took too long");
  EXPECT_FALSE(events_.WaitEnded(id).orderly);
  server_->Stop("done", absl::Seconds(5));  // returns although the peer still holds its end
}

TEST_F(WorkerServerTest, GoodbyeOfAWorker) {
  Start();
  auto [worker, id] = Join();
  Deliver(worker, id, 5);
  ASSERT_TRUE(worker.Send(protocol::Goodbye{"SIGTERM"}));
  auto messages = events_.WaitMessages(1);
  EXPECT_EQ(std::get<protocol::Goodbye>(messages[0].second.message).reason, "SIGTERM");
  ASSERT_TRUE(worker.Send(ResultOf(5)));  // it finishes what it has
  events_.WaitMessages(2);
  worker.Close();
  EXPECT_TRUE(events_.WaitEnded(id).orderly);
  EXPECT_EQ(server_->FirstError(), absl::OkStatus());
}

TEST_F(WorkerServerTest, GoodbyeSentByTheEngine) {
  Start();
  auto [worker, id] = Join();
  ASSERT_EQ(server_->Send(id, EncodeFrame(protocol::Goodbye{"draining"})), absl::OkStatus());
  ASSERT_TRUE(std::holds_alternative<protocol::Goodbye>(*worker.Receive()));
  worker.Close();
  EXPECT_TRUE(events_.WaitEnded(id).orderly);
}

TEST_F(WorkerServerTest, StopSaysGoodbyeAndWaits) {
  Start();
  auto [worker, id] = Join();
  Deliver(worker, id, 5);
  std::thread stopping([&] { server_->Stop("shutting down", absl::Seconds(10)); });
  auto goodbye = worker.Receive();
  ASSERT_EQ(goodbye.status(), absl::OkStatus());
  EXPECT_EQ(std::get<protocol::Goodbye>(*goodbye).reason, "shutting down");
  ASSERT_TRUE(worker.Send(ResultOf(5)));
  events_.WaitMessages(1);
  worker.Close();
  stopping.join();
  EXPECT_TRUE(events_.WaitEnded(id).orderly);
  EXPECT_NE(access(options_.socket_path.c_str(), F_OK), 0);
}

TEST_F(WorkerServerTest, StopCutsAWorkerThatStays) {
  Start();
  auto [worker, id] = Join();
  const absl::Duration start = SystemClock().Monotonic();
  server_->Stop("shutting down", absl::Milliseconds(200));
  EXPECT_LT(SystemClock().Monotonic() - start, absl::Seconds(5));
  EXPECT_TRUE(events_.WaitEnded(id).orderly);
  EXPECT_TRUE(worker.WaitForEnd());
}

TEST_F(WorkerServerTest, FrameBeyondTheCapIsNotSent) {
  options_.frame_cap = 1000;
  Start();
  auto [worker, id] = Join();
  EXPECT_TRUE(absl::IsInvalidArgument(server_->Send(id, std::string(1005, 'x'))));
}

// --- Who may connect.

TEST_F(WorkerServerTest, AnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  options_.socket_mode = 0666;
  Start();
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, options_.socket_path.c_str(), sizeof(address.sun_path) - 1);
  int answer[2];
  ASSERT_EQ(pipe(answer), 0);
  const pid_t child = fork();
  if (child == 0) {  // system calls only: the parent has threads
    if (setuid(65534) != 0) _exit(1);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) _exit(2);
    char bytes[1000];
    for (ssize_t count; (count = read(fd, bytes, sizeof(bytes))) > 0;) {
      if (write(answer[1], bytes, static_cast<size_t>(count)) < 0) _exit(3);
    }
    _exit(0);
  }
  close(answer[1]);
  std::string said;
  char bytes[1000];
  for (ssize_t count; (count = read(answer[0], bytes, sizeof(bytes))) > 0;)
    said.append(bytes, static_cast<size_t>(count));
  close(answer[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(said, HasSubstr("NotAllowed"));
  EXPECT_THAT(said, HasSubstr("user 65534"));
  EXPECT_FALSE(server_->FirstError().ok());
}

}  // namespace
}  // namespace millstream::server
