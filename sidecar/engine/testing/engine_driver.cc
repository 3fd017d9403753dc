#include "sidecar/engine/testing/engine_driver.h"

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/frame.h"

namespace millstream::engine::testing {

EngineOptions EngineDriver::Options() {
  EngineOptions out;
  spec::StreamProcessorSpec& spec = out.spec;
  spec.name = "p";
  spec.group = "g";
  spec.inputs.push_back({.name = "in", .topic = "in", .start_from = {}, .partitioner = {}, .prefetch = {"totals"}});
  spec.stores.push_back({.name = "totals", .backend = {}, .changelog = {true, "g-totals-changelog", {}}});
  spec.stores.push_back({.name = "index", .backend = {}, .changelog = {true, "g-index-changelog", {}}});
  spec.outputs.push_back({.name = "out", .topic = "out", .create = std::nullopt, .partitioner = {}});
  spec.errors.dead_letter_topic = "g-dead-letter";
  out.output_partitions = {4};
  out.output_max_bytes = {1000};
  out.store_max_bytes = {1000, 1000};
  out.dead_letter_partitions = 4;
  out.owner_stamp = "local/default/p";
  out.transactional_id_a = "g-0-0-a";
  out.transactional_id_b = "g-0-0-b";
  out.process_start = "77";
  return out;
}

EngineDriver::EngineDriver(EngineOptions options) : engine_(Engine::Create(options, &clock_, metrics_.get())) {}

void EngineDriver::Do(Event event) {
  std::vector<Action> actions;
  engine_->Handle(std::move(event), &actions);
  for (Action& action : actions) actions_.push_back(std::move(action));
}

void EngineDriver::Wait(absl::Duration time) {
  clock_.Advance(time);
  Do(Tick{});
}

void EngineDriver::Pass(absl::Duration time) {
  const absl::Duration end = clock_.Monotonic() + time;
  while (clock_.Monotonic() < end) {
    const absl::Duration next = std::min(engine_->NextDeadline().value_or(end), end);
    Wait(std::max(next - clock_.Monotonic(), absl::Microseconds(1)));
  }
}

void EngineDriver::Token(int generation) { Do(TokenChanged{{"g", "m", "", Generation(generation)}, 1}); }

void EngineDriver::Connect(WorkerId worker, int parallel) {
  WorkerConnected connected;
  connected.worker = worker;
  connected.hello.parallel = parallel;
  Do(std::move(connected));
}

void EngineDriver::Open(int task, int64_t next, bool committed) {
  Do(TaskAssigned{TaskId(task)});
  EXPECT_EQ(Take<OpenTask>().task, TaskId(task));
  Do(TaskOpened{TaskId(task), absl::OkStatus(), {{0, Offset(next), committed, committed ? "earlier" : ""}}, {}});
}

void EngineDriver::Start(std::vector<int> tasks, int64_t next, int parallel) {
  Token(1);
  while (HasCall()) AnswerCall(WriterCall::What::kCreate);
  Connect(1, parallel);
  for (const int task : tasks) Open(task, next);
  while (Has<StartFetch>()) Take<StartFetch>();
}

void EngineDriver::Records(int task, std::vector<log::Record> records, int64_t next) {
  Do(RecordsRead{TaskId(task), 0, std::move(records), Offset(next), 0});
}

void EngineDriver::Records(int task, int64_t first, int count, std::optional<std::string> key, size_t value_bytes) {
  std::vector<log::Record> records;
  for (int64_t offset = first; offset < first + count; ++offset) {
    records.push_back(
        {Offset(offset), 1000 + offset, key.value_or(StrCat("k", offset)), std::string(value_bytes, 'v'), {}});
  }
  Records(task, std::move(records), first + count);
}

void EngineDriver::AnswerReads() {
  while (Has<ReadKeys>()) {
    const ReadKeys read = Take<ReadKeys>();
    Do(KeysRead{read.read, absl::OkStatus(), std::vector<MaybeBytes>(read.keys.size())});
  }
}

template <typename Message>
std::optional<std::pair<WorkerId, Message>> EngineDriver::TakeFrame() {
  for (auto it = actions_.begin(); it != actions_.end(); ++it) {
    const auto* send = std::get_if<SendToWorker>(&*it);
    if (send == nullptr) continue;
    auto message = protocol::DecodeSidecarMessage(std::string_view(send->frame).substr(protocol::kFrameHeaderBytes));
    EXPECT_TRUE(message.ok()) << message.status();
    if (!std::holds_alternative<Message>(*message)) continue;
    frames_.push_back(send->frame);
    message = protocol::DecodeSidecarMessage(std::string_view(frames_.back()).substr(protocol::kFrameHeaderBytes));
    std::pair<WorkerId, Message> found(send->worker, std::get<Message>(*std::move(message)));
    actions_.erase(it);
    return found;
  }
  return std::nullopt;
}

std::optional<SentBatch> EngineDriver::Batch() {
  AnswerReads();
  auto frame = TakeFrame<protocol::Batch>();
  if (!frame) return std::nullopt;
  const protocol::Batch& batch = frame->second;
  SentBatch sent;
  sent.worker = frame->first;
  sent.seq = batch.seq;
  sent.task = batch.task;
  sent.trace = (batch.flags & protocol::kFlagTrace) != 0;
  for (const std::string_view key : batch.keys) sent.keys.emplace_back(key);
  for (const protocol::RecordItem& item : batch.items) {
    sent.offsets.push_back(item.offset.value());
    sent.attempts.push_back(static_cast<int>(item.attempt));
    if (item.type != protocol::RecordItem::Type::kVisit) continue;
    sent.visited.push_back(StrCat(item.key_index < 0 ? "end" : sent.keys.at(static_cast<size_t>(item.key_index)), "@",
                                  item.timestamp_ms, item.value ? StrCat("=", *item.value) : ""));
  }
  for (const auto& state : batch.state) {
    auto& values = sent.state.emplace_back();
    for (const protocol::StateValue& value : state.values) {
      values.push_back(value.what == protocol::StateValue::What::kAbsent  ? "-"
                       : value.what == protocol::StateValue::What::kValue ? std::string(value.value)
                                                                          : "?");
    }
  }
  return sent;
}

SentBatch EngineDriver::NeedBatch() {
  std::optional<SentBatch> batch = Batch();
  if (!batch) ADD_FAILURE() << "no batch was sent";
  return batch.value_or(SentBatch());
}

std::optional<uint64_t> EngineDriver::Cancelled() {
  auto frame = TakeFrame<protocol::Cancel>();
  if (!frame) return std::nullopt;
  return frame->second.seq;
}

void EngineDriver::Say(WorkerId worker, const std::string& frame) {
  auto buffer = std::make_shared<std::string>(frame);
  auto message = protocol::DecodeWorkerMessage(std::string_view(*buffer).substr(protocol::kFrameHeaderBytes));
  ASSERT_TRUE(message.ok()) << message.status();
  Do(WorkerSent{worker, *std::move(message), std::move(buffer)});
}

void EngineDriver::Result(const SentBatch& batch, const Reply& reply) {
  protocol::Result result;
  result.seq = batch.seq;
  result.done = reply.done.value_or(static_cast<uint32_t>(batch.offsets.size()));
  result.failure = reply.failure;
  for (const Op& op : reply.ops) {
    if (result.ops.empty() || result.ops.back().first != op.store) result.ops.push_back({op.store, {}});
    result.ops.back().second.push_back({op.key, op.value ? protocol::MaybeView(*op.value) : std::nullopt, 0});
  }
  for (const Emit& emit : reply.outputs) {
    protocol::OutputRecord output;
    if (emit.key) output.key = *emit.key;
    if (emit.value) output.value = *emit.value;
    output.partition = emit.partition;
    output.timestamp_ms = emit.timestamp_ms;
    result.outputs.push_back(std::move(output));
  }
  result.visits = reply.visits;
  Say(batch.worker, protocol::EncodeFrame(result));
}

WriterCall EngineDriver::Call(WriterCall::What what) {
  WriterCall call = Take<WriterCall>();
  EXPECT_EQ(static_cast<int>(call.what), static_cast<int>(what));
  return call;
}

void EngineDriver::Answer(const WriterCall& call, absl::Status status, log::AcknowledgedOffsets acknowledged) {
  Do(WriterCallDone{call.writer, call.call, std::move(status), std::move(acknowledged)});
}

void EngineDriver::Commit() {
  log::AcknowledgedOffsets acknowledged;
  while (HasCall()) {
    const WriterCall call = Take<WriterCall>();
    for (const log::OutgoingRecord& record : call.records) acknowledged[record.to] = Offset(next_acknowledged_++);
    Answer(call, absl::OkStatus(),
           call.what == WriterCall::What::kFlush ? std::exchange(acknowledged, {}) : log::AcknowledgedOffsets());
  }
}

void EngineDriver::AnswerApplies() {
  while (Has<ApplyState>()) Do(StateApplied{Take<ApplyState>().apply, absl::OkStatus()});
}

}  // namespace millstream::engine::testing
