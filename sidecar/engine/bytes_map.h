#ifndef MILLSTREAM_SIDECAR_ENGINE_BYTES_MAP_H_
#define MILLSTREAM_SIDECAR_ENGINE_BYTES_MAP_H_

#include <cstddef>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "common/base/strings.h"

namespace millstream::engine {

// Bytes with their hash: for a lookup in several maps, hashed once.
struct HashedBytes;

struct BytesHash {
  using is_transparent = void;
  size_t operator()(std::string_view bytes) const { return absl::Hash<absl::string_view>{}(ToAbsl(bytes)); }
  size_t operator()(const HashedBytes& bytes) const;
};

struct HashedBytes {
  explicit HashedBytes(std::string_view of) : bytes(of), hash(BytesHash()(of)) {}
  HashedBytes(std::string_view of, size_t known) : bytes(of), hash(known) {}
  // The key of a map, once it is in one.
  operator std::string_view() const { return bytes; }

  std::string_view bytes;
  size_t hash;
};

inline size_t BytesHash::operator()(const HashedBytes& bytes) const { return bytes.hash; }

struct BytesEqual {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const { return a == b; }
};

// A hash map over keys that live elsewhere (an arena, a record). Every map of this type hashes alike, so a hash taken
// once serves all layers of a lookup: find(key, hash). With prefetch(HashedBytes) a few keys ahead the waits for memory
// overlap.
template <typename Value>
using BytesMap = absl::flat_hash_map<std::string_view, Value, BytesHash, BytesEqual>;

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_BYTES_MAP_H_
