#ifndef MILLSTREAM_CLI_CONFORM_WINDOW_ROWS_H_
#define MILLSTREAM_CLI_CONFORM_WINDOW_ROWS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/conform/notation.h"

// Rows of stores of windows and sessions as case files write them: KEY@START and KEY@START..END. The row keys are made
// here from docs/reference/protocol.md and not by the sidecar's own functions: the kit checks against the page. Pure
// functions, thread-safe.
namespace millstream::cli::conform {

// A store as WELCOME tells of it.
struct StoreShape {
  enum class Type { kKeyValue, kWindow, kSession };
  std::string name;
  Type type = Type::kKeyValue;
  int64_t size_ms = 0, advance_ms = 0;  // of windows

  bool windowed() const { return type != Type::kKeyValue; }
};

// Those of a WELCOME, by id.
std::vector<StoreShape> ShapesIn(const Json& welcome);
// That of an id; a store of plain keys for ids behind them.
const StoreShape& ShapeOf(const std::vector<StoreShape>& shapes, size_t id);
const StoreShape& ShapeOf(const std::vector<StoreShape>& shapes, std::string_view name);

// The key of a row. `end_ms` counts for sessions only.
std::string RowKey(const StoreShape& shape, std::string_view key, int64_t start_ms, int64_t end_ms);

// The key that `notation` names in such a store: KEY@START, KEY@START..END, or of a store of plain keys the bytes.
// Error: InvalidArgument.
absl::StatusOr<std::string> ReadRow(const StoreShape& shape, const Json& notation);
// The reverse, the one form of it. Bytes that are no row key of the store are shown as bytes.
Json ShowRow(const StoreShape& shape, std::string_view row);
// Whether the store can have such a row: of windows one that begins at a multiple of the advance.
bool IsRow(const StoreShape& shape, std::string_view row);

}  // namespace millstream::cli::conform

#endif  // MILLSTREAM_CLI_CONFORM_WINDOW_ROWS_H_
