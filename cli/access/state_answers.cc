#include "cli/access/state_answers.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cli/access/state_rows.h"
#include "cli/access/topic_table.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/host/offline_state.h"

namespace millstream::cli {
namespace {

constexpr absl::Duration kAnswerDeadline = absl::Seconds(30);
constexpr size_t kMostRowsOfKey = 100'000;  // of a store with windows, those of longer keys between them included

std::string Listed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) StrAppend(&list, list.empty() ? "" : ", ", name);
  return list.empty() ? "none" : list;
}

// Which of `names` (namespace/name) is meant by `wanted`: the whole name, or the part behind the slash. Empty: the only
// one.
absl::StatusOr<size_t> ChooseProcessor(const std::vector<std::string>& names, const std::string& wanted) {
  if (wanted.empty()) {
    if (names.size() == 1) return 0;
    if (names.empty()) return absl::NotFoundError("no processor has run on this data folder yet");
    return absl::InvalidArgumentError(
        StrCat("there are several processors (", Listed(names), "); choose one with --processor"));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == wanted || names[i].substr(names[i].find('/') + 1) == wanted) return i;
  }
  return absl::NotFoundError(StrCat("no processor ", wanted, "; there are: ", Listed(names)));
}

absl::StatusOr<store::StoreIndex> ChooseStore(const std::vector<std::string>& names, const std::string& wanted) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == wanted) return static_cast<store::StoreIndex>(i);
  }
  return absl::NotFoundError(StrCat("no store ", wanted, "; there are: ", Listed(names)));
}

// Waits for an answer that comes on another thread; outlives a caller that gave up.
template <typename T>
class Promise {
 public:
  void Set(absl::StatusOr<T> value) {
    absl::MutexLock lock(&mutex_);
    value_ = std::move(value);
    done_ = true;
  }
  absl::StatusOr<T> Wait() {
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(absl::Condition(&done_), kAnswerDeadline)) {
      return absl::DeadlineExceededError("the processor did not answer within 30 s; look at its log");
    }
    return std::move(value_);
  }

 private:
  absl::Mutex mutex_;
  bool done_ = false;
  absl::StatusOr<T> value_ = absl::UnknownError("no answer");
};

store::ScanRequest FirstPage(const StateQuery& query, store::StoreIndex store) {
  store::ScanRequest request;
  request.store = store;
  request.from = query.from;
  request.to = query.to;
  request.reverse = query.reverse;
  return request;
}

// Reads pages of one task until it ends or `rows` has `limit`.
template <typename ReadPage>
absl::Status ScanTask(TaskId task, const spec::StoreSpec* windowed, store::ScanRequest request, size_t limit,
                      ReadPage read_page, std::vector<StateRow>* rows) {
  while (rows->size() < limit) {
    request.max_rows = std::min<size_t>(limit - rows->size(), 10'000);
    MS_ASSIGN_OR_RETURN(store::ScanPage page, read_page(request));
    for (auto& [key, value] : page.rows) {
      request.after = key;
      rows->push_back(RowOf(windowed, task.value(), key, std::move(value)));
    }
    if (!page.more || page.rows.empty()) return absl::OkStatus();
  }
  return absl::OkStatus();
}

// The windows of one key, in its task.
template <typename ReadPage>
absl::StatusOr<std::vector<StateRow>> GetWindows(TaskId task, const spec::StoreSpec& windowed, store::StoreIndex store,
                                                 StateQuery query, ReadPage read_page) {
  engine::RowRange range = engine::RowsOf(windowed, query.key);
  query.from = std::move(range.from);
  query.to = std::move(range.to);
  query.reverse = false;
  std::vector<StateRow> rows;
  MS_RETURN_IF_ERROR(ScanTask(task, &windowed, FirstPage(query, store), kMostRowsOfKey, read_page, &rows));
  return WindowsOfKey(query, std::move(rows));
}

absl::Status NoSuchKey(const std::string& store) { return absl::NotFoundError(StrCat("no such key in store ", store)); }

class RunningState : public ProcessorBackend {
 public:
  explicit RunningState(std::vector<RunningProcessor> processors) : processors_(std::move(processors)) {
    for (const RunningProcessor& processor : processors_) names_.push_back(processor.name);
  }

  absl::StatusOr<std::vector<StateRow>> GetState(const StateQuery& query) override {
    MS_ASSIGN_OR_RETURN(const size_t chosen, ChooseProcessor(names_, query.processor));
    server::QueryBackend* queries = processors_[chosen].queries;
    MS_ASSIGN_OR_RETURN(const store::StoreIndex store, ChooseStore(queries->Stores(), query.store));
    if (const spec::StoreSpec* windowed = queries->Windowed(store)) {
      const TaskId task = queries->TaskOf(query.key);
      return GetWindows(task, *windowed, store, query, PagesOf(queries, task));
    }
    auto promise = std::make_shared<Promise<server::KeyAnswer>>();
    queries->GetKey(store, query.key, std::nullopt,
                    [promise](absl::StatusOr<server::KeyAnswer> answer) { promise->Set(std::move(answer)); });
    MS_ASSIGN_OR_RETURN(server::KeyAnswer answer, promise->Wait());
    if (!answer.value.has_value()) return NoSuchKey(query.store);
    return std::vector<StateRow>{
        {.task = answer.source.task.value(), .key = query.key, .value = *std::move(answer.value), .window = {}}};
  }

  absl::StatusOr<std::vector<StateRow>> ScanState(const StateQuery& query) override {
    MS_ASSIGN_OR_RETURN(const size_t chosen, ChooseProcessor(names_, query.processor));
    server::QueryBackend* queries = processors_[chosen].queries;
    MS_ASSIGN_OR_RETURN(const store::StoreIndex store, ChooseStore(queries->Stores(), query.store));
    std::vector<StateRow> rows;
    // Every task, not only the readable ones: what is missing must be an error, not a shorter list.
    const std::vector<TaskId> whole = {TaskId(0)};  // a lookup is the same in every task
    for (const TaskId task : queries->IsLookup(store) ? whole : processors_[chosen].tasks) {
      MS_RETURN_IF_ERROR(ScanTask(task, queries->Windowed(store), FirstPage(query, store), query.limit,
                                  PagesOf(queries, task), &rows));
    }
    return rows;
  }

  absl::StatusOr<std::vector<TaskRow>> ListTasks(const std::string& processor) override {
    std::vector<TaskRow> rows;
    if (!processor.empty()) {
      MS_ASSIGN_OR_RETURN(const size_t chosen, ChooseProcessor(names_, processor));
      AppendTasks(processors_[chosen], &rows);
      return rows;
    }
    for (const RunningProcessor& running : processors_) AppendTasks(running, &rows);
    return rows;
  }

  absl::StatusOr<std::vector<int32_t>> RestartTasks(const std::string& processor,
                                                    const std::vector<int32_t>& tasks) override {
    MS_ASSIGN_OR_RETURN(const size_t chosen, ChooseProcessor(names_, processor));
    std::vector<TaskRow> rows;
    AppendTasks(processors_[chosen], &rows);
    for (const int32_t task : tasks) {
      const auto row =
          std::find_if(rows.begin(), rows.end(), [task](const TaskRow& each) { return each.task == task; });
      if (row == rows.end()) {
        return absl::NotFoundError(StrCat("there is no task ", task, "; see `millstream tasks list`"));
      }
      if (row->state != "stopped") {
        return absl::FailedPreconditionError(StrCat("task ", task, " is not stopped, it is ", row->state));
      }
    }
    std::vector<int32_t> restarted;
    for (const TaskRow& row : rows) {
      const bool wanted = tasks.empty() || std::find(tasks.begin(), tasks.end(), row.task) != tasks.end();
      if (row.state != "stopped" || !wanted) continue;
      processors_[chosen].restart(TaskId(row.task));
      restarted.push_back(row.task);
    }
    return restarted;
  }

  absl::Status SetPaused(const std::string& processor, bool paused) override {
    MS_ASSIGN_OR_RETURN(const size_t chosen, ChooseProcessor(names_, processor));
    processors_[chosen].pause(paused);
    return absl::OkStatus();
  }

 private:
  static std::function<absl::StatusOr<store::ScanPage>(const store::ScanRequest&)> PagesOf(
      server::QueryBackend* queries, TaskId task) {
    return [queries, task](const store::ScanRequest& request) -> absl::StatusOr<store::ScanPage> {
      auto promise = std::make_shared<Promise<server::ScanAnswer>>();
      queries->Scan(task, request,
                    [promise](absl::StatusOr<server::ScanAnswer> answer) { promise->Set(std::move(answer)); });
      MS_ASSIGN_OR_RETURN(server::ScanAnswer answer, promise->Wait());
      return std::move(answer.page);
    };
  }

  static void AppendTasks(const RunningProcessor& running, std::vector<TaskRow>* rows) {
    for (const server::TaskReport& task : running.queries->Tasks().tasks) {
      TaskRow row;
      row.processor = running.name;
      row.task = task.task.value();
      row.state = task.state;
      row.records = task.records;
      row.error = task.error;
      for (const server::TaskReport::Input& input : task.inputs) {
        if (input.end == kNoOffset || input.committed == kNoOffset) continue;
        row.lag += std::max<int64_t>(input.end - input.committed, 0);
      }
      rows->push_back(std::move(row));
    }
  }

  const std::vector<RunningProcessor> processors_;
  std::vector<std::string> names_;
};

class OfflineState : public ProcessorBackend {
 public:
  OfflineState(const host::DataFolder* folder, log::EmbeddedLog* log) : folder_(folder), log_(log) {}

  absl::StatusOr<std::vector<StateRow>> GetState(const StateQuery& query) override {
    MS_ASSIGN_OR_RETURN(const spec::StreamProcessorSpec processor, Choose(query));
    if (const spec::TableSpec* lookup = LookupOf(processor, query.store)) return GetLookup(*lookup, query);
    MS_ASSIGN_OR_RETURN(const auto reader, host::OfflineReader::Open(*folder_, log_, processor));
    MS_ASSIGN_OR_RETURN(const store::StoreIndex store, ChooseStore(NamesOf(*reader, processor), query.store));
    const TaskId task = reader->TaskOf(query.key);
    MS_ASSIGN_OR_RETURN(const host::OfflineTask state, reader->OpenTask(task));
    if (const spec::StoreSpec* windowed = reader->Windowed(store)) {
      return GetWindows(task, *windowed, store, query,
                        [&](const store::ScanRequest& request) { return state.Scan(request); });
    }
    MS_ASSIGN_OR_RETURN(MaybeBytes value, state.Get(store, query.key));
    if (!value.has_value()) return NoSuchKey(query.store);
    return std::vector<StateRow>{{.task = task.value(), .key = query.key, .value = *std::move(value), .window = {}}};
  }

  absl::StatusOr<std::vector<StateRow>> ScanState(const StateQuery& query) override {
    MS_ASSIGN_OR_RETURN(const spec::StreamProcessorSpec processor, Choose(query));
    if (const spec::TableSpec* lookup = LookupOf(processor, query.store)) return ScanLookup(*lookup, query);
    MS_ASSIGN_OR_RETURN(const auto reader, host::OfflineReader::Open(*folder_, log_, processor));
    MS_ASSIGN_OR_RETURN(const store::StoreIndex store, ChooseStore(NamesOf(*reader, processor), query.store));
    std::vector<StateRow> rows;
    for (int number = 0; number < reader->tasks() && rows.size() < query.limit; ++number) {
      MS_ASSIGN_OR_RETURN(const host::OfflineTask state, reader->OpenTask(TaskId(number)));
      const auto read_page = [&](const store::ScanRequest& request) { return state.Scan(request); };
      MS_RETURN_IF_ERROR(
          ScanTask(TaskId(number), reader->Windowed(store), FirstPage(query, store), query.limit, read_page, &rows));
    }
    return rows;
  }

  absl::StatusOr<std::vector<TaskRow>> ListTasks(const std::string&) override { return NothingRuns(); }
  absl::StatusOr<std::vector<int32_t>> RestartTasks(const std::string&, const std::vector<int32_t>&) override {
    return NothingRuns();
  }

 private:
  absl::Status NothingRuns() const {
    return absl::FailedPreconditionError(
        StrCat("nothing runs on ", folder_->path(), "; start it with `millstream run`"));
  }
  absl::StatusOr<spec::StreamProcessorSpec> Choose(const StateQuery& query) const {
    const std::vector<spec::Manifest> manifests = folder_->KnownProcessors();
    std::vector<std::string> names;
    for (const spec::Manifest& manifest : manifests) names.push_back(manifest.processor.QualifiedName());
    MS_ASSIGN_OR_RETURN(const size_t chosen, ChooseProcessor(names, query.processor));
    return manifests[chosen].processor;
  }
  static std::vector<std::string> NamesOf(const host::OfflineReader& reader,
                                          const spec::StreamProcessorSpec& processor) {
    std::vector<std::string> names = reader.Stores();
    for (const spec::TableSpec& lookup : processor.lookups) names.push_back(lookup.name);
    return names;
  }
  static const spec::TableSpec* LookupOf(const spec::StreamProcessorSpec& processor, const std::string& name) {
    for (const spec::TableSpec& lookup : processor.lookups) {
      if (lookup.name == name) return &lookup;
    }
    return nullptr;
  }

  // A lookup belongs to no task, and its copy on disk is as old as the last run: its topic has it all.
  absl::StatusOr<std::vector<StateRow>> GetLookup(const spec::TableSpec& lookup, const StateQuery& query) {
    MS_ASSIGN_OR_RETURN(const log::TopicInfo topic, log_->admin().DescribeTopic(lookup.topic));
    MaybeBytes value;
    for (int partition = 0; partition < topic.partitions; ++partition) {
      MS_RETURN_IF_ERROR(ReadKeyed(log_, {lookup.topic, Partition(partition)}, [&](log::Record record) {
        if (record.key == query.key) value = std::move(record.value);
        return absl::OkStatus();
      }));
    }
    if (!value.has_value()) return NoSuchKey(query.store);
    return std::vector<StateRow>{{.task = 0, .key = query.key, .value = *std::move(value), .window = {}}};
  }

  absl::StatusOr<std::vector<StateRow>> ScanLookup(const spec::TableSpec& lookup, const StateQuery& query) {
    MS_ASSIGN_OR_RETURN(const log::TopicInfo topic, log_->admin().DescribeTopic(lookup.topic));
    TopicTable table(query.store, query);
    for (int partition = 0; partition < topic.partitions; ++partition)
      MS_RETURN_IF_ERROR(table.Add(log_, {lookup.topic, Partition(partition)}));
    std::vector<StateRow> rows;
    table.Take(nullptr, 0, &rows);
    return rows;
  }

  const host::DataFolder* const folder_;
  log::EmbeddedLog* const log_;
};

}  // namespace

std::unique_ptr<ProcessorBackend> NewRunningState(std::vector<RunningProcessor> processors) {
  return std::make_unique<RunningState>(std::move(processors));
}

std::unique_ptr<ProcessorBackend> NewOfflineState(const host::DataFolder* folder, log::EmbeddedLog* log) {
  return std::make_unique<OfflineState>(folder, log);
}

}  // namespace millstream::cli
