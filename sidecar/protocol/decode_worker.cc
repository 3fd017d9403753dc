#include <algorithm>

#include "common/base/strings.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/decode.h"

namespace millstream::protocol {
namespace {

using namespace internal;  // NOLINT: the parts of decode.h

Hello ReadHello(MsgpackCursor& in) {
  Hello hello;
  bool has_protocol = false;
  ReadMap(in, "hello", [&](std::string_view key) {
    if (key == "protocol") {
      has_protocol = true;
      const uint32_t fields = in.Fields("protocol", 2);
      hello.min_version = static_cast<int>(in.Int("protocol minimum", 0, INT32_MAX));
      hello.max_version = static_cast<int>(in.Int("protocol maximum", 0, INT32_MAX));
      if (fields > 2) in.SkipFields(fields - 2);
    } else if (key == "sdk") {
      hello.sdk = in.Text("sdk");
    } else if (key == "language") {
      hello.language = in.Text("language");
    } else if (key == "version") {
      hello.version = in.Text("version");
    } else if (key == "name") {
      if (!in.TakeNil()) hello.name = in.Text("name");
    } else if (key == "capabilities") {
      hello.capabilities = ReadTexts(in, "capabilities");
    } else if (key == "inputs") {
      if (!in.TakeNil()) hello.inputs = ReadTexts(in, "inputs");
    } else if (key == "parallel") {
      hello.parallel = static_cast<int>(in.Int("parallel", 1, INT32_MAX));
    } else {
      return false;
    }
    return true;
  });
  if (in.ok() && !has_protocol) in.Fail("protocol", "missing; expected [minimum, maximum]");
  if (hello.min_version > hello.max_version) {
    in.Fail("protocol", StrCat("the minimum ", hello.min_version, " is above the maximum ", hello.max_version));
  }
  return hello;
}

Failure ReadFailure(MsgpackCursor& in) {
  Failure failure;
  ReadMap(in, "failure", [&](std::string_view key) {
    if (key == "class") {
      failure.failure_class = in.Text("failure class");
    } else if (key == "error") {
      failure.error = in.Text("failure error");
    } else if (key == "message") {
      failure.message = in.Text("failure message");
    } else if (key == "retriable") {
      failure.retriable = in.Bool("failure retriable");
    } else {
      return false;
    }
    return true;
  });
  return failure;
}

// {store: [[key, value or nil]]}, with the item's index as third field in "new ops".
StateOps ReadOps(MsgpackCursor& in, const char* list_name, bool with_item) {
  StateOps ops;
  const uint32_t stores = in.Map(list_name);
  if (stores > kMaxStores) in.Fail(list_name, StrCat(stores, " stores; at most ", kMaxStores));
  std::vector<uint32_t> seen;
  for (uint32_t s = 0; s < stores && in.ok(); ++s) {
    auto& [store, list] = ops.emplace_back();
    store = ReadStoreId(in, list_name, &seen);
    const uint32_t min_fields = with_item ? 3 : 2;
    const uint32_t count = in.List(list_name, 1 + min_fields);
    list.resize(count);
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      in.EnterItem(list_name, i);
      const uint32_t fields = in.Fields("op", min_fields);
      list[i].key = in.Bytes("key");
      list[i].value = in.MaybeBytes("value");
      if (with_item) list[i].item = in.Uint32("item");
      if (fields > min_fields) in.SkipFields(fields - min_fields);
    }
    in.LeaveList();
  }
  return ops;
}

void ReadOutput(MsgpackCursor& in, OutputRecord* output) {
  uint32_t fields = in.Fields("output", 3);
  output->output = in.Uint32("output id");
  output->key = in.MaybeBytes("key");
  output->value = in.MaybeBytes("value");
  if (fields <= 3) return;
  fields -= 3;
  if (in.More(&fields)) output->timestamp_ms = in.Int("timestamp");
  if (in.More(&fields)) output->headers = ReadHeaders(in);
  if (in.More(&fields)) output->partition = static_cast<int32_t>(in.Int("partition", 0, INT32_MAX));
  in.SkipFields(fields);
}

void ReadTimer(MsgpackCursor& in, TimerOp* timer) {
  const uint32_t fields = in.Fields("timer", 3);
  timer->key = in.Bytes("timer key");
  timer->clock = static_cast<TimerClock>(in.Uint32("timer clock", 1));
  timer->name = in.Bytes("timer name");
  if (timer->name.size() > kMaxTimerName)
    in.Fail("timer name", StrCat(timer->name.size(), " bytes; at most ", kMaxTimerName));
  if (fields <= 3) return;
  if (!in.TakeNil()) timer->time_ms = in.Int("timer time");
  in.SkipFields(fields - 4);
}

void ReadVisit(MsgpackCursor& in, VisitOp* visit) {
  uint32_t fields = in.Fields("visit", 2);
  visit->visit = in.Uint32("visit id");
  visit->what = static_cast<VisitOp::What>(in.Uint32("what of a visit", 3));
  fields -= std::min<uint32_t>(fields, 2);
  if (in.More(&fields)) visit->data = in.Bytes("visit data");
  if (visit->data && visit->what != VisitOp::What::kStart)
    in.Fail("visit data", "belongs to the start of a visit only");
  if (visit->data && visit->data->size() > kMaxVisitData)
    in.Fail("visit data", StrCat(visit->data->size(), " bytes; at most ", kMaxVisitData));
  in.SkipFields(fields);
}

Result ReadResult(MsgpackCursor& in, uint32_t* fields) {
  Result result;
  result.seq = in.Uint("seq");
  result.done = in.Uint32("done");
  if (!in.TakeNil()) result.failure = ReadFailure(in);
  result.ops = ReadOps(in, "ops", /*with_item=*/false);
  const uint32_t count = in.List("outputs", 4);
  result.outputs.resize(count);
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    in.EnterItem("outputs", i);
    ReadOutput(in, &result.outputs[i]);
  }
  in.LeaveList();
  if (in.More(fields)) {
    const uint32_t timers = in.List("timers", 4);
    result.timers.resize(timers);
    for (uint32_t i = 0; i < timers && in.ok(); ++i) {
      in.EnterItem("timers", i);
      ReadTimer(in, &result.timers[i]);
    }
    in.LeaveList();
  }
  if (in.More(fields)) {
    const uint32_t visits = in.List("visits", 3);
    result.visits.resize(visits);
    for (uint32_t i = 0; i < visits && in.ok(); ++i) {
      in.EnterItem("visits", i);
      ReadVisit(in, &result.visits[i]);
    }
    in.LeaveList();
  }
  return result;
}

Get ReadGet(MsgpackCursor& in, uint32_t* fields) {
  Get get;
  get.seq = in.Uint("seq");
  get.rid = in.Uint("rid");
  get.store = in.Uint32("store");
  const uint32_t count = in.List("keys", 1);
  get.keys.reserve(count);
  for (uint32_t i = 0; i < count && in.ok(); ++i) get.keys.push_back(in.Bytes("key"));
  if (in.More(fields)) get.new_ops = ReadOps(in, "new ops", /*with_item=*/true);
  return get;
}

Scan ReadScan(MsgpackCursor& in, uint32_t* fields) {
  Scan scan;
  scan.seq = in.Uint("seq");
  scan.rid = in.Uint("rid");
  scan.store = in.Uint32("store");
  scan.from = in.MaybeBytes("from");
  scan.to = in.MaybeBytes("to");
  scan.limit = in.Uint32("limit");
  scan.reverse = in.Bool("reverse");
  if (in.More(fields)) scan.cursor = in.Bytes("cursor");
  if (in.More(fields)) scan.new_ops = ReadOps(in, "new ops", /*with_item=*/true);
  return scan;
}

Extend ReadExtend(MsgpackCursor& in) {
  Extend extend;
  extend.seq = in.Uint("seq");
  extend.done = in.Uint32("done");
  return extend;
}

Checkpoint ReadCheckpoint(MsgpackCursor& in) {
  Checkpoint checkpoint;
  checkpoint.seq = in.Uint("seq");
  checkpoint.fence = in.Uint("fence");
  checkpoint.checkpoint = in.MaybeBytes("checkpoint");
  return checkpoint;
}

Stored ReadStored(MsgpackCursor& in) {
  Stored stored;
  stored.seq = in.Uint("seq");
  stored.stored = in.Bool("stored");
  return stored;
}

WorkerMessage ReadMessage(MsgpackCursor& in, uint64_t kind, uint32_t* fields) {
  switch (static_cast<Kind>(kind)) {
    case Kind::kHello:
      return Require(in, 1, fields) ? ReadHello(in) : Hello();
    case Kind::kResult:
      return Require(in, 5, fields) ? ReadResult(in, fields) : Result();
    case Kind::kGet:
      return Require(in, 4, fields) ? ReadGet(in, fields) : Get();
    case Kind::kScan:
      return Require(in, 7, fields) ? ReadScan(in, fields) : Scan();
    case Kind::kExtend:
      return Require(in, 2, fields) ? ReadExtend(in) : Extend();
    case Kind::kCheckpoint:
      return Require(in, 3, fields) ? ReadCheckpoint(in) : Checkpoint();
    case Kind::kStored:
      return Require(in, 2, fields) ? ReadStored(in) : Stored();
    case Kind::kPing:
      return Require(in, 1, fields) ? ReadPing(in) : Ping();
    case Kind::kPong:
      return Require(in, 1, fields) ? ReadPong(in) : Pong();
    case Kind::kError:
      return Require(in, 2, fields) ? ReadError(in) : Error();
    case Kind::kGoodbye:
      return Require(in, 1, fields) ? ReadGoodbye(in) : Goodbye();
    default:
      FailKind(in, kind, "sidecar");
      return Ping();
  }
}

}  // namespace

absl::StatusOr<WorkerMessage> DecodeWorkerMessage(std::string_view payload) {
  return internal::DecodeWhole<WorkerMessage>(payload, ReadMessage);
}

}  // namespace millstream::protocol
