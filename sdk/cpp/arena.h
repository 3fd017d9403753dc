#ifndef MILLSTREAM_SDK_CPP_ARENA_H_
#define MILLSTREAM_SDK_CPP_ARENA_H_

#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace millstream::worker {

// Keeps copies of bytes until it is reset. One block is kept over a reset, so that a batch like the one before
// allocates nothing.
class Arena {
 public:
  std::string_view Copy(std::string_view bytes) {
    if (bytes.empty()) return {};
    if (bytes.size() > left_) NewBlock(bytes.size());
    std::memcpy(at_, bytes.data(), bytes.size());
    const std::string_view copy(at_, bytes.size());
    at_ += bytes.size();
    left_ -= bytes.size();
    return copy;
  }
  void Reset() {
    if (blocks_.size() > 1) blocks_.resize(1);
    if (blocks_.empty()) return;
    at_ = blocks_[0].bytes.get();
    left_ = blocks_[0].size;
  }

 private:
  static constexpr size_t kBlockBytes = 64u << 10;
  struct Block {
    std::unique_ptr<char[]> bytes;
    size_t size = 0;
  };
  void NewBlock(size_t needed) {
    const size_t size = needed > kBlockBytes ? needed : kBlockBytes;
    blocks_.push_back({std::make_unique_for_overwrite<char[]>(size), size});
    at_ = blocks_.back().bytes.get();
    left_ = size;
  }

  std::vector<Block> blocks_;
  char* at_ = nullptr;
  size_t left_ = 0;
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_ARENA_H_
