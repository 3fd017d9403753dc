#include "common/base/strings.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/msgpack_cursor.h"

namespace millstream::protocol {

std::string KindName(uint64_t kind) {
  static constexpr const char* kNames[] = {nullptr,  "HELLO",  "WELCOME",  "OPEN",      "CLOSE", "BATCH",
                                           "RESULT", "CANCEL", "GET",      "VALUES",    "SCAN",  "ROWS",
                                           "EXTEND", "BEGIN",  "FINALIZE", "COMMITTED", "LOAD",  "CHECKPOINT",
                                           "STORE",  "STORED", "PING",     "PONG",      "ERROR", "GOODBYE"};
  if (kind >= 1 && kind < std::size(kNames)) return kNames[kind];
  return StrCat("kind ", kind);
}

std::optional<FrameHead> PeekHead(std::string_view payload) {
  MsgpackCursor in(payload);
  const uint32_t fields = in.Fields("frame", 1);
  const uint64_t kind = in.Uint("kind", static_cast<uint64_t>(Kind::kGoodbye));
  if (!in.ok() || kind == 0) return std::nullopt;
  FrameHead head{static_cast<Kind>(kind), 0};
  if (fields < 2) return head;
  const uint64_t number = in.Uint("number");
  if (in.ok()) head.number = number;
  return head;
}

}  // namespace millstream::protocol
