#ifndef MILLSTREAM_SIDECAR_ENGINE_WINDOW_ROWS_H_
#define MILLSTREAM_SIDECAR_ENGINE_WINDOW_ROWS_H_

#include <cstddef>
#include <string_view>

#include "common/base/bytes.h"
#include "common/spec/stream_processor.h"
#include "sidecar/engine/windows.h"

// For whoever looks into stores with windows or sessions from outside. Pure.
namespace millstream::engine {

// Between these, [from, to), lie the rows of `key`, and possibly some of keys that begin with it: ParseRowKey tells.
struct RowRange {
  Bytes from, to;
};
RowRange RowsOf(const spec::StoreSpec& store, std::string_view key);

// The store with this readable id, if it has windows or sessions; else nullptr.
const spec::StoreSpec* WindowedStore(const spec::StreamProcessorSpec& spec, size_t readable);

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_WINDOW_ROWS_H_
