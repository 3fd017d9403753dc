#ifndef MILLSTREAM_SDK_CPP_ROW_KEY_H_
#define MILLSTREAM_SDK_CPP_ROW_KEY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/bytes.h"
#include "millstream/state.h"
#include "sidecar/protocol/messages.h"

// Row keys of windowed stores (docs/reference/protocol.md, "Row keys"): the record's key, then a window's start as a
// signed 64-bit big-endian integer; of a session start and end, likewise but with the sign bit flipped.
namespace millstream::worker {

inline constexpr uint64_t kSignBit = uint64_t{1} << 63;
inline constexpr size_t kWindowSuffix = 8, kSessionSuffix = 16;

inline bool IsWindowed(const protocol::StoreInfo& store) { return store.type != "KeyValue"; }
inline bool IsSession(const protocol::StoreInfo& store) { return store.type == "Session"; }
// Its windows or sessions are told when they close.
inline bool IsFinal(const protocol::StoreInfo& store) {
  return (store.window.has_value() && store.window->final) || (store.session.has_value() && store.session->final);
}

inline void AppendRowSuffix(bool session, const Window& window, std::string* row) {
  const uint64_t flip = session ? kSignBit : 0;
  AppendBigEndian64(static_cast<uint64_t>(window.start_ms) ^ flip, row);
  if (session) AppendBigEndian64(static_cast<uint64_t>(window.end_ms) ^ flip, row);
}

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_ROW_KEY_H_
