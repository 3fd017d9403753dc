#ifndef MILLSTREAM_SIDECAR_STORE_TIMED_VALUE_H_
#define MILLSTREAM_SIDECAR_STORE_TIMED_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/bytes.h"
#include "common/base/status.h"

// How rows of a timed store (StoreDefinition::timed) lie in it: the time of their last write, milliseconds since 1970
// as a signed 64-bit big-endian integer, then the value. TaskStore keeps and gives such rows as they are: whoever
// writes to a timed store puts the time in front, whoever reads takes it off. In the changelog the value is bare and
// the time is the record's.
namespace millstream::store {

inline constexpr size_t kTimeBytes = 8;

inline Bytes TimedValue(int64_t written_ms, std::string_view value) {
  Bytes row;
  row.reserve(kTimeBytes + value.size());
  AppendBigEndian64(static_cast<uint64_t>(written_ms), &row);
  row.append(value);
  return row;
}

struct TimedRow {
  int64_t written_ms = 0;
  std::string_view value;
};
// The view points into `row`. Precondition: it is of a timed store (the stamp of the database says so).
inline TimedRow ParseTimedValue(std::string_view row) {
  MS_CHECK(row.size() >= kTimeBytes);
  return {static_cast<int64_t>(ReadBigEndian64(row)), row.substr(kTimeBytes)};
}

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_TIMED_VALUE_H_
