#include "cli/access/topic_table.h"

#include <utility>
#include <vector>

#include "cli/access/state_rows.h"
#include "cli/tools/read_range.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {

absl::Status ReadKeyed(log::Log* log, const TopicPartition& of, const std::function<absl::Status(log::Record)>& take) {
  MS_ASSIGN_OR_RETURN(const Range range, StableRange(log, of));
  return ReadRange(log, of, range, [&](std::vector<log::Record> records) {
    for (log::Record& record : records) {
      if (record.key.has_value()) MS_RETURN_IF_ERROR(take(std::move(record)));
    }
    return absl::OkStatus();
  });
}

absl::Status TopicTable::Add(log::Log* log, const TopicPartition& of) {
  return ReadKeyed(log, of, [this](log::Record record) -> absl::Status {
    Bytes& key = *record.key;
    if ((query_.from && key < *query_.from) || (query_.to && key >= *query_.to)) return absl::OkStatus();
    if (const auto old = rows_.find(key); old != rows_.end()) {
      bytes_ -= static_cast<int64_t>(key.size() + old->second.size());
      rows_.erase(old);
    }
    if (!record.value.has_value()) return absl::OkStatus();
    bytes_ += static_cast<int64_t>(key.size() + record.value->size());
    rows_.emplace(std::move(key), *std::move(record.value));
    if (bytes_ <= kMostBytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        StrCat(whose_, " holds more than 1 GiB in this range: narrow it with --from, --to or --prefix"));
  });
}

void TopicTable::Take(const spec::StoreSpec* windowed, int32_t task, std::vector<StateRow>* rows) {
  const auto take = [&](auto& row) {
    if (rows->size() < query_.limit) rows->push_back(RowOf(windowed, task, row.first, std::move(row.second)));
  };
  if (query_.reverse) {
    for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) take(*row);
  } else {
    for (auto& row : rows_) take(row);
  }
}

}  // namespace millstream::cli
