#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/msgpack_writer.h"
#include "sidecar/protocol/utf8.h"

namespace millstream::protocol {
namespace {

using HeaderViews = std::vector<std::pair<std::string_view, MaybeView>>;

// Enough for the numbers of one record, output or op.
constexpr size_t kTupleHint = 48;

size_t SizeOf(const MaybeView& bytes) { return bytes.has_value() ? bytes->size() : 0; }

// Starts [kind, ...].
void Begin(MsgpackWriter& out, Kind kind, size_t fields) {
  out.Array(fields + 1);
  out.Uint(static_cast<uint64_t>(kind));
}

void Text(MsgpackWriter& out, std::string_view text) {
  if (text.size() <= kMaxTextBytes && IsUtf8(text)) return out.Str(text);
  out.Str(RepairUtf8(text, kMaxTextBytes));
}

void Texts(MsgpackWriter& out, const std::vector<std::string>& texts) {
  out.Array(texts.size());
  for (const std::string& text : texts) Text(out, text);
}

void HeaderList(MsgpackWriter& out, const HeaderViews& headers) {
  out.Array(headers.size());
  for (const auto& [name, value] : headers) {
    out.Array(2);
    IsUtf8(name) ? out.Str(name) : out.Bin(name);
    out.MaybeBin(value);
  }
}

void StateField(MsgpackWriter& out, const StateValue& value) {
  switch (value.what) {
    case StateValue::What::kAbsent:
      return out.Nil();
    case StateValue::What::kValue:
      return out.Bin(value.value);
    case StateValue::What::kNotPrefetched:
      return out.NotPrefetched();
  }
}

void ItemWindows(MsgpackWriter& out, const std::vector<ItemWindow>& windows) {
  out.Array(windows.size());
  for (const ItemWindow& window : windows) {
    out.Array(window.session ? 4 : 3);
    out.Uint(window.store);
    out.Int(window.start_ms);
    out.Int(window.end_ms);
    if (!window.session) continue;
    out.Array(window.merged.size());
    for (const auto& [start, end] : window.merged) {
      out.Array(2);
      out.Int(start);
      out.Int(end);
    }
  }
}

void Timer(MsgpackWriter& out, const RecordItem& item) {
  out.Array(6);
  out.Uint(1);
  out.Uint(static_cast<uint64_t>(item.key_index));
  out.Uint(static_cast<uint64_t>(item.clock));
  IsUtf8(item.name) ? out.Str(item.name) : out.Bin(item.name);
  out.Int(item.timestamp_ms);
  out.Uint(item.attempt);
}

void Closing(MsgpackWriter& out, const RecordItem& item) {
  out.Array(7);
  out.Uint(2);
  out.Uint(item.store);
  out.Uint(static_cast<uint64_t>(item.key_index));
  out.Int(item.closing.start_ms);
  out.Int(item.closing.end_ms);
  StateField(out, item.closing.value);
  out.Uint(item.attempt);
}

void Visit(MsgpackWriter& out, const RecordItem& item) {
  out.Array(6);
  out.Uint(3);
  out.Uint(item.visit);
  item.key_index < 0 ? out.Nil() : out.Uint(static_cast<uint64_t>(item.key_index));
  out.Int(item.timestamp_ms);
  out.MaybeBin(item.value);
  out.Uint(item.attempt);
}

void Item(MsgpackWriter& out, const RecordItem& item) {
  if (item.type == RecordItem::Type::kTimer) return Timer(out, item);
  if (item.type == RecordItem::Type::kClosing) return Closing(out, item);
  if (item.type == RecordItem::Type::kVisit) return Visit(out, item);
  out.Array(item.windows.empty() ? 8 : 9);
  out.Uint(0);
  out.Uint(item.input);
  out.Int(item.offset.value());
  out.Int(item.timestamp_ms);
  item.key_index < 0 ? out.Nil() : out.Uint(static_cast<uint64_t>(item.key_index));
  out.MaybeBin(item.value);
  item.headers.empty() ? out.Nil() : HeaderList(out, item.headers);
  out.Uint(item.attempt);
  if (!item.windows.empty()) ItemWindows(out, item.windows);
}

void State(MsgpackWriter& out, const std::vector<Batch::StoreState>& state) {
  out.Map(state.size());
  for (const Batch::StoreState& store : state) {
    out.Uint(store.store);
    out.Array(store.windowed ? store.windows.size() : store.values.size());
    for (const StateValue& value : store.values) StateField(out, value);
    for (const std::vector<WindowValue>& rows : store.windows) {
      out.Array(rows.size());
      for (const WindowValue& row : rows) {
        out.Array(3);
        out.Int(row.start_ms);
        out.Int(row.end_ms);
        StateField(out, row.value);
      }
    }
  }
}

void Ops(MsgpackWriter& out, const StateOps& ops, bool with_item) {
  out.Map(ops.size());
  for (const auto& [store, list] : ops) {
    out.Uint(store);
    out.Array(list.size());
    for (const StateOp& op : list) {
      out.Array(with_item ? 3 : 2);
      out.Bin(op.key);
      out.MaybeBin(op.value);
      if (with_item) out.Uint(op.item);
    }
  }
}

size_t OpsHint(const StateOps& ops) {
  size_t hint = 0;
  for (const auto& [store, list] : ops) {
    for (const StateOp& op : list) hint += op.key.size() + SizeOf(op.value) + 16;
  }
  return hint;
}

void Output(MsgpackWriter& out, const OutputRecord& output) {
  const size_t fields = output.partition.has_value() ? 6 : output.headers.empty() ? 4 : 5;
  out.Array(fields);
  out.Uint(output.output);
  out.MaybeBin(output.key);
  out.MaybeBin(output.value);
  output.timestamp_ms.has_value() ? out.Int(*output.timestamp_ms) : out.Nil();
  if (fields >= 5) output.headers.empty() ? out.Nil() : HeaderList(out, output.headers);
  if (fields >= 6) out.Int(*output.partition);
}

void FailureMap(MsgpackWriter& out, const Failure& failure) {
  out.Map(4);
  out.Str("class");
  Text(out, failure.failure_class);
  out.Str("error");
  Text(out, failure.error);
  out.Str("message");
  Text(out, failure.message);
  out.Str("retriable");
  out.Bool(failure.retriable);
}

void NamedTopics(MsgpackWriter& out, const char* list, const std::vector<NamedTopic>& topics) {
  out.Str(list);
  out.Array(topics.size());
  for (const NamedTopic& topic : topics) {
    out.Map(2);
    out.Str("name");
    Text(out, topic.name);
    out.Str("topic");
    Text(out, topic.topic);
  }
}

void WelcomeOutputs(MsgpackWriter& out, const std::vector<Welcome::Output>& outputs) {
  out.Str("outputs");
  out.Array(outputs.size());
  for (const Welcome::Output& output : outputs) {
    out.Map(3);
    out.Str("name");
    Text(out, output.name);
    out.Str("topic");
    Text(out, output.topic);
    out.Str("max_bytes");
    out.Int(output.max_bytes);
  }
}

void Pair(MsgpackWriter& out, const char* key, int64_t value) {
  out.Str(key);
  out.Int(value);
}

void WelcomeStores(MsgpackWriter& out, const std::vector<StoreInfo>& stores) {
  out.Str("stores");
  out.Array(stores.size());
  for (const StoreInfo& store : stores) {
    out.Map(4 + (store.window ? 1 : 0) + (store.session ? 1 : 0));
    out.Str("name");
    Text(out, store.name);
    out.Str("type");
    Text(out, store.type);
    out.Str("prefetched");
    out.Bool(store.prefetched);
    out.Str("max_value_bytes");
    out.Int(store.max_value_bytes);
    if (store.window) {
      out.Str("window");
      out.Map(5);
      Pair(out, "size", store.window->size_ms);
      Pair(out, "advance", store.window->advance_ms);
      Pair(out, "grace", store.window->grace_ms);
      Pair(out, "retention", store.window->retention_ms);
      out.Str("final");
      out.Bool(store.window->final);
    }
    if (store.session) {
      out.Str("session");
      out.Map(store.session->final ? 4 : 3);
      Pair(out, "gap", store.session->gap_ms);
      Pair(out, "grace", store.session->grace_ms);
      Pair(out, "retention", store.session->retention_ms);
      if (store.session->final) {
        out.Str("final");
        out.Bool(true);
      }
    }
  }
}

void WelcomeVisits(MsgpackWriter& out, const std::vector<Welcome::Visit>& visits) {
  out.Str("visits");
  out.Array(visits.size());
  for (const Welcome::Visit& visit : visits) {
    out.Map(2);
    out.Str("name");
    Text(out, visit.name);
    out.Str("store");
    out.Uint(visit.store);
  }
}

void TimerOps(MsgpackWriter& out, const std::vector<TimerOp>& timers) {
  out.Array(timers.size());
  for (const TimerOp& timer : timers) {
    out.Array(4);
    out.Bin(timer.key);
    out.Uint(static_cast<uint64_t>(timer.clock));
    IsUtf8(timer.name) ? out.Str(timer.name) : out.Bin(timer.name);
    timer.time_ms ? out.Int(*timer.time_ms) : out.Nil();
  }
}

void VisitOps(MsgpackWriter& out, const std::vector<VisitOp>& visits) {
  out.Array(visits.size());
  for (const VisitOp& visit : visits) {
    out.Array(3);
    out.Uint(visit.visit);
    out.Uint(static_cast<uint64_t>(visit.what));
    out.MaybeBin(visit.data);
  }
}

// [kind, number]: OPEN, CLOSE, CANCEL, PING, PONG.
void NumberFrame(Kind kind, uint64_t number, std::string* out) {
  MsgpackWriter writer(out, 0);
  Begin(writer, kind, 1);
  writer.Uint(number);
  writer.Finish();
}

// Several frames read "..., cursor, error?]": the error is left out when there is none.
void OptionalError(MsgpackWriter& out, const std::optional<std::string>& error) {
  if (error.has_value()) Text(out, *error);
}

MaybeView View(const MaybeBytes& bytes) { return bytes.has_value() ? MaybeView(*bytes) : std::nullopt; }

}  // namespace

void Encode(const Hello& message, std::string* out) {
  MsgpackWriter writer(out, 256);
  Begin(writer, Kind::kHello, 1);
  writer.Map(6 + (message.inputs.has_value() ? 1 : 0) + (message.name.empty() ? 0 : 1));
  writer.Str("protocol");
  writer.Array(2);
  writer.Int(message.min_version);
  writer.Int(message.max_version);
  writer.Str("sdk");
  Text(writer, message.sdk);
  writer.Str("language");
  Text(writer, message.language);
  writer.Str("version");
  Text(writer, message.version);
  writer.Str("capabilities");
  Texts(writer, message.capabilities);
  if (message.inputs.has_value()) {
    writer.Str("inputs");
    Texts(writer, *message.inputs);
  }
  writer.Str("parallel");
  writer.Int(message.parallel);
  if (!message.name.empty()) {
    writer.Str("name");
    Text(writer, message.name);
  }
  writer.Finish();
}

void Encode(const Welcome& message, std::string* out) {
  MsgpackWriter writer(out, 1024);
  Begin(writer, Kind::kWelcome, 1);
  writer.Map(10 + (message.timers ? 1 : 0) + (message.visits.empty() ? 0 : 1));
  writer.Str("protocol");
  writer.Int(message.version);
  writer.Str("session");
  writer.Uint(message.session);
  writer.Str("processor");
  Text(writer, message.processor);
  NamedTopics(writer, "inputs", message.inputs);
  WelcomeOutputs(writer, message.outputs);
  WelcomeStores(writer, message.stores);
  if (message.timers) {
    writer.Str("timers");
    writer.Bool(true);
  }
  if (!message.visits.empty()) WelcomeVisits(writer, message.visits);
  NamedTopics(writer, "joins", message.joins);
  NamedTopics(writer, "lookups", message.lookups);
  writer.Str("capabilities");
  Texts(writer, message.capabilities);
  writer.Str("limits");
  writer.Map(4);
  writer.Str("frame");
  writer.Uint(message.frame_cap);
  writer.Str("deadline_ms");
  writer.Int(message.deadline_ms);
  writer.Str("min_timestamp");
  writer.Int(message.min_timestamp_ms);
  writer.Str("max_timestamp");
  writer.Int(message.max_timestamp_ms);
  writer.Finish();
}

void Encode(const Open& message, std::string* out) {
  NumberFrame(Kind::kOpen, static_cast<uint64_t>(message.task.value()), out);
}

void Encode(const Close& message, std::string* out) {
  NumberFrame(Kind::kClose, static_cast<uint64_t>(message.task.value()), out);
}

void Encode(const Batch& message, std::string* out) {
  size_t hint = 0;
  for (const RecordItem& item : message.items)
    hint += kTupleHint + SizeOf(item.value) + item.windows.size() * kTupleHint + item.closing.value.value.size();
  for (std::string_view key : message.keys) hint += key.size() + 5;
  for (const Batch::StoreState& store : message.state) {
    for (const StateValue& value : store.values) hint += value.value.size() + 5;
    for (const std::vector<WindowValue>& rows : store.windows) {
      for (const WindowValue& row : rows) hint += kTupleHint + row.value.value.size();
    }
  }
  MsgpackWriter writer(out, hint);
  Begin(writer, Kind::kBatch, 7);
  writer.Uint(message.seq);
  writer.Uint(static_cast<uint64_t>(message.task.value()));
  writer.Uint(message.flags);
  writer.Array(message.keys.size());
  for (std::string_view key : message.keys) writer.Bin(key);
  writer.Array(message.items.size());
  for (const RecordItem& item : message.items) Item(writer, item);
  State(writer, message.state);
  message.watermark_ms.has_value() ? writer.Int(*message.watermark_ms) : writer.Nil();
  writer.Finish();
}

void Encode(const Result& message, std::string* out) {
  size_t hint = OpsHint(message.ops);
  for (const OutputRecord& output : message.outputs) hint += kTupleHint + SizeOf(output.key) + SizeOf(output.value);
  MsgpackWriter writer(out, hint);
  Begin(writer, Kind::kResult, !message.visits.empty() ? 7 : !message.timers.empty() ? 6 : 5);
  writer.Uint(message.seq);
  writer.Uint(message.done);
  message.failure.has_value() ? FailureMap(writer, *message.failure) : writer.Nil();
  Ops(writer, message.ops, /*with_item=*/false);
  writer.Array(message.outputs.size());
  for (const OutputRecord& output : message.outputs) Output(writer, output);
  if (!message.timers.empty() || !message.visits.empty()) TimerOps(writer, message.timers);
  if (!message.visits.empty()) VisitOps(writer, message.visits);
  writer.Finish();
}

void Encode(const Cancel& message, std::string* out) { NumberFrame(Kind::kCancel, message.seq, out); }

void Encode(const Get& message, std::string* out) {
  MsgpackWriter writer(out, 32 * message.keys.size() + OpsHint(message.new_ops));
  Begin(writer, Kind::kGet, message.new_ops.empty() ? 4 : 5);
  writer.Uint(message.seq);
  writer.Uint(message.rid);
  writer.Uint(message.store);
  writer.Array(message.keys.size());
  for (std::string_view key : message.keys) writer.Bin(key);
  if (!message.new_ops.empty()) Ops(writer, message.new_ops, /*with_item=*/true);
  writer.Finish();
}

void Encode(const Values& message, std::string* out) {
  MsgpackWriter writer(out, 64 * message.values.size());
  Begin(writer, Kind::kValues, message.error.has_value() ? 4 : 3);
  writer.Uint(message.seq);
  writer.Uint(message.rid);
  writer.Array(message.values.size());
  for (const MaybeBytes& value : message.values) writer.MaybeBin(View(value));
  OptionalError(writer, message.error);
  writer.Finish();
}

void Encode(const Scan& message, std::string* out) {
  MsgpackWriter writer(out, OpsHint(message.new_ops));
  const size_t fields = !message.new_ops.empty() ? 9 : message.cursor.has_value() ? 8 : 7;
  Begin(writer, Kind::kScan, fields);
  writer.Uint(message.seq);
  writer.Uint(message.rid);
  writer.Uint(message.store);
  writer.MaybeBin(message.from);
  writer.MaybeBin(message.to);
  writer.Uint(message.limit);
  writer.Bool(message.reverse);
  if (fields >= 8) writer.MaybeBin(message.cursor);
  if (fields >= 9) Ops(writer, message.new_ops, /*with_item=*/true);
  writer.Finish();
}

void Encode(const Rows& message, std::string* out) {
  MsgpackWriter writer(out, 64 * message.rows.size());
  Begin(writer, Kind::kRows, message.error.has_value() ? 5 : 4);
  writer.Uint(message.seq);
  writer.Uint(message.rid);
  writer.Array(message.rows.size());
  for (const auto& [key, value] : message.rows) {
    writer.Array(2);
    writer.Bin(key);
    writer.Bin(value);
  }
  writer.MaybeBin(View(message.cursor));
  OptionalError(writer, message.error);
  writer.Finish();
}

void Encode(const Extend& message, std::string* out) {
  MsgpackWriter writer(out, 0);
  Begin(writer, Kind::kExtend, 2);
  writer.Uint(message.seq);
  writer.Uint(message.done);
  writer.Finish();
}

void Encode(const BeginTransaction& message, std::string* out) {
  MsgpackWriter writer(out, 0);
  Begin(writer, Kind::kBegin, 2);
  writer.Uint(message.seq);
  writer.Uint(static_cast<uint64_t>(message.task.value()));
  writer.Finish();
}

void Encode(const FinalizeTransaction& message, std::string* out) {
  MsgpackWriter writer(out, 0);
  Begin(writer, Kind::kFinalize, 2);
  writer.Uint(message.seq);
  writer.Uint(static_cast<uint64_t>(message.task.value()));
  writer.Finish();
}

void Encode(const Committed& message, std::string* out) {
  MsgpackWriter writer(out, 16 * message.tasks.size());
  Begin(writer, Kind::kCommitted, 1);
  writer.Array(message.tasks.size());
  for (const auto& [task, seq] : message.tasks) {
    writer.Array(2);
    writer.Uint(static_cast<uint64_t>(task.value()));
    writer.Uint(seq);
  }
  writer.Finish();
}

void Encode(const Load& message, std::string* out) {
  MsgpackWriter writer(out, 0);
  Begin(writer, Kind::kLoad, 2);
  writer.Uint(message.seq);
  writer.Uint(static_cast<uint64_t>(message.task.value()));
  writer.Finish();
}

void Encode(const Checkpoint& message, std::string* out) {
  MsgpackWriter writer(out, message.checkpoint ? message.checkpoint->size() : 0);
  Begin(writer, Kind::kCheckpoint, 3);
  writer.Uint(message.seq);
  writer.Uint(message.fence);
  writer.MaybeBin(message.checkpoint);
  writer.Finish();
}

void Encode(const Store& message, std::string* out) {
  MsgpackWriter writer(out, message.checkpoint.size());
  Begin(writer, Kind::kStore, 4);
  writer.Uint(message.seq);
  writer.Uint(static_cast<uint64_t>(message.task.value()));
  writer.Uint(message.fence);
  writer.Bin(message.checkpoint);
  writer.Finish();
}

void Encode(const Stored& message, std::string* out) {
  MsgpackWriter writer(out, 0);
  Begin(writer, Kind::kStored, 2);
  writer.Uint(message.seq);
  writer.Bool(message.stored);
  writer.Finish();
}

void Encode(const Ping& message, std::string* out) { NumberFrame(Kind::kPing, message.nonce, out); }
void Encode(const Pong& message, std::string* out) { NumberFrame(Kind::kPong, message.nonce, out); }

void Encode(const Error& message, std::string* out) {
  MsgpackWriter writer(out, message.message.size());
  Begin(writer, Kind::kError, 2);
  Text(writer, message.code);
  Text(writer, message.message);
  writer.Finish();
}

void Encode(const Goodbye& message, std::string* out) {
  MsgpackWriter writer(out, message.reason.size());
  Begin(writer, Kind::kGoodbye, 1);
  Text(writer, message.reason);
  writer.Finish();
}

}  // namespace millstream::protocol
