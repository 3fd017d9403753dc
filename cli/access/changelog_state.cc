#include "cli/access/changelog_state.h"

#include <map>
#include <utility>

#include "cli/access/state_rows.h"
#include "cli/tools/read_range.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/host/offline_state.h"

namespace millstream::cli {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;

class ChangelogState : public ProcessorBackend {
 public:
  ChangelogState(log::Log* log, std::optional<spec::StreamProcessorSpec> processor)
      : log_(log), processor_(std::move(processor)) {}

  absl::StatusOr<std::vector<StateRow>> GetState(const StateQuery& query) override {
    MS_ASSIGN_OR_RETURN(const Changelog changelog, Find(query));
    const int32_t task = host::TaskOfKey(*processor_, changelog.tasks, query.key).value();
    if (changelog.windowed != nullptr) return GetWindows(changelog, task, query);
    MaybeBytes value;
    MS_RETURN_IF_ERROR(Read(changelog, task, [&](log::Record record) {
      if (record.key == query.key) value = std::move(record.value);
      return absl::OkStatus();
    }));
    if (!value.has_value()) return absl::NotFoundError(StrCat("no such key in store ", query.store));
    return std::vector<StateRow>{{.task = task, .key = query.key, .value = *std::move(value), .window = {}}};
  }

  absl::StatusOr<std::vector<StateRow>> ScanState(const StateQuery& query) override {
    MS_ASSIGN_OR_RETURN(const Changelog changelog, Find(query));
    std::vector<StateRow> rows;
    for (int32_t task = 0; task < changelog.tasks && rows.size() < query.limit; ++task) {
      MS_ASSIGN_OR_RETURN(Compacted state, ReadCompacted(changelog, task, query));
      const auto take = [&](auto& row) {
        if (rows.size() < query.limit)
          rows.push_back(RowOf(changelog.windowed, task, row.first, std::move(row.second)));
      };
      if (query.reverse) {
        for (auto row = state.rbegin(); row != state.rend(); ++row) take(*row);
      } else {
        for (auto& row : state) take(row);
      }
    }
    return rows;
  }

  absl::StatusOr<std::vector<TaskRow>> ListTasks(const std::string&) override { return AskThere(); }
  absl::StatusOr<std::vector<int32_t>> RestartTasks(const std::string&, const std::vector<int32_t>&) override {
    return AskThere();
  }

 private:
  using Compacted = std::map<Bytes, Bytes>;
  struct Changelog {
    std::string topic;
    int tasks = 0;
    const spec::StoreSpec* windowed = nullptr;  // the store, if it has windows or sessions
  };

  static absl::Status AskThere() {
    return absl::UnimplementedError(
        "tasks are known to the process that runs them: ask it (GET /v1/tasks), or use `millstream lag`");
  }

  absl::StatusOr<Changelog> Find(const StateQuery& query) const {
    if (!processor_.has_value())
      return absl::InvalidArgumentError("which processor? Give its manifest with --manifest FILE");
    const spec::StoreSpec* store = processor_->FindStore(query.store);
    if (store == nullptr) {
      std::string names;
      for (const spec::StoreSpec& other : processor_->stores) StrAppend(&names, names.empty() ? "" : ", ", other.name);
      return absl::NotFoundError(StrCat("no store ", query.store, "; there are: ", names.empty() ? "none" : names));
    }
    if (!store->changelog.enabled) {
      return absl::FailedPreconditionError(
          StrCat("store ", query.store, " has no changelog: its state is only where the processor runs"));
    }
    const absl::StatusOr<log::TopicInfo> info = log_->admin().DescribeTopic(store->changelog.topic);
    if (absl::IsNotFound(info.status())) {
      return absl::NotFoundError(StrCat("there is no changelog topic ", store->changelog.topic, ": processor ",
                                        processor_->QualifiedName(), " has never run on this Kafka"));
    }
    MS_RETURN_IF_ERROR(info.status());
    const bool windowed = store->type != spec::StoreType::kKeyValue;
    return Changelog{store->changelog.topic, info->partitions, windowed ? store : nullptr};
  }

  absl::StatusOr<std::vector<StateRow>> GetWindows(const Changelog& changelog, int32_t task, StateQuery query) const {
    engine::RowRange range = engine::RowsOf(*changelog.windowed, query.key);
    query.from = std::move(range.from);
    query.to = std::move(range.to);
    MS_ASSIGN_OR_RETURN(Compacted state, ReadCompacted(changelog, task, query));
    std::vector<StateRow> rows;
    for (auto& [key, value] : state) rows.push_back(RowOf(changelog.windowed, task, key, std::move(value)));
    return WindowsOfKey(query, std::move(rows));
  }

  template <typename Take>
  absl::Status Read(const Changelog& changelog, int32_t task, const Take& take) const {
    const TopicPartition of{changelog.topic, Partition(task)};
    MS_ASSIGN_OR_RETURN(const Range range, StableRange(log_, of));
    return ReadRange(log_, of, range, [&](std::vector<log::Record> records) {
      for (log::Record& record : records) {
        if (record.key.has_value()) MS_RETURN_IF_ERROR(take(std::move(record)));
      }
      return absl::OkStatus();
    });
  }

  absl::StatusOr<Compacted> ReadCompacted(const Changelog& changelog, int32_t task, const StateQuery& query) const {
    Compacted state;
    int64_t bytes = 0;
    MS_RETURN_IF_ERROR(Read(changelog, task, [&](log::Record record) -> absl::Status {
      Bytes& key = *record.key;
      if ((query.from && key < *query.from) || (query.to && key >= *query.to)) return absl::OkStatus();
      if (const auto old = state.find(key); old != state.end()) {
        bytes -= static_cast<int64_t>(key.size() + old->second.size());
        state.erase(old);
      }
      if (!record.value.has_value()) return absl::OkStatus();
      bytes += static_cast<int64_t>(key.size() + record.value->size());
      state.emplace(std::move(key), *std::move(record.value));
      if (bytes <= kMostBytes) return absl::OkStatus();
      return absl::ResourceExhaustedError(StrCat("task ", task, " of store ", query.store,
                                                 " holds more than 1 GiB in this range: narrow it with --from, --to or "
                                                 "--prefix"));
    }));
    return state;
  }

  log::Log* const log_;
  const std::optional<spec::StreamProcessorSpec> processor_;
};

}  // namespace

std::unique_ptr<ProcessorBackend> NewChangelogState(log::Log* log, std::optional<spec::StreamProcessorSpec> processor) {
  return std::make_unique<ChangelogState>(log, std::move(processor));
}

}  // namespace millstream::cli
