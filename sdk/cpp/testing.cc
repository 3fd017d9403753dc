#include "millstream/testing.h"

#include <algorithm>
#include <tuple>
#include <variant>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sdk/cpp/app.h"
#include "sdk/cpp/batch_run.h"
#include "sdk/cpp/row_key.h"
#include "sdk/cpp/testing_time.h"
#include "sdk/cpp/testing_visits.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/frame.h"

namespace millstream::worker {
namespace {

constexpr int64_t kStart = 1'700'000'000'000;
constexpr std::string_view kLoop = "loop";
// Timers that make timers due, or records that come back through the loop, more often than this: it does not end.
constexpr int kMostRounds = 10'000;

std::optional<std::string> Owned(MaybeView view) {
  return view.has_value() ? std::optional<std::string>(*view) : std::nullopt;
}
MaybeView ViewOf(const std::optional<std::string>& text) { return text.has_value() ? MaybeView(*text) : std::nullopt; }

int64_t Or(int64_t value, int64_t otherwise) { return value > 0 ? value : otherwise; }

protocol::StoreInfo StoreOf(const TestWindows& windows, int64_t max_bytes) {
  protocol::StoreInfo store{windows.name, "Window", windows.prefetched, max_bytes};
  store.window = {windows.size_ms, Or(windows.advance_ms, windows.size_ms), windows.grace_ms,
                  Or(windows.retention_ms, windows.size_ms + windows.grace_ms), windows.final};
  return store;
}

protocol::StoreInfo StoreOf(const TestSessions& sessions, int64_t max_bytes) {
  protocol::StoreInfo store{sessions.name, "Session", sessions.prefetched, max_bytes};
  store.session = {sessions.gap_ms, sessions.grace_ms, Or(sessions.retention_ms, sessions.gap_ms + sessions.grace_ms),
                   sessions.final};
  return store;
}

// Beyond all of them: there is none of that name.
uint32_t StoreOf(const TestVisit& visit, const protocol::Welcome& welcome) {
  const auto& stores = welcome.stores;
  const auto found =
      std::find_if(stores.begin(), stores.end(), [&](const auto& store) { return store.name == visit.store; });
  return static_cast<uint32_t>(found - stores.begin());
}

protocol::Welcome WelcomeOf(const TestSetup& setup, const Program& program) {
  protocol::Welcome welcome;
  welcome.processor = "test";
  for (const auto& [input, handler] : program.inputs) welcome.inputs.push_back({input, input});
  for (const std::string& output : setup.outputs) welcome.outputs.push_back({output, output, setup.max_bytes});
  for (const std::string& store : setup.stores) welcome.stores.push_back({store, "KeyValue", true, setup.max_bytes});
  for (const std::string& store : setup.unfetched)
    welcome.stores.push_back({store, "KeyValue", false, setup.max_bytes});
  for (const TestWindows& windows : setup.windows) welcome.stores.push_back(StoreOf(windows, setup.max_bytes));
  for (const TestSessions& sessions : setup.sessions) welcome.stores.push_back(StoreOf(sessions, setup.max_bytes));
  for (const std::string& join : setup.joins) welcome.joins.push_back({join, join});
  for (const std::string& lookup : setup.lookups) welcome.lookups.push_back({lookup, lookup});
  welcome.timers = setup.timers;
  for (const TestVisit& visit : setup.visits) welcome.visits.push_back({visit.name, StoreOf(visit, welcome)});
  welcome.deadline_ms = 3'600'000;  // a debugger may stand still
  welcome.min_timestamp_ms = 0;
  welcome.max_timestamp_ms = 253'402'300'799'999;  // the end of the year 9999, as the sidecar has it
  return welcome;
}

absl::Status CheckSetup(const TestSetup& setup) {
  for (const TestWindows& windows : setup.windows) {
    if (windows.size_ms <= 0 || windows.advance_ms < 0 || windows.advance_ms > windows.size_ms)
      return absl::FailedPreconditionError(
          StrCat("windows \"", windows.name, "\": a size above 0, and an advance of at most that"));
  }
  for (const TestSessions& sessions : setup.sessions) {
    if (sessions.gap_ms <= 0)
      return absl::FailedPreconditionError(StrCat("sessions \"", sessions.name, "\": a gap above 0"));
  }
  for (const TestVisit& visit : setup.visits) {
    const auto names = [&](const std::vector<std::string>& stores) {
      return std::find(stores.begin(), stores.end(), visit.store) != stores.end();
    };
    if (!names(setup.stores) && !names(setup.unfetched)) {
      return absl::FailedPreconditionError(
          StrCat("visit \"", visit.name, "\" walks store \"", visit.store, "\", which is not among the stores"));
    }
  }
  return absl::OkStatus();
}

std::vector<int64_t> LatenessOf(const TestSetup& setup, const protocol::Welcome& welcome) {
  std::vector<int64_t> lateness;
  for (const protocol::NamedTopic& input : welcome.inputs) {
    const auto found = setup.lateness_ms.find(input.name);
    lateness.push_back(found == setup.lateness_ms.end() ? 0 : found->second);
  }
  return lateness;
}

// A record on its way through the kit.
struct KitRecord {
  uint32_t input = 0;
  int64_t offset = 0;
  int64_t timestamp_ms = 0;
  std::optional<std::string> key, value;
  std::vector<std::pair<std::string, std::optional<std::string>>> headers;
};

// The key's index in the batch, added if it is new.
int32_t IndexOf(std::string_view key, protocol::Batch* batch) {
  const auto found = std::find(batch->keys.begin(), batch->keys.end(), key);
  const auto index = static_cast<int32_t>(found - batch->keys.begin());
  if (found == batch->keys.end()) batch->keys.push_back(key);
  return index;
}

std::string_view WordOf(protocol::RecordItem::Type type) {
  using Type = protocol::RecordItem::Type;
  return type == Type::kTimer ? " (timer \"" : type == Type::kVisit ? " (visit \"" : " (closing window of \"";
}

absl::Status StatusOf(const protocol::Failure& failure, std::string_view of) {
  const std::string text = StrCat(failure.failure_class, ": ", failure.message, of);
  return failure.retriable ? absl::AbortedError(text) : absl::FailedPreconditionError(text);
}

}  // namespace

// The sidecar of one task, in memory.
class TestKit::Impl : public BatchHost {
 public:
  Impl(const App& app, const TestSetup& setup)
      : BatchHost(app.impl_->program()),
        fits_(CheckSetup(setup)),
        process_late_(setup.process_late),
        stream_(LatenessOf(setup, WelcomeOf(setup, program()))),
        time_(&welcome(), &rows_),
        visits_(&welcome(), &rows_),
        run_(this) {
    Bind(WelcomeOf(setup, program()));
    rows_.resize(welcome().stores.size() + welcome().joins.size() + welcome().lookups.size());
    if (fits_.ok()) fits_ = CheckFits(program(), welcome());
  }

  absl::Status FeedBatch(std::string_view input, const std::vector<TestRecord>& records);
  absl::Status Advance(int64_t milliseconds);
  absl::Status StartVisit(std::string_view name, MaybeView data);

  int64_t now_ms() const { return now_ms_; }
  std::optional<int64_t> watermark_ms() const { return stream_.now(); }
  int64_t late() const { return late_; }
  const KitTime& time() const { return time_; }
  const KitVisits& visits() const { return visits_; }
  // By readable id; -1: no such name.
  int IdOf(std::string_view name) const;
  KitRows& rows(int id) { return rows_[static_cast<size_t>(id)]; }
  const std::vector<std::pair<std::string, TestOutput>>& outputs() const { return outputs_; }

  absl::Status Send(std::string_view) override { return absl::OkStatus(); }  // EXTEND
  absl::Status Refuse(const char*, std::string_view problem) override { return absl::InternalError(ToAbsl(problem)); }
  absl::Status Look() override { return absl::OkStatus(); }
  absl::StatusOr<ReceivedMessage> Ask(std::string_view frame, uint64_t seq, uint64_t rid) override;

 private:
  // A RESULT with the memory its views point into.
  struct Told {
    std::string frame;
    protocol::Result result;
  };
  // A batch of records on its way: what became of each record.
  struct Sent {
    protocol::Batch batch;
    std::vector<size_t> records;  // by item: which of the records it is
    std::vector<bool> late;       // by record: for all its windows
  };

  // With the program's hooks around.
  absl::Status Transaction(std::vector<KitRecord> records);
  absl::Status CallHook(std::string_view name, const Handler& hook);
  absl::Status HandleAll(std::vector<KitRecord> records);
  Sent MakeBatch(const std::vector<KitRecord>& records) const;
  void FillState(protocol::Batch* batch) const;
  // Hands records over; how many are done, late ones that nobody is called for among them.
  absl::StatusOr<size_t> RunRecords(const std::vector<KitRecord>& records, absl::Status* failure);
  // All that is due, and what that makes due; then rows of visits.
  absl::Status Deliver();
  void Done(const KitDue& due);
  absl::Status RunDue(const std::vector<KitDue>& due);
  // `hook`: to be called in place of handlers; null: none.
  absl::StatusOr<Told> RunBatch(const protocol::Batch& batch, const Handler& hook = nullptr);
  // `time_ms`: of the last item done.
  void Take(const protocol::Result& result, int64_t time_ms);

  // The store as the batch sees it.
  KitRows Scratched(uint32_t store) const;
  protocol::SidecarMessage Answer(const protocol::Get& get);
  protocol::SidecarMessage Answer(const protocol::Scan& scan);
  void Note(const protocol::StateOps& new_ops);

  absl::Status fits_;
  const bool process_late_;
  std::vector<KitRows> rows_;  // by readable id
  int64_t now_ms_ = kStart;
  StreamTime stream_;
  KitTime time_;
  KitVisits visits_;
  int64_t late_ = 0;
  std::map<uint32_t, std::map<std::string, std::optional<std::string>>> scratch_;
  std::vector<std::pair<std::string, TestOutput>> outputs_;
  std::vector<KitRecord> looping_;  // sent to the loop, and not handled yet
  BatchRun run_;
  uint64_t last_seq_ = 0;
  int64_t next_offset_ = 0;
};

int TestKit::Impl::IdOf(std::string_view name) const {
  int id = 0;
  for (const auto& store : welcome().stores) {
    if (store.name == name) return id;
    ++id;
  }
  for (const auto* topics : {&welcome().joins, &welcome().lookups}) {
    for (const auto& topic : *topics) {
      if (topic.name == name) return id;
      ++id;
    }
  }
  return -1;
}

absl::Status TestKit::Impl::FeedBatch(std::string_view input, const std::vector<TestRecord>& records) {
  MS_RETURN_IF_ERROR(fits_);
  const auto& inputs = welcome().inputs;
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const auto& one) { return one.name == input; });
  if (found == inputs.end())
    return absl::InvalidArgumentError(StrCat("the app has no handler for an input \"", input, "\""));
  std::vector<KitRecord> items;
  for (const TestRecord& record : records) {
    items.push_back({static_cast<uint32_t>(found - inputs.begin()), next_offset_++,
                     record.timestamp_ms.value_or(now_ms_), record.key, record.value, record.headers});
  }
  MS_RETURN_IF_ERROR(Transaction(std::move(items)));
  for (int round = 0; !looping_.empty(); ++round) {
    if (round == kMostRounds) return absl::InternalError("records come back through the loop without end");
    MS_RETURN_IF_ERROR(Transaction(std::exchange(looping_, {})));
  }
  return absl::OkStatus();
}

absl::Status TestKit::Impl::Advance(int64_t milliseconds) {
  MS_RETURN_IF_ERROR(fits_);
  now_ms_ += milliseconds;
  return Deliver();
}

absl::Status TestKit::Impl::StartVisit(std::string_view name, MaybeView data) {
  MS_RETURN_IF_ERROR(fits_);
  const std::optional<uint32_t> visit = visits_.IdOf(name);
  if (!visit.has_value()) {
    return absl::InvalidArgumentError(
        StrCat("there is no visit \"", name, "\"; declared are: ", NamesOf(welcome().visits)));
  }
  visits_.Apply({*visit, protocol::VisitOp::What::kStart, data}, now_ms_);
  return Deliver();
}

absl::Status TestKit::Impl::Transaction(std::vector<KitRecord> records) {
  MS_RETURN_IF_ERROR(CallHook("begin", program().begin));
  MS_RETURN_IF_ERROR(HandleAll(std::move(records)));
  MS_RETURN_IF_ERROR(CallHook("finalize", program().finalize));
  if (program().committed) program().committed(0);
  return absl::OkStatus();
}

absl::Status TestKit::Impl::CallHook(std::string_view name, const Handler& hook) {
  if (!hook) return absl::OkStatus();
  protocol::Batch batch;
  batch.seq = ++last_seq_;
  batch.task = TaskId(0);
  MS_ASSIGN_OR_RETURN(const Told told, RunBatch(batch, hook));
  Take(told.result, now_ms_);
  if (told.result.failure.has_value()) return StatusOf(*told.result.failure, StrCat(" (hook ", name, ")"));
  return Deliver();
}

// A batch may end early (its frame is full): the rest is sent again, as the sidecar does it.
absl::Status TestKit::Impl::HandleAll(std::vector<KitRecord> records) {
  while (!records.empty()) {
    absl::Status failure;
    MS_ASSIGN_OR_RETURN(const size_t done, RunRecords(records, &failure));
    MS_RETURN_IF_ERROR(failure);
    MS_RETURN_IF_ERROR(Deliver());
    records.erase(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(done));
  }
  return absl::OkStatus();
}

TestKit::Impl::Sent TestKit::Impl::MakeBatch(const std::vector<KitRecord>& records) const {
  Sent sent;
  sent.batch.watermark_ms = stream_.now();
  StreamTime time = stream_;  // as it will be when all of them are done
  KitTime::Sessions sessions;
  for (size_t i = 0; i < records.size(); ++i) {
    const KitRecord& record = records[i];
    time.Advance(record.input, record.timestamp_ms);
    std::vector<protocol::ItemWindow> windows;
    if (record.key.has_value()) windows = time_.OpenWindows(*record.key, record.timestamp_ms, *time.now(), &sessions);
    sent.late.push_back(record.key.has_value() && windows.empty() && time_.HasWindows());
    if (sent.late.back() && !process_late_) continue;
    sent.records.push_back(i);
    protocol::RecordItem& item = sent.batch.items.emplace_back();
    item.input = record.input;
    item.offset = Offset(record.offset);
    item.timestamp_ms = record.timestamp_ms;
    item.value = ViewOf(record.value);
    item.windows = std::move(windows);
    for (const auto& [name, value] : record.headers) item.headers.emplace_back(name, ViewOf(value));
    if (record.key.has_value()) item.key_index = IndexOf(*record.key, &sent.batch);
  }
  FillState(&sent.batch);
  return sent;
}

void TestKit::Impl::FillState(protocol::Batch* batch) const {
  const size_t stores = welcome().stores.size();
  for (uint32_t id = 0; id < stores + welcome().joins.size(); ++id) {
    if (id < stores && !welcome().stores[id].prefetched) continue;
    auto& state = batch->state.emplace_back();
    state.store = id;
    if (id < stores && IsWindowed(welcome().stores[id])) {
      state.windowed = true;
      state.windows = time_.StateOf(id, batch->keys);
      continue;
    }
    for (const std::string_view key : batch->keys) {
      const auto row = rows_[id].find(std::string(key));
      if (row == rows_[id].end()) {
        state.values.push_back({protocol::StateValue::What::kAbsent, {}});
      } else {
        state.values.push_back({protocol::StateValue::What::kValue, row->second});
      }
    }
  }
}

absl::StatusOr<TestKit::Impl::Told> TestKit::Impl::RunBatch(const protocol::Batch& batch, const Handler& hook) {
  scratch_.clear();
  Told told;
  const uint64_t generation = memory().GenerationOf(batch.task);
  MS_ASSIGN_OR_RETURN(told.frame, hook ? run_.RunHook(batch, generation, hook) : run_.Run(batch, generation));
  MS_RETURN_IF_ERROR(run_.ChangeGathered());
  MS_ASSIGN_OR_RETURN(const protocol::WorkerMessage message,
                      protocol::DecodeWorkerMessage(std::string_view(told.frame).substr(protocol::kFrameHeaderBytes)));
  told.result = std::get<protocol::Result>(message);
  return told;
}

absl::StatusOr<size_t> TestKit::Impl::RunRecords(const std::vector<KitRecord>& records, absl::Status* failure) {
  Sent sent = MakeBatch(records);
  sent.batch.seq = ++last_seq_;
  sent.batch.task = TaskId(0);
  Told told;
  if (!sent.records.empty()) {
    MS_ASSIGN_OR_RETURN(told, RunBatch(sent.batch));
  }
  const size_t done = told.result.done;
  const size_t finished = done == sent.records.size() ? records.size() : sent.records[done];
  for (size_t i = 0; i < finished; ++i) {
    stream_.Advance(records[i].input, records[i].timestamp_ms);
    if (sent.late[i]) ++late_;
  }
  Take(told.result, done == 0 ? now_ms_ : sent.batch.items[done - 1].timestamp_ms);
  for (size_t i = 0; i < done; ++i) {
    const KitRecord& record = records[sent.records[i]];
    if (record.key.has_value()) time_.Merge(*record.key, sent.batch.items[i].windows);
  }
  if (told.result.failure.has_value()) *failure = StatusOf(*told.result.failure, "");
  return finished;
}

absl::Status TestKit::Impl::Deliver() {
  for (int round = 0; round < kMostRounds; ++round) {
    if (stream_.now().has_value()) time_.Sweep(*stream_.now());
    std::vector<KitDue> due = time_.Due(stream_.now(), now_ms_);
    if (due.empty()) due = visits_.Next();
    if (due.empty()) return absl::OkStatus();
    MS_RETURN_IF_ERROR(RunDue(due));
  }
  return absl::InternalError("timers make timers due, or visits start visits, without end");
}

void TestKit::Impl::Done(const KitDue& due) {
  if (due.item.type == protocol::RecordItem::Type::kVisit) {
    visits_.Done(due);
  } else {
    time_.Done(due);
  }
}

absl::Status TestKit::Impl::RunDue(const std::vector<KitDue>& due) {
  protocol::Batch batch;
  batch.seq = ++last_seq_;
  batch.task = TaskId(0);
  batch.watermark_ms = stream_.now();
  for (const KitDue& one : due) {
    batch.items.push_back(one.item);
    if (!one.keyless) batch.items.back().key_index = IndexOf(one.key, &batch);
  }
  FillState(&batch);
  MS_ASSIGN_OR_RETURN(const Told told, RunBatch(batch));
  const size_t done = told.result.done;
  for (size_t i = 0; i < done; ++i) Done(due[i]);
  Take(told.result, done == 0 ? now_ms_ : due[done - 1].time_ms);
  if (!told.result.failure.has_value()) return absl::OkStatus();
  const KitDue& failed = due[told.result.done];
  Done(failed);  // given up, as a record would be
  return StatusOf(*told.result.failure, StrCat(WordOf(failed.item.type), failed.name, "\")"));
}

void TestKit::Impl::Take(const protocol::Result& result, int64_t time_ms) {
  for (const auto& [store, ops] : result.ops) {
    for (const protocol::StateOp& op : ops) {
      if (op.value.has_value()) {
        rows_[store][std::string(op.key)] = std::string(*op.value);
      } else {
        rows_[store].erase(std::string(op.key));
      }
    }
  }
  for (const protocol::TimerOp& op : result.timers) time_.Apply(op);
  for (const protocol::VisitOp& op : result.visits) visits_.Apply(op, time_ms);
  for (const protocol::OutputRecord& record : result.outputs) {
    TestOutput output{Owned(record.key), Owned(record.value), record.timestamp_ms, {}, record.partition};
    for (const auto& [name, value] : record.headers) output.headers.emplace_back(name, Owned(value));
    const std::string& name = welcome().outputs[record.output].name;
    for (uint32_t input = 0; name == kLoop && input < welcome().inputs.size(); ++input) {
      if (welcome().inputs[input].name != kLoop) continue;
      looping_.push_back(
          {input, next_offset_++, output.timestamp_ms.value_or(now_ms_), output.key, output.value, output.headers});
    }
    outputs_.emplace_back(name, std::move(output));
  }
}

absl::StatusOr<ReceivedMessage> TestKit::Impl::Ask(std::string_view frame, uint64_t, uint64_t) {
  const auto owned = std::make_shared<const std::string>(frame.substr(protocol::kFrameHeaderBytes));
  MS_ASSIGN_OR_RETURN(const protocol::WorkerMessage message, protocol::DecodeWorkerMessage(*owned));
  const auto* get = std::get_if<protocol::Get>(&message);
  return ReceivedMessage{get != nullptr ? Answer(*get) : Answer(std::get<protocol::Scan>(message)), owned};
}

void TestKit::Impl::Note(const protocol::StateOps& new_ops) {
  for (const auto& [store, ops] : new_ops) {
    for (const protocol::StateOp& op : ops) scratch_[store][std::string(op.key)] = Owned(op.value);
  }
}

KitRows TestKit::Impl::Scratched(uint32_t store) const {
  KitRows rows = rows_[store];
  const auto scratch = scratch_.find(store);
  if (scratch == scratch_.end()) return rows;
  for (const auto& [key, value] : scratch->second) {
    if (value.has_value()) {
      rows[key] = *value;
    } else {
      rows.erase(key);
    }
  }
  return rows;
}

protocol::SidecarMessage TestKit::Impl::Answer(const protocol::Get& get) {
  Note(get.new_ops);
  const KitRows rows = Scratched(get.store);
  protocol::Values values{get.seq, get.rid, {}, std::nullopt};
  for (const std::string_view key : get.keys) {
    const auto row = rows.find(std::string(key));
    values.values.push_back(row == rows.end() ? std::nullopt : std::optional<std::string>(row->second));
  }
  return values;
}

protocol::SidecarMessage TestKit::Impl::Answer(const protocol::Scan& scan) {
  Note(scan.new_ops);
  protocol::Rows answer{scan.seq, scan.rid, {}, std::nullopt, std::nullopt};
  for (const auto& [key, value] : Scratched(scan.store)) {
    if (scan.from.has_value() && key < *scan.from) continue;
    if (scan.to.has_value() && key >= *scan.to) continue;
    answer.rows.emplace_back(key, value);
  }
  if (scan.reverse) std::reverse(answer.rows.begin(), answer.rows.end());
  if (scan.limit > 0 && answer.rows.size() > scan.limit) answer.rows.resize(scan.limit);
  return answer;
}

TestKit::TestKit(const App& app, TestSetup setup) : impl_(std::make_unique<Impl>(app, setup)) {}
TestKit::~TestKit() = default;

absl::Status TestKit::Feed(std::string_view input, const TestRecord& record) { return FeedBatch(input, {record}); }
absl::Status TestKit::FeedBatch(std::string_view input, const std::vector<TestRecord>& records) {
  return impl_->FeedBatch(input, records);
}

absl::Status TestKit::Advance(int64_t milliseconds) { return impl_->Advance(milliseconds); }
absl::Status TestKit::StartVisit(std::string_view name, MaybeView data) { return impl_->StartVisit(name, data); }
std::vector<std::string> TestKit::Visits() const { return impl_->visits().UnderWay(); }
int64_t TestKit::now_ms() const { return impl_->now_ms(); }
std::optional<int64_t> TestKit::watermark_ms() const { return impl_->watermark_ms(); }
int64_t TestKit::late_records() const { return impl_->late(); }

const std::map<std::string, std::string>& TestKit::State(std::string_view name) const {
  static const KitRows none;
  const int id = impl_->IdOf(name);
  return id < 0 ? none : impl_->rows(id);
}

void TestKit::SetState(std::string_view name, std::string_view key, std::string_view value) {
  if (const int id = impl_->IdOf(name); id >= 0) impl_->rows(id)[std::string(key)] = std::string(value);
}

std::vector<TestWindow> TestKit::Windows(std::string_view store) const {
  std::vector<TestWindow> windows;
  const int id = impl_->IdOf(store);
  const auto& stores = impl_->welcome().stores;
  if (id < 0 || static_cast<size_t>(id) >= stores.size() || !IsWindowed(stores[static_cast<size_t>(id)]))
    return windows;
  for (const auto& [row, value] : impl_->rows(id)) {
    const auto [key, window] = impl_->time().Parse(static_cast<uint32_t>(id), row);
    windows.push_back({std::string(key), window, value});
  }
  std::sort(windows.begin(), windows.end(), [](const TestWindow& a, const TestWindow& b) {
    return std::tie(a.key, a.window) < std::tie(b.key, b.window);
  });
  return windows;
}

std::vector<TestTimer> TestKit::Timers() const { return impl_->time().Timers(); }

std::vector<TestOutput> TestKit::Outputs(std::string_view output) const {
  std::vector<TestOutput> found;
  for (const auto& [name, record] : impl_->outputs()) {
    if (name == output) found.push_back(record);
  }
  return found;
}

}  // namespace millstream::worker
