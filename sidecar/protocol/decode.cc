#include "sidecar/protocol/decode.h"

#include <algorithm>

#include "common/base/strings.h"
#include "sidecar/protocol/codec.h"

namespace millstream::protocol::internal {

bool ReadKind(MsgpackCursor& in, uint64_t* kind, uint32_t* fields) {
  *fields = in.Fields("frame", 1);
  if (!in.ok()) return false;
  --*fields;
  *kind = in.Uint("kind");
  if (in.ok()) in.set_kind(*kind);
  return in.ok();
}

bool Require(MsgpackCursor& in, uint32_t min, uint32_t* fields) {
  if (*fields < min) return in.Fail("fields", StrCat("expected at least ", min, " after the kind, found ", *fields));
  *fields -= min;
  return true;
}

void FailKind(MsgpackCursor& in, uint64_t kind, const char* receiver) {
  const bool known = kind >= 1 && kind <= static_cast<uint64_t>(Kind::kGoodbye);
  in.Fail("kind", known ? StrCat("never sent to a ", receiver) : "no such kind in protocol version 1");
}

HeaderViews ReadHeaders(MsgpackCursor& in) {
  HeaderViews headers;
  const uint32_t count = in.List("headers", 3);
  headers.reserve(count);
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    const uint32_t fields = in.Fields("header", 2);
    const std::string_view name = in.Bytes("header name");
    const MaybeView value = in.MaybeBytes("header value");
    if (fields > 2) in.SkipFields(fields - 2);
    headers.emplace_back(name, value);
  }
  return headers;
}

std::vector<std::string> ReadTexts(MsgpackCursor& in, const char* field) {
  std::vector<std::string> texts;
  const uint32_t count = in.List(field, 1);
  for (uint32_t i = 0; i < count && in.ok(); ++i) texts.push_back(in.Text(field));
  return texts;
}

uint32_t ReadStoreId(MsgpackCursor& in, const char* field, std::vector<uint32_t>* seen) {
  const uint32_t store = in.Uint32(field);
  if (std::find(seen->begin(), seen->end(), store) != seen->end())
    in.Fail(field, StrCat("store ", store, " appears twice"));
  seen->push_back(store);
  return store;
}

Ping ReadPing(MsgpackCursor& in) { return {in.Uint("nonce")}; }
Pong ReadPong(MsgpackCursor& in) { return {in.Uint("nonce")}; }

Error ReadError(MsgpackCursor& in) {
  Error error;
  error.code = in.Text("code");
  error.message = in.Text("message");
  return error;
}

Goodbye ReadGoodbye(MsgpackCursor& in) { return {in.Text("reason")}; }

}  // namespace millstream::protocol::internal
