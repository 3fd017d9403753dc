#ifndef MILLSTREAM_SIDECAR_PROTOCOL_DECODE_H_
#define MILLSTREAM_SIDECAR_PROTOCOL_DECODE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "sidecar/protocol/msgpack_cursor.h"

// Parts that both directions' decoders share. Private to this folder.
namespace millstream::protocol::internal {

using HeaderViews = std::vector<std::pair<std::string_view, MaybeView>>;

// Reads [kind, ...] up to the first field: false (and the cursor failed) if it is no such array. *fields: those after
// kind.
bool ReadKind(MsgpackCursor& in, uint64_t* kind, uint32_t* fields);
// The kind has at least `min` fields; counts them off. *fields: how many are left, the optional ones.
bool Require(MsgpackCursor& in, uint32_t min, uint32_t* fields);
// Fails for a kind that exists but does not belong here.
void FailKind(MsgpackCursor& in, uint64_t kind, const char* receiver);

HeaderViews ReadHeaders(MsgpackCursor& in);
std::vector<std::string> ReadTexts(MsgpackCursor& in, const char* field);
// A store id that *seen must not have yet.
uint32_t ReadStoreId(MsgpackCursor& in, const char* field, std::vector<uint32_t>* seen);

Ping ReadPing(MsgpackCursor& in);
Pong ReadPong(MsgpackCursor& in);
Error ReadError(MsgpackCursor& in);
Goodbye ReadGoodbye(MsgpackCursor& in);

// Runs `read_field(key)` for every entry of a map; it gives false for a key it does not know, which is skipped. A key
// that comes twice fails: two values, and no way to tell which is meant.
template <typename ReadField>
void ReadMap(MsgpackCursor& in, const char* field, ReadField read_field) {
  const uint32_t count = in.Map(field);
  std::vector<std::string_view> seen;
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    const std::string_view key = in.Bytes(field);
    if (!in.ok()) return;
    if (!read_field(key)) {
      in.Skip(field);
      continue;
    }
    for (std::string_view other : seen) {
      if (other == key) in.Fail(field, std::string("key \"").append(key).append("\" appears twice"));
    }
    seen.push_back(key);  // known keys only: a handful
  }
}

// One frame's payload, all of it. `read_message(in, kind, &fields)` reads what follows the kind; 0 is no kind.
template <typename Message, typename ReadMessage>
absl::StatusOr<Message> DecodeWhole(std::string_view payload, ReadMessage read_message) {
  MsgpackCursor in(payload);
  uint64_t kind = 0;
  uint32_t fields = 0;
  if (!ReadKind(in, &kind, &fields)) return in.status();
  Message message = read_message(in, kind > 0xff ? 0 : kind, &fields);
  in.SkipFields(fields);
  in.ExpectEnd();
  if (!in.ok()) return in.status();
  return message;
}

}  // namespace millstream::protocol::internal

#endif  // MILLSTREAM_SIDECAR_PROTOCOL_DECODE_H_
