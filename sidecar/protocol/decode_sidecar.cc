#include "common/base/strings.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/decode.h"

namespace millstream::protocol {
namespace {

using namespace internal;  // NOLINT: the parts of decode.h

// A list of maps: `read_field(element, key)` as for ReadMap.
template <typename Element, typename ReadField>
std::vector<Element> ReadMaps(MsgpackCursor& in, const char* field, ReadField read_field) {
  std::vector<Element> elements;
  const uint32_t count = in.List(field, 1);
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    Element element;
    in.EnterItem(field, i);
    ReadMap(in, field, [&](std::string_view key) { return read_field(element, key); });
    elements.push_back(std::move(element));
  }
  in.LeaveList();
  return elements;
}

std::vector<NamedTopic> ReadNamedTopics(MsgpackCursor& in, const char* field) {
  return ReadMaps<NamedTopic>(in, field, [&](NamedTopic& topic, std::string_view key) {
    if (key == "name") return topic.name = in.Text("name"), true;
    if (key == "topic") return topic.topic = in.Text("topic"), true;
    return false;
  });
}

std::vector<Welcome::Output> ReadOutputs(MsgpackCursor& in) {
  return ReadMaps<Welcome::Output>(in, "outputs", [&](Welcome::Output& output, std::string_view key) {
    if (key == "name") return output.name = in.Text("name"), true;
    if (key == "topic") return output.topic = in.Text("topic"), true;
    if (key == "max_bytes") return output.max_bytes = in.Int("max_bytes", 0), true;
    return false;
  });
}

StoreInfo::Window ReadWindowInfo(MsgpackCursor& in) {
  StoreInfo::Window window;
  ReadMap(in, "window", [&](std::string_view key) {
    if (key == "size") return window.size_ms = in.Int("window size"), true;
    if (key == "advance") return window.advance_ms = in.Int("window advance"), true;
    if (key == "grace") return window.grace_ms = in.Int("window grace"), true;
    if (key == "retention") return window.retention_ms = in.Int("window retention"), true;
    if (key == "final") return window.final = in.Bool("window final"), true;
    return false;
  });
  return window;
}

StoreInfo::Session ReadSessionInfo(MsgpackCursor& in) {
  StoreInfo::Session session;
  ReadMap(in, "session", [&](std::string_view key) {
    if (key == "gap") return session.gap_ms = in.Int("session gap"), true;
    if (key == "grace") return session.grace_ms = in.Int("session grace"), true;
    if (key == "retention") return session.retention_ms = in.Int("session retention"), true;
    if (key == "final") return session.final = in.Bool("session final"), true;
    return false;
  });
  return session;
}

std::vector<StoreInfo> ReadStores(MsgpackCursor& in) {
  return ReadMaps<StoreInfo>(in, "stores", [&](StoreInfo& store, std::string_view key) {
    if (key == "name") return store.name = in.Text("name"), true;
    if (key == "type") return store.type = in.Text("type"), true;
    if (key == "prefetched") return store.prefetched = in.Bool("prefetched"), true;
    if (key == "max_value_bytes") return store.max_value_bytes = in.Int("max_value_bytes", 0), true;
    if (key == "window") return store.window = ReadWindowInfo(in), true;
    if (key == "session") return store.session = ReadSessionInfo(in), true;
    return false;
  });
}

std::vector<Welcome::Visit> ReadVisits(MsgpackCursor& in) {
  return ReadMaps<Welcome::Visit>(in, "visits", [&](Welcome::Visit& visit, std::string_view key) {
    if (key == "name") return visit.name = in.Text("name"), true;
    if (key == "store") return visit.store = in.Uint32("visit store"), true;
    return false;
  });
}

void ReadLimits(MsgpackCursor& in, Welcome* welcome) {
  ReadMap(in, "limits", [&](std::string_view key) {
    if (key == "frame") return welcome->frame_cap = in.Uint32("frame limit"), true;
    if (key == "deadline_ms") return welcome->deadline_ms = in.Int("deadline_ms", 0), true;
    if (key == "min_timestamp") return welcome->min_timestamp_ms = in.Int("min_timestamp"), true;
    if (key == "max_timestamp") return welcome->max_timestamp_ms = in.Int("max_timestamp"), true;
    return false;
  });
}

Welcome ReadWelcome(MsgpackCursor& in) {
  Welcome welcome;
  bool has_protocol = false, has_session = false;
  ReadMap(in, "welcome", [&](std::string_view key) {
    if (key == "protocol")
      return has_protocol = true, welcome.version = static_cast<int>(in.Int("protocol", 0, INT32_MAX)), true;
    if (key == "session") return has_session = true, welcome.session = in.Uint("session"), true;
    if (key == "processor") return welcome.processor = in.Text("processor"), true;
    if (key == "inputs") return welcome.inputs = ReadNamedTopics(in, "inputs"), true;
    if (key == "outputs") return welcome.outputs = ReadOutputs(in), true;
    if (key == "stores") return welcome.stores = ReadStores(in), true;
    if (key == "timers") return welcome.timers = in.Bool("timers"), true;
    if (key == "visits") return welcome.visits = ReadVisits(in), true;
    if (key == "joins") return welcome.joins = ReadNamedTopics(in, "joins"), true;
    if (key == "lookups") return welcome.lookups = ReadNamedTopics(in, "lookups"), true;
    if (key == "capabilities") return welcome.capabilities = ReadTexts(in, "capabilities"), true;
    if (key == "limits") return ReadLimits(in, &welcome), true;
    return false;
  });
  if (in.ok() && !has_protocol) in.Fail("protocol", "missing");
  if (in.ok() && !has_session) in.Fail("session", "missing");
  return welcome;
}

TaskId ReadTask(MsgpackCursor& in) { return TaskId(static_cast<int32_t>(in.Int("task", 0, INT32_MAX))); }

int32_t ReadKeyIndex(MsgpackCursor& in, size_t key_count) {
  const auto index = static_cast<int32_t>(in.Uint32("key index", INT32_MAX));
  if (static_cast<size_t>(index) >= key_count && in.ok())
    in.Fail("key index", StrCat(index, " with ", key_count, " keys in the batch"));
  return index;
}

std::vector<ItemWindow> ReadItemWindows(MsgpackCursor& in) {
  std::vector<ItemWindow> windows(in.List("windows", 4));
  for (size_t i = 0; i < windows.size() && in.ok(); ++i) {
    ItemWindow& window = windows[i];
    uint32_t fields = in.Fields("window", 3);
    window.store = in.Uint32("window store");
    window.start_ms = in.Int("window start");
    window.end_ms = in.Int("window end");
    if ((fields -= 3) == 0) continue;
    if (in.More(&fields)) {
      window.session = true;
      window.merged.resize(in.List("merged", 3));
      for (size_t m = 0; m < window.merged.size() && in.ok(); ++m) {
        const uint32_t bounds = in.Fields("merged session", 2);
        window.merged[m].first = in.Int("session start");
        window.merged[m].second = in.Int("session end");
        in.SkipFields(bounds - 2);
      }
    }
    in.SkipFields(fields);
  }
  return windows;
}

void ReadRecord(MsgpackCursor& in, size_t key_count, uint32_t fields, RecordItem* item) {
  item->input = in.Uint32("input");
  item->offset = Offset(in.Int("offset"));
  item->timestamp_ms = in.Int("timestamp");
  if (!in.TakeNil()) item->key_index = ReadKeyIndex(in, key_count);
  item->value = in.MaybeBytes("value");
  if (!in.TakeNil()) item->headers = ReadHeaders(in);
  item->attempt = in.Uint32("attempt");
  fields -= 8;
  if (in.More(&fields)) item->windows = ReadItemWindows(in);
  in.SkipFields(fields);
}

void ReadItem(MsgpackCursor& in, size_t key_count, RecordItem* item) {
  const uint32_t fields = in.Fields("item", 6);
  const uint64_t type = in.Uint("item kind");
  if (!in.ok()) return;
  const uint32_t least = type == 0 ? 8 : type == 2 ? 7 : 6;
  if (type > 3) {
    in.Fail("item kind", StrCat(type, " is not supported yet"), absl::StatusCode::kUnimplemented);
  } else if (fields < least) {
    in.Fail("item", StrCat("has ", fields, " fields, at least ", least, " are needed"));
  }
  if (!in.ok()) return;
  item->type = static_cast<RecordItem::Type>(type);
  switch (item->type) {
    case RecordItem::Type::kRecord:
      return ReadRecord(in, key_count, fields, item);
    case RecordItem::Type::kTimer:
      item->key_index = ReadKeyIndex(in, key_count);
      item->clock = static_cast<TimerClock>(in.Uint32("timer clock", 1));
      item->name = in.Bytes("timer name");
      item->timestamp_ms = in.Int("timer time");
      break;
    case RecordItem::Type::kClosing:
      item->store = in.Uint32("closing store");
      item->key_index = ReadKeyIndex(in, key_count);
      item->closing.start_ms = in.Int("window start");
      item->closing.end_ms = in.Int("window end");
      item->closing.value = in.State("closing value");
      break;
    case RecordItem::Type::kVisit:
      item->visit = in.Uint32("visit");
      if (!in.TakeNil()) item->key_index = ReadKeyIndex(in, key_count);
      item->timestamp_ms = in.Int("visit time");
      item->value = in.MaybeBytes("visit data");
      break;
  }
  item->attempt = in.Uint32("attempt");
  in.SkipFields(fields - least);
}

std::vector<WindowValue> ReadWindowValues(MsgpackCursor& in) {
  std::vector<WindowValue> rows(in.List("state windows", 4));
  for (size_t i = 0; i < rows.size() && in.ok(); ++i) {
    const uint32_t fields = in.Fields("state window", 3);
    rows[i].start_ms = in.Int("window start");
    rows[i].end_ms = in.Int("window end");
    rows[i].value = in.State("state value");
    in.SkipFields(fields - 3);
  }
  return rows;
}

std::vector<Batch::StoreState> ReadState(MsgpackCursor& in, size_t key_count) {
  std::vector<Batch::StoreState> state;
  const uint32_t stores = in.Map("state");
  if (stores > kMaxStores) in.Fail("state", StrCat(stores, " stores; at most ", kMaxStores));
  std::vector<uint32_t> seen;
  for (uint32_t s = 0; s < stores && in.ok(); ++s) {
    Batch::StoreState& store = state.emplace_back();
    store.store = ReadStoreId(in, "state", &seen);
    const uint32_t count = in.List("state", 1);
    if (in.ok() && count != key_count)
      in.Fail("state", StrCat("store ", store.store, " has ", count, " values for ", key_count, " keys"));
    if (!in.ok()) break;
    store.windowed = count > 0 && in.AtArray();
    store.windowed ? store.windows.resize(count) : store.values.resize(count);
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      if (store.windowed) {
        store.windows[i] = ReadWindowValues(in);
      } else {
        store.values[i] = in.State("state value");
      }
    }
  }
  return state;
}

Batch ReadBatch(MsgpackCursor& in) {
  Batch batch;
  batch.seq = in.Uint("seq");
  batch.task = ReadTask(in);
  batch.flags = in.Uint32("flags");
  const uint32_t keys = in.List("keys", 1);
  batch.keys.resize(keys);
  for (uint32_t i = 0; i < keys && in.ok(); ++i) batch.keys[i] = in.Bytes("key");
  const uint32_t items = in.List("items", 7);
  batch.items.resize(items);
  for (uint32_t i = 0; i < items && in.ok(); ++i) {
    in.EnterItem("items", i);
    ReadItem(in, batch.keys.size(), &batch.items[i]);
  }
  in.LeaveList();
  batch.state = ReadState(in, batch.keys.size());
  if (!in.TakeNil()) batch.watermark_ms = in.Int("watermark");
  return batch;
}

MaybeBytes Owned(MaybeView view) { return view.has_value() ? MaybeBytes(*view) : std::nullopt; }

Values ReadValues(MsgpackCursor& in, uint32_t* fields) {
  Values values;
  values.seq = in.Uint("seq");
  values.rid = in.Uint("rid");
  const uint32_t count = in.List("values", 1);
  values.values.resize(count);
  for (uint32_t i = 0; i < count && in.ok(); ++i) values.values[i] = Owned(in.MaybeBytes("value"));
  if (in.More(fields)) values.error = in.Text("error");
  return values;
}

Rows ReadRows(MsgpackCursor& in, uint32_t* fields) {
  Rows rows;
  rows.seq = in.Uint("seq");
  rows.rid = in.Uint("rid");
  const uint32_t count = in.List("rows", 3);
  rows.rows.resize(count);
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    in.EnterItem("rows", i);
    const uint32_t row_fields = in.Fields("row", 2);
    rows.rows[i].first = in.Bytes("key");
    rows.rows[i].second = in.Bytes("value");
    if (row_fields > 2) in.SkipFields(row_fields - 2);
  }
  in.LeaveList();
  rows.cursor = Owned(in.MaybeBytes("cursor"));
  if (in.More(fields)) rows.error = in.Text("error");
  return rows;
}

// Order of evaluation in braces is that of the fields.
template <typename Message>
Message ReadHook(MsgpackCursor& in) {
  return Message{in.Uint("seq"), ReadTask(in)};
}

Committed ReadCommitted(MsgpackCursor& in) {
  Committed committed;
  const uint32_t count = in.List("tasks", 3);
  committed.tasks.resize(count);
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    in.EnterItem("tasks", i);
    const uint32_t fields = in.Fields("task", 2);
    committed.tasks[i].first = ReadTask(in);
    committed.tasks[i].second = in.Uint("seq");
    if (fields > 2) in.SkipFields(fields - 2);
  }
  in.LeaveList();
  return committed;
}

Store ReadStore(MsgpackCursor& in) {
  Store store;
  store.seq = in.Uint("seq");
  store.task = ReadTask(in);
  store.fence = in.Uint("fence");
  store.checkpoint = in.Bytes("checkpoint");
  return store;
}

SidecarMessage ReadMessage(MsgpackCursor& in, uint64_t kind, uint32_t* fields) {
  switch (static_cast<Kind>(kind)) {
    case Kind::kWelcome:
      return Require(in, 1, fields) ? ReadWelcome(in) : Welcome();
    case Kind::kOpen:
      return Require(in, 1, fields) ? Open{ReadTask(in)} : Open();
    case Kind::kClose:
      return Require(in, 1, fields) ? Close{ReadTask(in)} : Close();
    case Kind::kBatch:
      return Require(in, 7, fields) ? ReadBatch(in) : Batch();
    case Kind::kCancel:
      return Require(in, 1, fields) ? Cancel{in.Uint("seq")} : Cancel();
    case Kind::kValues:
      return Require(in, 3, fields) ? ReadValues(in, fields) : Values();
    case Kind::kRows:
      return Require(in, 4, fields) ? ReadRows(in, fields) : Rows();
    case Kind::kBegin:
      return Require(in, 2, fields) ? ReadHook<BeginTransaction>(in) : BeginTransaction();
    case Kind::kFinalize:
      return Require(in, 2, fields) ? ReadHook<FinalizeTransaction>(in) : FinalizeTransaction();
    case Kind::kCommitted:
      return Require(in, 1, fields) ? ReadCommitted(in) : Committed();
    case Kind::kLoad:
      return Require(in, 2, fields) ? ReadHook<Load>(in) : Load();
    case Kind::kStore:
      return Require(in, 4, fields) ? ReadStore(in) : Store();
    case Kind::kPing:
      return Require(in, 1, fields) ? ReadPing(in) : Ping();
    case Kind::kPong:
      return Require(in, 1, fields) ? ReadPong(in) : Pong();
    case Kind::kError:
      return Require(in, 2, fields) ? ReadError(in) : Error();
    case Kind::kGoodbye:
      return Require(in, 1, fields) ? ReadGoodbye(in) : Goodbye();
    default:
      FailKind(in, kind, "worker");
      return Ping();
  }
}

}  // namespace

absl::StatusOr<SidecarMessage> DecodeSidecarMessage(std::string_view payload) {
  return internal::DecodeWhole<SidecarMessage>(payload, ReadMessage);
}

}  // namespace millstream::protocol
