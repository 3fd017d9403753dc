#ifndef MILLSTREAM_SIDECAR_ENGINE_ARENA_H_
#define MILLSTREAM_SIDECAR_ENGINE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace millstream::engine {

// Bytes that are freed all at once. Blocks double from 1 KiB to 64 KiB: a thousand idle tasks cost little, a busy one
// allocates rarely. Not thread-safe.
class Arena {
 public:
  char* Allocate(size_t size);
  std::string_view Copy(std::string_view bytes);
  // What the blocks take, used or not.
  int64_t bytes() const { return bytes_; }

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* free_ = nullptr;
  size_t left_ = 0;
  size_t next_block_ = 1 << 10;
  int64_t bytes_ = 0;
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_ARENA_H_
