#ifndef MILLSTREAM_SIDECAR_PROTOCOL_FRAME_H_
#define MILLSTREAM_SIDECAR_PROTOCOL_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millstream::protocol {

inline constexpr size_t kFrameHeaderBytes = 4;

// One frame without its length. `payload` points into `buffer`, which other frames may share.
struct Frame {
  std::string_view payload;
  std::shared_ptr<const void> buffer;
};

// Cuts a byte stream into frames. The stream is read straight into the reader's memory and frames are views of it:
// bytes are moved only when a frame is cut by the end of a block, and then once. Memory held: one block (64 KiB, or
// exactly one frame where that is larger), plus the blocks of frames the caller keeps. A length beyond the cap, or
// zero, is refused before anything is allocated for it. Not thread-safe; the frames' buffers may be released on any
// thread.
//
//   std::span<char> space = reader.Space();
//   ssize_t n = recv(fd, space.data(), space.size(), 0);
//   reader.Filled(n);
//   while (true) { auto frame = reader.Next(); if (!frame.ok()) close; if (!*frame) break; use(**frame); }
class FrameReader {
 public:
  explicit FrameReader(uint32_t cap) : cap_(cap) {}

  // Holds from the next frame on whose length is not yet read.
  void set_cap(uint32_t cap) { cap_ = cap; }

  // Where the next bytes belong; never empty. Precondition: Next was called until it gave nullopt.
  std::span<char> Space();
  // `count` bytes were put there.
  void Filled(size_t count);

  // The next whole frame; nullopt: more bytes are needed. Error (ResourceExhausted: beyond the cap; InvalidArgument:
  // zero length): the stream is lost, and every further call gives the same error.
  absl::StatusOr<std::optional<Frame>> Next();

  // The stream stopped inside a frame, and how much of it is there (`expected` 0: not even its length).
  bool InsideFrame() const { return end_ > begin_; }
  size_t partial_bytes() const { return end_ - begin_; }

 private:
  // Makes a block with room for a frame of `needed` bytes, header included, and moves the partial frame to its start.
  void NewBlock(size_t needed);

  uint32_t cap_;
  std::shared_ptr<char[]> block_;
  size_t capacity_ = 0;
  size_t begin_ = 0;    // first byte not yet given out
  size_t end_ = 0;      // after the last byte received
  bool sized_ = false;  // the length of the partial frame is known and the block has room for all of it
  absl::Status error_;
};

}  // namespace millstream::protocol

#endif  // MILLSTREAM_SIDECAR_PROTOCOL_FRAME_H_
