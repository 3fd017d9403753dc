// What a frame costs per record: a batch of 500 records of 150 bytes, and the result of a worker that writes one output
// and one state value per record. The same batch through msgpack-cxx's object tree stands beside it, as the measure of
// what the own cursor saves.
#include <benchmark/benchmark.h>

#include <msgpack.hpp>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/frame.h"

namespace millstream::protocol {
namespace {

constexpr int kRecords = 500;
constexpr size_t kValueBytes = 150;

// The bytes that the messages below point into.
struct Source {
  std::vector<std::string> keys, values, counts;
  Batch batch;
  Result result;
};

const Source& TheSource() {
  static const Source* const source = [] {
    auto* s = new Source;
    s->keys.reserve(kRecords), s->values.reserve(kRecords), s->counts.reserve(kRecords);
    s->batch.seq = 123456;
    s->batch.task = TaskId(7);
    s->result.seq = 123456;
    s->result.done = kRecords;
    auto& state = s->batch.state.emplace_back();
    auto& ops = s->result.ops.emplace_back(0, std::vector<StateOp>()).second;
    for (int i = 0; i < kRecords; ++i) {
      const std::string_view key = s->keys.emplace_back("customer-" + std::to_string(100000 + i * 7));
      const std::string_view value = s->values.emplace_back(kValueBytes, static_cast<char>('a' + i % 26));
      const std::string_view count = s->counts.emplace_back(std::to_string(1000 + i));
      const int64_t timestamp = 1'700'000'000'000 + i;
      s->batch.keys.push_back(key);
      s->batch.items.push_back({.offset = Offset(1'000'000 + i),
                                .timestamp_ms = timestamp,
                                .key_index = i,
                                .value = value,
                                .headers = {},
                                .windows = {},
                                .name = {},
                                .closing = {}});
      state.values.push_back({StateValue::What::kValue, count});
      ops.push_back({key, count});
      s->result.outputs.push_back(
          {.key = key, .value = count, .timestamp_ms = timestamp, .headers = {}, .partition = {}});
    }
    return s;
  }();
  return *source;
}

std::string_view Payload(const std::string& frame) { return std::string_view(frame).substr(kFrameHeaderBytes); }

void PerRecord(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * kRecords);
  state.counters["per_record"] = benchmark::Counter(static_cast<double>(state.iterations()) * kRecords,
                                                    benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// The figure of the issue: encode + decode of a batch.
void BatchEncodeAndDecode(benchmark::State& state) {
  const Batch& batch = TheSource().batch;
  for (auto _ : state) {
    std::string frame;
    Encode(batch, &frame);
    auto message = DecodeSidecarMessage(Payload(frame));
    MS_CHECK_OK(message);
    benchmark::DoNotOptimize(message);
  }
  PerRecord(state);
}
BENCHMARK(BatchEncodeAndDecode);

void BatchEncode(benchmark::State& state) {
  const Batch& batch = TheSource().batch;
  for (auto _ : state) {
    std::string frame;
    Encode(batch, &frame);
    benchmark::DoNotOptimize(frame);
  }
  PerRecord(state);
}
BENCHMARK(BatchEncode);

void BatchDecode(benchmark::State& state) {
  const std::string frame = EncodeFrame(TheSource().batch);
  for (auto _ : state) {
    auto message = DecodeSidecarMessage(Payload(frame));
    MS_CHECK_OK(message);
    benchmark::DoNotOptimize(message);
  }
  PerRecord(state);
}
BENCHMARK(BatchDecode);

void ResultEncodeAndDecode(benchmark::State& state) {
  const Result& result = TheSource().result;
  for (auto _ : state) {
    std::string frame;
    Encode(result, &frame);
    auto message = DecodeWorkerMessage(Payload(frame));
    MS_CHECK_OK(message);
    benchmark::DoNotOptimize(message);
  }
  PerRecord(state);
}
BENCHMARK(ResultEncodeAndDecode);

// Every record both ways, as the sidecar and a C++ worker together do it.
void WholeRoundTrip(benchmark::State& state) {
  const Source& source = TheSource();
  for (auto _ : state) {
    const std::string batch_frame = EncodeFrame(source.batch);
    auto batch = DecodeSidecarMessage(Payload(batch_frame));
    const std::string result_frame = EncodeFrame(source.result);
    auto result = DecodeWorkerMessage(Payload(result_frame));
    benchmark::DoNotOptimize(batch);
    benchmark::DoNotOptimize(result);
  }
  PerRecord(state);
}
BENCHMARK(WholeRoundTrip);

// The yardstick: msgpack-cxx's packer and object tree, before anything is taken out of the tree.
void PackWithLibrary(const Batch& batch, msgpack::sbuffer* buffer) {
  msgpack::packer<msgpack::sbuffer> pack(buffer);
  const auto bin = [&](std::string_view bytes) {
    pack.pack_bin(static_cast<uint32_t>(bytes.size()));
    pack.pack_bin_body(bytes.data(), static_cast<uint32_t>(bytes.size()));
  };
  pack.pack_array(8);
  pack.pack(5), pack.pack(batch.seq), pack.pack(batch.task.value()), pack.pack(batch.flags);
  pack.pack_array(static_cast<uint32_t>(batch.keys.size()));
  for (std::string_view key : batch.keys) bin(key);
  pack.pack_array(static_cast<uint32_t>(batch.items.size()));
  for (const RecordItem& item : batch.items) {
    pack.pack_array(8);
    pack.pack(0), pack.pack(item.input), pack.pack(item.offset.value()), pack.pack(item.timestamp_ms),
        pack.pack(item.key_index);
    bin(*item.value);
    pack.pack_nil();
    pack.pack(item.attempt);
  }
  pack.pack_map(1);
  pack.pack(0);
  pack.pack_array(static_cast<uint32_t>(batch.state[0].values.size()));
  for (const StateValue& value : batch.state[0].values) bin(value.value);
  pack.pack_nil();
}

void LibraryBatchPackAndUnpack(benchmark::State& state) {
  const Batch& batch = TheSource().batch;
  for (auto _ : state) {
    msgpack::sbuffer buffer;
    PackWithLibrary(batch, &buffer);
    msgpack::object_handle tree = msgpack::unpack(buffer.data(), buffer.size());
    benchmark::DoNotOptimize(tree);
  }
  PerRecord(state);
}
BENCHMARK(LibraryBatchPackAndUnpack);

}  // namespace
}  // namespace millstream::protocol

BENCHMARK_MAIN();
