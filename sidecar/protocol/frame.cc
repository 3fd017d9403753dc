#include "sidecar/protocol/frame.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::protocol {
namespace {

// One read of a socket. Small enough that a kept frame holds on to little more than itself.
constexpr size_t kBlockBytes = 64u << 10;
// With less room than this left a block is given up, so that reads stay large.
constexpr size_t kLeastSpace = 4u << 10;

}  // namespace

void FrameReader::NewBlock(size_t needed) {
  const size_t partial = end_ - begin_;
  const size_t capacity = std::max(needed, kBlockBytes);
  auto block = std::make_shared_for_overwrite<char[]>(capacity);
  if (partial > 0) std::memcpy(block.get(), block_.get() + begin_, partial);
  block_ = std::move(block);
  capacity_ = capacity;
  begin_ = 0;
  end_ = partial;
}

std::span<char> FrameReader::Space() {
  // A frame whose length is known has its room in the block (Next saw to it). Else only the end of the block matters.
  if (!sized_ && capacity_ - end_ < kLeastSpace) NewBlock(kBlockBytes);
  return {block_.get() + end_, capacity_ - end_};
}

void FrameReader::Filled(size_t count) {
  MS_CHECK(count <= capacity_ - end_);
  end_ += count;
}

absl::StatusOr<std::optional<Frame>> FrameReader::Next() {
  if (!error_.ok()) return error_;
  sized_ = false;
  const size_t have = end_ - begin_;
  if (have < kFrameHeaderBytes) return std::nullopt;
  const uint32_t size = ReadBigEndian32(std::string_view(block_.get() + begin_, kFrameHeaderBytes));
  if (size == 0) return error_ = absl::InvalidArgumentError("a frame of length 0: the least is one array");
  if (size > cap_) {
    return error_ = absl::ResourceExhaustedError(StrCat("a frame of ", size, " bytes is beyond the cap of ", cap_));
  }
  const size_t whole = kFrameHeaderBytes + size;
  if (have < whole) {
    if (whole > capacity_ - begin_) NewBlock(whole);
    sized_ = true;
    return std::nullopt;
  }
  Frame frame{{block_.get() + begin_ + kFrameHeaderBytes, size}, block_};
  begin_ += whole;
  return frame;
}

}  // namespace millstream::protocol
