#include "sidecar/engine/arena.h"

#include <algorithm>
#include <cstring>

namespace millstream::engine {
namespace {
constexpr size_t kLargestBlock = 64 << 10;
}  // namespace

char* Arena::Allocate(size_t size) {
  if (size > left_) {
    if (size > next_block_ / 4) {  // a block of its own: the current one stays in use
      blocks_.push_back(std::make_unique_for_overwrite<char[]>(size));
      bytes_ += static_cast<int64_t>(size);
      return blocks_.back().get();
    }
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(next_block_));
    bytes_ += static_cast<int64_t>(next_block_);
    free_ = blocks_.back().get();
    left_ = next_block_;
    next_block_ = std::min(next_block_ * 2, kLargestBlock);
  }
  char* place = free_;
  free_ += size;
  left_ -= size;
  return place;
}

std::string_view Arena::Copy(std::string_view bytes) {
  if (bytes.empty()) return {};
  char* place = Allocate(bytes.size());
  std::memcpy(place, bytes.data(), bytes.size());
  return {place, bytes.size()};
}

}  // namespace millstream::engine
