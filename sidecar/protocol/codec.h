#ifndef MILLSTREAM_SIDECAR_PROTOCOL_CODEC_H_
#define MILLSTREAM_SIDECAR_PROTOCOL_CODEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "sidecar/protocol/messages.h"

// Messages to frames and back. Pure functions, thread-safe.
namespace millstream::protocol {

// Array elements one frame may hold in its lists (keys, items, outputs, ops, headers, values). An element takes at most
// about 130 bytes once decoded: a frame of 16 MiB never becomes more than 140 MB, whatever its sender claims.
inline constexpr uint32_t kMaxElements = 1u << 20;
// Stores one frame may name.
inline constexpr uint32_t kMaxStores = 1024;
// Nesting of fields that are skipped (those of later versions).
inline constexpr int kMaxDepth = 32;
// Longer texts of failures and errors are cut, by sender and receiver.
inline constexpr size_t kMaxTextBytes = 16u << 10;

// Appends one whole frame, length included, to *out. Numbers are written in their shortest form. Text that is not UTF-8
// is repaired (U+FFFD), except header names: those go as bin, so that no byte is lost. The frame cap is the caller's to
// check: the frame is what *out grew by. Precondition (MS_CHECK): less than 4 GiB.
void Encode(const Hello& message, std::string* out);
void Encode(const Welcome& message, std::string* out);
void Encode(const Open& message, std::string* out);
void Encode(const Close& message, std::string* out);
void Encode(const Batch& message, std::string* out);
void Encode(const Result& message, std::string* out);
void Encode(const Cancel& message, std::string* out);
void Encode(const Get& message, std::string* out);
void Encode(const Values& message, std::string* out);
void Encode(const Scan& message, std::string* out);
void Encode(const Rows& message, std::string* out);
void Encode(const Extend& message, std::string* out);
void Encode(const BeginTransaction& message, std::string* out);
void Encode(const FinalizeTransaction& message, std::string* out);
void Encode(const Committed& message, std::string* out);
void Encode(const Load& message, std::string* out);
void Encode(const Checkpoint& message, std::string* out);
void Encode(const Store& message, std::string* out);
void Encode(const Stored& message, std::string* out);
void Encode(const Ping& message, std::string* out);
void Encode(const Pong& message, std::string* out);
void Encode(const Error& message, std::string* out);
void Encode(const Goodbye& message, std::string* out);

template <typename Message>
std::string EncodeFrame(const Message& message) {
  std::string frame;
  Encode(message, &frame);
  return frame;
}

// A frame without its length (Frame::payload). Views in the message point into `payload`. Errors name kind, field and
// what was found instead: InvalidArgument for a wrong frame, Unimplemented for an item or field of a later
// feature.
absl::StatusOr<WorkerMessage> DecodeWorkerMessage(std::string_view payload);
absl::StatusOr<SidecarMessage> DecodeSidecarMessage(std::string_view payload);

// Kind and first number (the seq, where the kind has one) of a frame, without the rest being looked at; nullopt if
// there is no such beginning.
struct FrameHead {
  Kind kind;
  uint64_t number = 0;
};
std::optional<FrameHead> PeekHead(std::string_view payload);

// "BATCH"; "kind 77" for a number that is none.
std::string KindName(uint64_t kind);

}  // namespace millstream::protocol

#endif  // MILLSTREAM_SIDECAR_PROTOCOL_CODEC_H_
