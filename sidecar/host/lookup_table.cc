#include "sidecar/host/lookup_table.h"

#include <utility>

#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/store/restore.h"

namespace millstream::host {
namespace {

// What a kill -9 costs to read again.
constexpr int64_t kMostUnflushed = 8 << 20;

// The positions of partitions are kept where a task has those of its inputs.
std::string PositionName(int partition) { return StrCat(partition); }

}  // namespace

std::vector<store::StoreWrite> TableWrites(store::StoreIndex store, std::vector<log::Record> records) {
  std::vector<store::StoreWrite> writes;
  writes.reserve(records.size());
  for (log::Record& record : records) {
    if (record.key) writes.push_back({store, *std::move(record.key), std::move(record.value)});
  }
  return writes;
}

absl::StatusOr<std::unique_ptr<LookupTable>> LookupTable::Open(store::StateEnvironment* environment,
                                                               const std::string& directory,
                                                               LookupDefinition definition, const Clock* clock) {
  std::unique_ptr<LookupTable> table(new LookupTable(std::move(definition), clock));
  store::TaskIdentity identity{.group = table->definition_.group, .task = TaskId(0), .stores = {}};
  store::StoreDefinition store;
  store.name = table->definition_.name;
  store.changelog_topic = table->definition_.topic;
  store.changelog_topic_id = table->definition_.topic_id;
  store.foreign = true;
  identity.stores.push_back(std::move(store));
  absl::StatusOr<std::unique_ptr<store::TaskStore>> opened = store::TaskStore::Open(environment, directory, identity);
  if (!opened.ok()) return Annotate(opened.status(), StrCat("lookup ", table->definition_.name));
  table->store_ = *std::move(opened);
  if (!table->store_->wiped_reason().empty()) {
    LogWarning("a lookup on disk was not usable: wiped, read again",
               {{"lookup", table->definition_.name}, {"reason", table->store_->wiped_reason()}});
  }
  return table;
}

bool LookupTable::Empty() const {
  store::ScanRequest any;
  any.max_rows = 1;
  const absl::StatusOr<store::ScanPage> page = store_->Scan(any);
  return page.ok() && page->rows.empty();
}

std::string LookupTable::WhyWipe(const std::vector<Span>& in_topic, int64_t delete_retention_ms, bool empty) const {
  const store::Positions positions = store_->positions();
  if (positions.inputs.empty()) return empty ? "" : "it has rows but no position";
  for (size_t partition = 0; partition < in_topic.size(); ++partition) {
    const auto stored = positions.inputs.find(PositionName(static_cast<int>(partition)));
    if (stored == positions.inputs.end()) continue;  // a partition that is new
    const std::string where = StrCat("position ", stored->second.value(), " in partition ", partition);
    if (stored->second < in_topic[partition].next)
      return StrCat(where, " is before the log start ", in_topic[partition].next.value());
    if (stored->second > in_topic[partition].end)
      return StrCat(where, " is beyond the log end ", in_topic[partition].end.value());
  }
  if (clock_->WallMillis() - positions.wall_ms > delete_retention_ms)
    return StrCat("it is older than delete.retention.ms ", delete_retention_ms, " of its topic");
  return "";
}

absl::StatusOr<std::vector<LookupTable::Span>> LookupTable::Resume(log::Admin& admin) {
  MS_ASSIGN_OR_RETURN(const log::TopicInfo info, admin.DescribeTopic(definition_.topic));
  std::vector<Span> spans;
  for (int partition = 0; partition < definition_.partitions; ++partition) {
    const TopicPartition of{definition_.topic, Partition(partition)};
    Span span;
    MS_ASSIGN_OR_RETURN(span.next, admin.StartOffset(of));
    // Others' transactions may be open for long: what is committed now is what the table has to hold.
    MS_ASSIGN_OR_RETURN(span.end, admin.EndOffset(of, log::Isolation::kReadCommitted));
    spans.push_back(span);
  }
  const std::string why = WhyWipe(spans, store::DeleteRetentionMs(info), Empty());
  if (!why.empty()) {
    LogWarning("a lookup on disk cannot be continued: wiped, read again",
               {{"lookup", definition_.name}, {"topic", definition_.topic}, {"reason", why}});
    MS_RETURN_IF_ERROR(store_->Wipe());
  }
  const store::Positions positions = store_->positions();
  for (int partition = 0; partition < definition_.partitions; ++partition) {
    const auto stored = positions.inputs.find(PositionName(partition));
    if (stored != positions.inputs.end()) spans[static_cast<size_t>(partition)].next = stored->second;
  }
  return spans;
}

absl::Status LookupTable::Apply(int partition, std::vector<log::Record> records, Offset next) {
  const std::vector<store::StoreWrite> writes = TableWrites(0, std::move(records));
  store::Positions positions;
  positions.inputs[PositionName(partition)] = next;
  positions.wall_ms = clock_->WallMillis();
  MS_RETURN_IF_ERROR(store_->Apply(writes, positions));
  return store_->UnflushedBytes() > kMostUnflushed ? store_->Flush() : absl::OkStatus();
}

absl::Status LookupTable::Touch() {
  MS_RETURN_IF_ERROR(store_->Touch(clock_->WallMillis()));
  return store_->Flush();
}

}  // namespace millstream::host
