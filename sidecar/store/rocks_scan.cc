#include "sidecar/store/rocks_scan.h"

#include <memory>

#include "sidecar/store/rocks_status.h"

namespace millstream::store {
namespace {

// The range in the order of travel: what is below and above is never looked at.
void SeekToStart(rocksdb::Iterator* row, const ScanRequest& request) {
  if (!request.after) {
    request.reverse ? row->SeekToLast() : row->SeekToFirst();
    return;
  }
  // `after` may lie outside of the range: RocksDB moves a seek to the bounds.
  if (request.reverse) {
    row->SeekForPrev(*request.after);
    if (row->Valid() && row->key() == *request.after) row->Prev();
  } else {
    row->Seek(*request.after);
    if (row->Valid() && row->key() == *request.after) row->Next();
  }
}

}  // namespace

absl::StatusOr<ScanPage> ScanFamily(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, const ScanRequest& request,
                                    const std::string& path) {
  if (request.from && request.to && *request.to <= *request.from) return ScanPage();
  rocksdb::ReadOptions options;
  rocksdb::Slice low, high;
  if (request.from) options.iterate_lower_bound = &(low = *request.from);
  if (request.to) options.iterate_upper_bound = &(high = *request.to);
  // A forward seek from beyond the upper bound, or a backward one from below the lower bound, finds nothing.
  if (request.after && !request.reverse && request.to && *request.after >= *request.to) return ScanPage();
  if (request.after && request.reverse && request.from && *request.after <= *request.from) return ScanPage();

  ScanPage page;
  size_t bytes = 0;
  std::unique_ptr<rocksdb::Iterator> row(db->NewIterator(options, family));
  for (SeekToStart(row.get(), request); row->Valid(); request.reverse ? row->Prev() : row->Next()) {
    const size_t size = row->key().size() + row->value().size();
    if (!page.rows.empty() && (page.rows.size() >= request.max_rows || bytes + size > request.max_bytes)) {
      page.more = true;
      break;
    }
    page.rows.emplace_back(Bytes(row->key().data(), row->key().size()),
                           Bytes(row->value().data(), row->value().size()));
    bytes += size;
  }
  if (!row->status().ok()) return FromRocks(row->status(), "scan", path);
  return page;
}

}  // namespace millstream::store
