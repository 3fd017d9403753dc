#include "sidecar/protocol/codec.h"

#include <msgpack.hpp>
#include <random>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/protocol/frame.h"
#include "sidecar/protocol/message_json.h"
#include "sidecar/protocol/utf8.h"

namespace millstream::protocol {
namespace {

using ::testing::HasSubstr;

std::string_view PayloadOf(const std::string& frame) { return std::string_view(frame).substr(kFrameHeaderBytes); }

// Random messages; the bytes they point into live in `memory`.
class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  uint32_t Draw() { return static_cast<uint32_t>(random_()); }
  uint64_t Number() { return static_cast<uint64_t>(Draw()) << (Draw() % 33) >> (Draw() % 64); }
  int64_t Signed() { return static_cast<int64_t>(Number() * (Draw() % 2 == 0 ? 1 : -1)); }
  size_t Count() { return Draw() % 4 == 0 ? Draw() % 40 : Draw() % 4; }
  std::string_view Bytes() {
    const size_t size = Draw() % 50 == 0 ? Draw() % 70'000 : Draw() % 40;
    std::string& bytes = memory_.emplace_back(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(Draw());
    return bytes;
  }
  MaybeView Maybe() { return Draw() % 4 == 0 ? std::nullopt : MaybeView(Bytes()); }
  std::string Text() { return RepairUtf8(Bytes(), 1000); }
  std::vector<std::pair<std::string_view, MaybeView>> Headers() {
    std::vector<std::pair<std::string_view, MaybeView>> headers(Draw() % 3 == 0 ? Count() : 0);
    for (auto& [name, value] : headers) name = Bytes(), value = Maybe();
    return headers;
  }
  StateOps Ops(bool with_item) {
    StateOps ops(Count() % 5);
    uint32_t store = 0;
    for (auto& [id, list] : ops) {
      id = store += 1 + Draw() % 1000;
      list.resize(Count());
      for (StateOp& op : list) op = {Bytes(), Maybe(), with_item ? Draw() : 0};
    }
    return ops;
  }

  Batch MakeBatch() {
    Batch batch;
    batch.seq = Number();
    batch.task = TaskId(static_cast<int32_t>(Draw() >> 1));
    batch.flags = Draw() % 2;
    batch.keys.resize(Count());
    for (auto& key : batch.keys) key = Bytes();
    batch.items.resize(Count());
    for (RecordItem& item : batch.items) {
      item.input = Draw() % 300;
      item.offset = Offset(Signed());
      item.timestamp_ms = Signed();
      item.key_index = batch.keys.empty() ? -1 : static_cast<int32_t>(Draw() % (batch.keys.size() + 1)) - 1;
      item.value = Maybe();
      item.headers = Headers();
      item.attempt = 1 + Draw() % 3;
    }
    batch.state.resize(Draw() % 3);
    for (size_t i = 0; i < batch.state.size(); ++i) {
      batch.state[i].store = static_cast<uint32_t>(i * 7);
      batch.state[i].values.resize(batch.keys.size());
      for (StateValue& value : batch.state[i].values) {
        value.what = static_cast<StateValue::What>(Draw() % 3);
        if (value.what == StateValue::What::kValue) value.value = Bytes();
      }
    }
    if (Draw() % 2 == 0) batch.watermark_ms = Signed();
    return batch;
  }
  Result MakeResult() {
    Result result;
    result.seq = Number();
    result.done = Draw();
    if (Draw() % 3 == 0) result.failure = Failure{"Handler", Text(), Text(), Draw() % 2 == 0};
    result.ops = Ops(false);
    result.outputs.resize(Count());
    for (OutputRecord& output : result.outputs) {
      output = {Draw() % 300, Maybe(), Maybe(), std::nullopt, Headers(), std::nullopt};
      if (Draw() % 2 == 0) output.timestamp_ms = Signed();
      if (Draw() % 2 == 0) output.partition = static_cast<int32_t>(Draw() >> 1);
    }
    return result;
  }
  WorkerMessage MakeRequest() {
    if (Draw() % 2 == 0) {
      Get get{Number(), Number(), Draw(), std::vector<std::string_view>(Count()), Ops(true)};
      for (auto& key : get.keys) key = Bytes();
      return get;
    }
    return Scan{Number(), Number(), Draw(), Maybe(), Maybe(), Draw(), Draw() % 2 == 0, Maybe(), Ops(true)};
  }

 private:
  std::mt19937 random_;
  std::deque<std::string> memory_;
};

TEST(CodecTest, RandomMessagesSurviveTheRoundTrip) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  Generator generator(seed);
  for (int round = 0; round < 500; ++round) {
    for (const WorkerMessage& message : {WorkerMessage(generator.MakeResult()), generator.MakeRequest()}) {
      std::string frame;
      std::visit([&](const auto& m) { Encode(m, &frame); }, message);
      const auto decoded = DecodeWorkerMessage(PayloadOf(frame));
      ASSERT_EQ(decoded.status(), absl::OkStatus());
      ASSERT_EQ(ToJson(*decoded), ToJson(message));
    }
    const Batch batch = generator.MakeBatch();
    const std::string frame = EncodeFrame(batch);
    const auto decoded = DecodeSidecarMessage(PayloadOf(frame));
    ASSERT_EQ(decoded.status(), absl::OkStatus());
    ASSERT_EQ(ToJson(*decoded), ToJson(SidecarMessage(batch)));
  }
}

// msgpack-cxx reads what we write, and packs the very same bytes again.
TEST(CodecTest, AgreesWithMsgpackCxx) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  Generator generator(seed);
  for (int round = 0; round < 300; ++round) {
    for (const std::string& frame : {EncodeFrame(generator.MakeBatch()), EncodeFrame(generator.MakeResult())}) {
      const std::string_view payload = PayloadOf(frame);
      const msgpack::object_handle tree = msgpack::unpack(payload.data(), payload.size());
      msgpack::sbuffer packed;
      msgpack::pack(packed, tree.get());
      // The library has no way to write an empty extension as ext 8; it is the one thing that may differ.
      if (payload.find(std::string_view("\xc7\x00\x01", 3)) != std::string_view::npos) continue;
      ASSERT_EQ(std::string_view(packed.data(), packed.size()), payload);
    }
  }
}

// Damaged frames: a status or another message, never a crash (the sanitizers watch), and no runaway memory.
TEST(CodecTest, DamagedFramesAreSurvived) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937 random(seed);
  Generator generator(seed);
  for (int round = 0; round < 3000; ++round) {
    std::string frame = round % 2 == 0 ? EncodeFrame(generator.MakeBatch()) : EncodeFrame(generator.MakeResult());
    for (unsigned i = 0, flips = 1 + random() % 4; i < flips; ++i) {
      frame[kFrameHeaderBytes + random() % (frame.size() - kFrameHeaderBytes)] = static_cast<char>(random());
    }
    DecodeWorkerMessage(PayloadOf(frame)).IgnoreError();
    DecodeSidecarMessage(PayloadOf(frame)).IgnoreError();
  }
}

TEST(CodecTest, EncodeAppends) {
  std::string out = "before";
  Encode(Ping{5}, &out);
  EXPECT_EQ(out, "before" + EncodeFrame(Ping{5}));
}

TEST(CodecTest, LargeValues) {
  const std::string value(5 << 20, 'v');
  Result result;
  result.outputs.push_back({0, value, value, 1, {}, {}});
  const std::string frame = EncodeFrame(result);
  const auto decoded = DecodeWorkerMessage(PayloadOf(frame));
  ASSERT_EQ(decoded.status(), absl::OkStatus());
  EXPECT_EQ(std::get<Result>(*decoded).outputs[0].value, value);
}

TEST(CodecTest, ElementsOfAFrameAreBounded) {
  Get get;
  get.keys.assign(kMaxElements, "");
  EXPECT_EQ(DecodeWorkerMessage(PayloadOf(EncodeFrame(get))).status(), absl::OkStatus());
  get.keys.emplace_back("");
  const auto decoded = DecodeWorkerMessage(PayloadOf(EncodeFrame(get)));
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr("1048576"));
}

TEST(CodecTest, StoresOfAFrameAreBounded) {
  Result result;
  for (uint32_t store = 0; store <= kMaxStores; ++store) result.ops.emplace_back(store, std::vector<StateOp>());
  const auto decoded = DecodeWorkerMessage(PayloadOf(EncodeFrame(result)));
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr("1025 stores"));
}

TEST(CodecTest, ErrorsNameThePlace) {
  Result result;
  result.outputs.resize(3);
  std::string frame = EncodeFrame(result);
  // The third output's id, [0, nil, nil, nil] each, becomes nil.
  frame[frame.size() - 4] = static_cast<char>(0xc0);
  const auto decoded = DecodeWorkerMessage(PayloadOf(frame));
  EXPECT_EQ(std::string(decoded.status().message()),
            "RESULT: outputs[2].output id: expected an integer from 0, found nil");
}

TEST(CodecTest, TextIsRepairedAndCut) {
  Error error{"Code\xff", std::string(20 << 10, 'm')};
  const std::string frame = EncodeFrame(error);
  const auto decoded = DecodeWorkerMessage(PayloadOf(frame));
  ASSERT_EQ(decoded.status(), absl::OkStatus());
  EXPECT_EQ(std::get<Error>(*decoded).code, "Code\xef\xbf\xbd");
  EXPECT_EQ(std::get<Error>(*decoded).message.size(), kMaxTextBytes);
}

TEST(CodecTest, PeekHead) {
  const std::string frame = EncodeFrame(Extend{1234567890123, 5});
  const auto head = PeekHead(PayloadOf(frame));
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->kind, Kind::kExtend);
  EXPECT_EQ(head->number, 1234567890123u);
  EXPECT_EQ(PeekHead(PayloadOf(EncodeFrame(Error{"a", "b"})))->kind, Kind::kError);
  EXPECT_EQ(PeekHead("").has_value(), false);
  EXPECT_EQ(PeekHead("\x91\x63").has_value(), false);  // kind 99
}

TEST(CodecTest, KindNames) {
  EXPECT_EQ(KindName(1), "HELLO");
  EXPECT_EQ(KindName(19), "STORED");
  EXPECT_EQ(KindName(23), "GOODBYE");
  EXPECT_EQ(KindName(24), "kind 24");
  EXPECT_EQ(KindName(0), "kind 0");
}

TEST(Utf8Test, TellsGoodFromBad) {
  for (const char* good :
       {"", "abc", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xef\xbf\xbd", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(IsUtf8(good)) << good;
  for (const char* bad : {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "\xff", "a\xe2\x82"}) {
    EXPECT_FALSE(IsUtf8(bad)) << Readable(bad);
  }
}

TEST(Utf8Test, Repair) {
  EXPECT_EQ(RepairUtf8("a\xff\xe2\x82z", 100), "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz");
  EXPECT_EQ(RepairUtf8("\xe2\x82\xac\xe2\x82\xac", 5), "\xe2\x82\xac");  // never half a character
}

}  // namespace
}  // namespace millstream::protocol
