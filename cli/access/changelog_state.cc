#include "cli/access/changelog_state.h"

#include <limits>
#include <utility>

#include "cli/access/state_rows.h"
#include "cli/access/topic_table.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/host/offline_state.h"

namespace millstream::cli {
namespace {

class ChangelogState : public ProcessorBackend {
 public:
  ChangelogState(log::Log* log, std::optional<spec::StreamProcessorSpec> processor)
      : log_(log), processor_(std::move(processor)) {}

  absl::StatusOr<std::vector<StateRow>> GetState(const StateQuery& query) override {
    MS_ASSIGN_OR_RETURN(const Source source, Find(query));
    const int32_t task = host::TaskOfKey(*processor_, source.partitions, query.key).value();
    if (source.windowed != nullptr) return GetWindows(source, task, query);
    MaybeBytes value;
    // Where a key of a lookup is, only who writes its topic knows.
    for (int32_t partition = 0; partition < source.partitions; ++partition) {
      if (!source.lookup && partition != task) continue;
      MS_RETURN_IF_ERROR(ReadKeyed(log_, {source.topic, Partition(partition)}, [&](log::Record record) {
        if (record.key == query.key) value = std::move(record.value);
        return absl::OkStatus();
      }));
    }
    if (!value.has_value()) return absl::NotFoundError(StrCat("no such key in store ", query.store));
    return std::vector<StateRow>{{.task = task, .key = query.key, .value = *std::move(value), .window = {}}};
  }

  absl::StatusOr<std::vector<StateRow>> ScanState(const StateQuery& query) override {
    MS_ASSIGN_OR_RETURN(const Source source, Find(query));
    std::vector<StateRow> rows;
    if (source.lookup) {  // the same in every task
      TopicTable table(query.store, query);
      for (int32_t partition = 0; partition < source.partitions; ++partition)
        MS_RETURN_IF_ERROR(table.Add(log_, {source.topic, Partition(partition)}));
      table.Take(nullptr, 0, &rows);
      return rows;
    }
    for (int32_t task = 0; task < source.partitions && rows.size() < query.limit; ++task) {
      const std::string whose = StrCat("task ", task, " of store ", query.store);
      TopicTable table(whose, query);
      MS_RETURN_IF_ERROR(table.Add(log_, {source.topic, Partition(task)}));
      table.Take(source.windowed, task, &rows);
    }
    return rows;
  }

  absl::StatusOr<std::vector<TaskRow>> ListTasks(const std::string&) override { return AskThere(); }
  absl::StatusOr<std::vector<int32_t>> RestartTasks(const std::string&, const std::vector<int32_t>&) override {
    return AskThere();
  }

 private:
  // The topic that holds a store, a join or a lookup.
  struct Source {
    std::string topic;
    int partitions = 0;
    const spec::StoreSpec* windowed = nullptr;  // the store, if it has windows or sessions
    bool lookup = false;
  };

  static absl::Status AskThere() {
    return absl::UnimplementedError(
        "tasks are known to the process that runs them: ask it (GET /v1/tasks), or use `millstream lag`");
  }

  absl::StatusOr<Source> Find(const StateQuery& query) const {
    if (!processor_.has_value())
      return absl::InvalidArgumentError("which processor? Give its manifest with --manifest FILE");
    std::string names;
    for (const spec::StoreSpec& store : processor_->stores) {
      if (store.name == query.store) return FindChangelog(store);
      StrAppend(&names, names.empty() ? "" : ", ", store.name);
    }
    for (const auto* tables : {&processor_->joins, &processor_->lookups}) {
      for (const spec::TableSpec& table : *tables) {
        if (table.name == query.store) return FindTable(table, tables == &processor_->lookups);
        StrAppend(&names, names.empty() ? "" : ", ", table.name);
      }
    }
    return absl::NotFoundError(StrCat("no store ", query.store, "; there are: ", names.empty() ? "none" : names));
  }

  absl::StatusOr<Source> FindChangelog(const spec::StoreSpec& store) const {
    if (!store.changelog.enabled) {
      return absl::FailedPreconditionError(
          StrCat("store ", store.name, " has no changelog: its state is only where the processor runs"));
    }
    const absl::StatusOr<log::TopicInfo> info = log_->admin().DescribeTopic(store.changelog.topic);
    if (absl::IsNotFound(info.status())) {
      return absl::NotFoundError(StrCat("there is no changelog topic ", store.changelog.topic, ": processor ",
                                        processor_->QualifiedName(), " has never run on this Kafka"));
    }
    MS_RETURN_IF_ERROR(info.status());
    const bool windowed = store.type != spec::StoreType::kKeyValue;
    return Source{store.changelog.topic, info->partitions, windowed ? &store : nullptr, false};
  }

  absl::StatusOr<Source> FindTable(const spec::TableSpec& table, bool lookup) const {
    MS_ASSIGN_OR_RETURN(const log::TopicInfo info, log_->admin().DescribeTopic(table.topic));
    return Source{table.topic, info.partitions, nullptr, lookup};
  }

  absl::StatusOr<std::vector<StateRow>> GetWindows(const Source& source, int32_t task, StateQuery query) const {
    engine::RowRange range = engine::RowsOf(*source.windowed, query.key);
    query.from = std::move(range.from);
    query.to = std::move(range.to);
    query.reverse = false;
    query.limit = std::numeric_limits<size_t>::max();
    const std::string whose = StrCat("key of store ", query.store);
    TopicTable table(whose, query);
    MS_RETURN_IF_ERROR(table.Add(log_, {source.topic, Partition(task)}));
    std::vector<StateRow> rows;
    table.Take(source.windowed, task, &rows);
    return WindowsOfKey(query, std::move(rows));
  }

  log::Log* const log_;
  const std::optional<spec::StreamProcessorSpec> processor_;
};

}  // namespace

std::unique_ptr<ProcessorBackend> NewChangelogState(log::Log* log, std::optional<spec::StreamProcessorSpec> processor) {
  return std::make_unique<ChangelogState>(log, std::move(processor));
}

}  // namespace millstream::cli
