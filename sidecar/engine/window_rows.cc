#include "sidecar/engine/window_rows.h"

#include "common/base/strings.h"

namespace millstream::engine {

RowRange RowsOf(const spec::StoreSpec& store, std::string_view key) {
  const size_t suffix = store.session ? 16 : 8;
  return {StrCat(key, std::string(suffix, '\0')), StrCat(key, std::string(suffix, '\xff'), std::string(1, '\0'))};
}

const spec::StoreSpec* WindowedStore(const spec::StreamProcessorSpec& spec, size_t readable) {
  const bool windowed = readable < spec.stores.size() && spec.stores[readable].type != spec::StoreType::kKeyValue;
  return windowed ? &spec.stores[readable] : nullptr;
}

}  // namespace millstream::engine
