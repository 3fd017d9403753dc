#include "sidecar/engine/testing/memory_disk.h"

#include "common/base/status.h"

namespace millstream::engine::testing {

KeysRead MemoryDisk::Read(const ReadKeys& read) {
  const Rows& rows = stores_[read.store];
  KeysRead answer{read.read, absl::OkStatus(), {}};
  for (const Bytes& key : read.keys) {
    const auto row = rows.find(key);
    answer.values.push_back(row == rows.end() ? MaybeBytes() : MaybeBytes(row->second));
  }
  return answer;
}

RangeScanned MemoryDisk::Scan(const ScanRange& scan) {
  MS_CHECK(!scan.range.reverse);
  const Rows& rows = stores_[scan.range.store];
  RangeScanned answer{scan.read, absl::OkStatus(), {}};
  auto row = scan.range.from ? rows.lower_bound(*scan.range.from) : rows.begin();
  if (scan.range.after && (row == rows.end() || row->first <= *scan.range.after))
    row = rows.upper_bound(*scan.range.after);
  for (; row != rows.end() && (!scan.range.to || row->first < *scan.range.to); ++row) {
    answer.page.more = answer.page.rows.size() == scan.range.max_rows;
    if (answer.page.more) break;
    answer.page.rows.push_back(*row);
  }
  return answer;
}

StateApplied MemoryDisk::Apply(const ApplyState& apply) {
  for (const store::StoreWrite& write : apply.writes) {
    if (write.value) {
      stores_[write.store].insert_or_assign(write.key, *write.value);
    } else {
      stores_[write.store].erase(write.key);
    }
  }
  return {apply.apply, absl::OkStatus()};
}

}  // namespace millstream::engine::testing
