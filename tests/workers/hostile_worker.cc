// A worker that breaks the rules of the protocol, one rule per --mode. Fault tests start it in place of a real one and
// check that nothing it does has an effect, and that the sidecar says what was wrong.
//
//   hostile_worker --mode=MODE [--key=KEY] [--times=N]
//
// Without a socket:
//   exit0            exits with status 0 at once
//   never-connects   waits for a signal
// Before HELLO is done:
//   no-hello         connects and says nothing
//   slow-hello       sends HELLO a byte every 100 ms
//   old-version, new-version   a range of versions the sidecar does not speak
//   result-first     a RESULT instead of HELLO
//   unknown-input    claims a handler for an input named "no-such-input"
// After WELCOME, at the first batch (or at each of the first --times batches, connecting again in between):
//   hang             holds the batch and answers nothing, PING neither
//   exit-mid-batch   exits with status 0 holding the batch
//   crash-key        aborts when a record of KEY is in the batch; else answers correctly with no effects
//   never-reads      stops reading the socket, keeps it open
//   wrong-seq, wrong-store, wrong-output, wrong-done   a RESULT with an id that does not exist, or more done than items
//   twice            the same RESULT two times
//   oversized        a length of 2^31
//   beyond-cap       a length one above the cap
//   empty-frame      a length of 0
//   truncated        half a RESULT, then the end of the connection
//   random           frames of random bytes (the seed goes to stderr)
//   garbage          random bytes, not even frames
//   flood-get, flood-ping, flood-extend   requests without end, never reading an answer
//   half-open        shuts its sending side down and keeps reading
//   error            ERROR WorkerFailed with a message
//   replay           first session: answers --times batches correctly with an output per record, keeping the frames,
//   and
//                    disconnects before the last answer; second session: replays them all
// Exit status: 0 when it did what the mode says (also when the sidecar cut it), 2 for a wrong command line, 3 without a
// sidecar.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/base/bytes.h"
#include "sdk/cpp/link.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/error_codes.h"
#include "tests/workers/flags.h"

namespace millstream {
namespace {

using protocol::Batch;
using protocol::EncodeFrame;
using worker::Link;

struct Options {
  std::string mode, key;
  int times = 1;
};

[[noreturn]] void Fail(int status, const std::string& what) {
  std::cerr << "hostile_worker: " << what << "\n";
  std::_Exit(status);
}

std::string SocketPath() {
  const char* path = std::getenv("MILLSTREAM_SOCKET");
  return path != nullptr ? path : "/run/millstream/worker.sock";
}

std::unique_ptr<Link> Connect() {
  for (int attempt = 0; attempt < 300; ++attempt) {  // 30 s
    auto link = Link::Connect(SocketPath(), -1);
    if (link.ok()) return *std::move(link);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  Fail(3, "no sidecar at " + SocketPath());
}

protocol::Hello GoodHello() {
  protocol::Hello hello;
  hello.min_version = protocol::kMinVersion;
  hello.max_version = protocol::kMaxVersion;
  hello.sdk = "hostile";
  hello.language = "c++";
  hello.version = "0";
  hello.name = "hostile";
  return hello;
}

std::string RawFrame(uint32_t length, std::string_view payload = {}) {
  std::string frame;
  AppendBigEndian32(length, &frame);
  frame.append(payload);
  return frame;
}

// A connection that follows the rules until told otherwise.
class Victim {
 public:
  Victim() : link_(Connect()) {}

  bool Send(std::string_view bytes) { return link_->Send(bytes).ok(); }
  bool Greet() {
    if (!Send(EncodeFrame(GoodHello()))) return false;
    while (auto message = Next()) {
      if (std::holds_alternative<protocol::Welcome>(*message)) return true;
      if (Ended(*message)) return false;
    }
    return false;
  }
  // The next batch; nullopt: the sidecar said goodbye or cut us. PINGs are answered.
  std::optional<Batch> NextBatch() {
    while (auto message = Next()) {
      if (auto* batch = std::get_if<Batch>(&*message)) return std::move(*batch);
      if (const auto* ping = std::get_if<protocol::Ping>(&*message)) Send(EncodeFrame(protocol::Pong{ping->nonce}));
      if (Ended(*message)) return std::nullopt;
    }
    return std::nullopt;
  }
  void HalfClose() { link_->HalfClose(); }
  // Reads on until the sidecar is done with us.
  void WaitForEnd() {
    while (auto message = Next()) {
      if (Ended(*message)) return;
    }
  }

 private:
  std::optional<protocol::SidecarMessage> Next() {
    auto frame = link_->Receive(absl::Seconds(600));
    if (!frame.ok() || !frame->has_value()) return std::nullopt;
    last_ = **std::move(frame);
    auto message = protocol::DecodeSidecarMessage(last_.payload);
    if (!message.ok()) Fail(1, std::string(message.status().message()));
    return *std::move(message);
  }
  static bool Ended(const protocol::SidecarMessage& message) {
    const auto* error = std::get_if<protocol::Error>(&message);
    if (error != nullptr)
      std::cerr << "hostile_worker: the sidecar says " << error->code << ": " << error->message << "\n";
    return error != nullptr || std::holds_alternative<protocol::Goodbye>(message);
  }

  std::unique_ptr<Link> link_;
  protocol::Frame last_;  // memory of the last message
};

protocol::Result CorrectResult(const Batch& batch) {
  protocol::Result result;
  result.seq = batch.seq;
  result.done = static_cast<uint32_t>(batch.items.size());
  return result;
}

protocol::Result ResultWithOutputs(const Batch& batch) {
  protocol::Result result = CorrectResult(batch);
  for (const protocol::RecordItem& item : batch.items) {
    protocol::OutputRecord output;
    if (item.key_index >= 0) output.key = batch.keys[static_cast<size_t>(item.key_index)];
    output.value = item.value;
    output.timestamp_ms = item.timestamp_ms;
    result.outputs.push_back(std::move(output));
  }
  return result;
}

bool HasKey(const Batch& batch, std::string_view key) {
  for (std::string_view candidate : batch.keys) {
    if (candidate == key) return true;
  }
  return false;
}

std::mt19937& Random() {
  static std::mt19937 random = [] {
    const uint32_t seed = std::random_device()();
    std::cerr << "hostile_worker: seed " << seed << "\n";
    return std::mt19937(seed);
  }();
  return random;
}

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(Random()());
  return bytes;
}

[[noreturn]] void WaitForSignal() {
  while (true) pause();
}

// What to send instead of the right answer; empty: the mode is not of that sort.
std::string WrongAnswer(const std::string& mode, const Batch& batch) {
  protocol::Result result = ResultWithOutputs(batch);
  if (mode == "wrong-seq") {
    result.seq += 1'000'000;
  } else if (mode == "wrong-store") {
    result.ops.emplace_back(999, std::vector<protocol::StateOp>{{"k", "v", 0}});
  } else if (mode == "wrong-output") {
    if (result.outputs.empty()) result.outputs.emplace_back();
    result.outputs[0].output = 999;
  } else if (mode == "wrong-done") {
    result.done += 1;
  } else if (mode == "twice") {
    return EncodeFrame(CorrectResult(batch)) + EncodeFrame(CorrectResult(batch));
  } else if (mode == "oversized") {
    return RawFrame(0x80000000u);
  } else if (mode == "beyond-cap") {
    return RawFrame(protocol::kDefaultFrameCap + 1);
  } else if (mode == "empty-frame") {
    return RawFrame(0);
  } else if (mode == "random") {
    const std::string payload = RandomBytes(1 + Random()() % 1000);
    return RawFrame(static_cast<uint32_t>(payload.size()), payload);
  } else if (mode == "garbage") {
    return RandomBytes(1000);
  } else if (mode == "error") {
    return EncodeFrame(protocol::Error{protocol::kWorkerFailed, "told to fail"});
  } else {
    return "";
  }
  return EncodeFrame(result);
}

std::string FloodFrame(const std::string& mode, uint64_t seq, uint64_t round) {
  if (mode == "flood-ping") return EncodeFrame(protocol::Ping{round});
  if (mode == "flood-extend") return EncodeFrame(protocol::Extend{seq, static_cast<uint32_t>(round)});
  protocol::Get get;
  get.seq = seq;
  get.rid = round;
  get.keys = {"some key"};
  return EncodeFrame(get);
}

// What is done with one batch in the modes that are more than a wrong answer.
void Misbehave(const Options& options, Victim& victim, const Batch& batch) {
  const std::string& mode = options.mode;
  if (mode == "hang" || mode == "never-reads") WaitForSignal();
  if (mode == "exit-mid-batch") std::_Exit(0);
  if (mode == "truncated") {
    const std::string frame = EncodeFrame(ResultWithOutputs(batch));
    victim.Send(std::string_view(frame).substr(0, frame.size() / 2));
    return;
  }
  if (mode.rfind("flood-", 0) == 0) {
    for (uint64_t round = 0; victim.Send(FloodFrame(mode, batch.seq, round)); ++round) continue;
    return;
  }
  const std::string wrong = WrongAnswer(mode, batch);
  if (wrong.empty()) Fail(2, "unknown --mode=" + mode + "; see the top of its source");
  victim.Send(wrong);
  victim.WaitForEnd();
}

void ServeUntilCrash(const Options& options) {
  while (true) {
    Victim victim;
    if (!victim.Greet()) return;
    while (auto batch = victim.NextBatch()) {
      const bool trace = (batch->flags & protocol::kFlagTrace) != 0;
      for (uint32_t i = 0; i < batch->items.size() && trace; ++i) {
        victim.Send(EncodeFrame(protocol::Extend{batch->seq, i}));
        const int32_t key = batch->items[i].key_index;
        if (key >= 0 && batch->keys[static_cast<size_t>(key)] == options.key) std::abort();
      }
      if (HasKey(*batch, options.key)) std::abort();
      if (!victim.Send(EncodeFrame(CorrectResult(*batch)))) break;
    }
  }
}

void Replay(const Options& options) {
  std::vector<std::string> kept;
  {
    Victim victim;
    if (!victim.Greet()) return;
    for (int i = 0; i < options.times; ++i) {
      auto batch = victim.NextBatch();
      if (!batch.has_value()) return;
      kept.push_back(EncodeFrame(ResultWithOutputs(*batch)));
      if (i + 1 < options.times) victim.Send(kept.back());
    }
  }
  for (const std::string& frame : kept) {  // each in a session of its own: the first wrong one ends it
    Victim victim;
    if (!victim.Greet()) return;
    victim.Send(frame);
    victim.WaitForEnd();
  }
}

void HalfOpen() {
  Victim victim;
  if (!victim.Greet()) return;
  victim.NextBatch();
  victim.HalfClose();
  victim.WaitForEnd();
}

// True if the mode is over before any batch.
bool MisbehaveBeforeHello(const std::string& mode) {
  if (mode == "exit0") std::_Exit(0);
  if (mode == "never-connects") WaitForSignal();
  std::string first;
  protocol::Hello hello = GoodHello();
  if (mode == "old-version") {
    hello.min_version = hello.max_version = 0;
  } else if (mode == "new-version") {
    hello.min_version = hello.max_version = 1000;
  } else if (mode == "unknown-input") {
    hello.inputs = {"no-such-input"};
  } else if (mode == "result-first") {
    first = EncodeFrame(protocol::Result());
  } else if (mode != "no-hello" && mode != "slow-hello") {
    return false;
  }
  Victim victim;
  if (first.empty()) first = EncodeFrame(hello);
  if (mode == "slow-hello") {
    for (char byte : first) {
      if (!victim.Send(std::string_view(&byte, 1))) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  } else if (mode != "no-hello") {
    victim.Send(first);
  }
  victim.WaitForEnd();
  return true;
}

int Main(int argc, char** argv) {
  Options options;
  Flags flags(argc, argv);
  flags.Take("mode", &options.mode);
  flags.Take("key", &options.key);
  flags.Take("times", &options.times);
  if (!flags.Done("hostile_worker") || options.mode.empty()) Fail(2, "usage: --mode=MODE; see the top of its source");
  if (MisbehaveBeforeHello(options.mode)) return 0;
  if (options.mode == "crash-key") return ServeUntilCrash(options), 0;
  if (options.mode == "replay") return Replay(options), 0;
  if (options.mode == "half-open") return HalfOpen(), 0;
  for (int i = 0; i < options.times; ++i) {
    Victim victim;
    if (!victim.Greet()) return 0;
    auto batch = victim.NextBatch();
    if (!batch.has_value()) return 0;
    Misbehave(options, victim, *batch);
  }
  return 0;
}

}  // namespace
}  // namespace millstream

int main(int argc, char** argv) { return millstream::Main(argc, argv); }
