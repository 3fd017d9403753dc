#ifndef MILLSTREAM_CLI_ACCESS_STATE_ROWS_H_
#define MILLSTREAM_CLI_ACCESS_STATE_ROWS_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/access/log_access.h"
#include "common/base/strings.h"
#include "sidecar/engine/window_rows.h"

// Internal to this folder: rows as stores have them to rows as people ask for them.
namespace millstream::cli {

// `windowed`: the store, if it has windows or sessions: their times are then taken out of the key.
inline StateRow RowOf(const spec::StoreSpec* windowed, int32_t task, const Bytes& key, Bytes value) {
  StateRow row{.task = task, .key = key, .value = std::move(value), .window = {}};
  if (windowed == nullptr) return row;
  if (const std::optional<engine::RowParts> parts = engine::ParseRowKey(*windowed, key)) {
    row.window = {parts->bounds.start, parts->bounds.end};
    row.key = Bytes(parts->key);
  }
  return row;
}

// What of `rows`, read between engine::RowsOf(query.key), is of that key, ascending by time. NOT_FOUND if nothing is.
inline absl::StatusOr<std::vector<StateRow>> WindowsOfKey(const StateQuery& query, std::vector<StateRow> rows) {
  std::erase_if(rows, [&](const StateRow& row) { return !row.window || row.key != query.key; });
  if (rows.empty()) return absl::NotFoundError(StrCat("no such key in store ", query.store));
  std::sort(rows.begin(), rows.end(),
            [](const StateRow& a, const StateRow& b) { return a.window->start_ms < b.window->start_ms; });
  return rows;
}

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_ACCESS_STATE_ROWS_H_
