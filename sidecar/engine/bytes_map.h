#ifndef MILLSTREAM_SIDECAR_ENGINE_BYTES_MAP_H_
#define MILLSTREAM_SIDECAR_ENGINE_BYTES_MAP_H_

#include <cstddef>
#include <functional>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "common/base/strings.h"

namespace millstream::engine {

struct BytesHash {
  size_t operator()(std::string_view bytes) const { return absl::Hash<absl::string_view>{}(ToAbsl(bytes)); }
};

// A hash map over keys that live elsewhere (an arena, a record). Every map of this type hashes alike, so a hash taken
// once serves all layers of a lookup: find(key, hash).
template <typename Value>
using BytesMap = absl::flat_hash_map<std::string_view, Value, BytesHash, std::equal_to<std::string_view>>;

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_BYTES_MAP_H_
