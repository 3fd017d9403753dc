#include "millstream/testing.h"

#include <algorithm>
#include <limits>
#include <variant>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sdk/cpp/app.h"
#include "sdk/cpp/batch_run.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/frame.h"

namespace millstream::worker {
namespace {

using Rows = std::map<std::string, std::string>;

std::optional<std::string> Owned(MaybeView view) {
  return view.has_value() ? std::optional<std::string>(*view) : std::nullopt;
}
MaybeView ViewOf(const std::optional<std::string>& text) { return text.has_value() ? MaybeView(*text) : std::nullopt; }

protocol::Welcome WelcomeOf(const TestSetup& setup, const HandlerMap& handlers) {
  protocol::Welcome welcome;
  welcome.processor = "test";
  for (const auto& [input, handler] : handlers) welcome.inputs.push_back({input, input});
  for (const std::string& output : setup.outputs) welcome.outputs.push_back({output, output, setup.max_bytes});
  for (const std::string& store : setup.stores) welcome.stores.push_back({store, "KeyValue", true, setup.max_bytes});
  for (const std::string& store : setup.unfetched)
    welcome.stores.push_back({store, "KeyValue", false, setup.max_bytes});
  welcome.deadline_ms = 3'600'000;  // a debugger may stand still
  welcome.min_timestamp_ms = 0;
  welcome.max_timestamp_ms = 253'402'300'799'999;  // the end of the year 9999, as the sidecar has it
  return welcome;
}

}  // namespace

// The sidecar of one task, in memory.
class TestKit::Impl : public BatchHost {
 public:
  Impl(const App& app, const TestSetup& setup) : run_(this) {
    Bind(WelcomeOf(setup, app.impl_->handlers()), app.impl_->handlers());
    rows_.resize(welcome().stores.size());
  }

  absl::Status FeedBatch(std::string_view input, const std::vector<TestRecord>& records);

  Rows* RowsOf(std::string_view store) {
    for (size_t id = 0; id < rows_.size(); ++id) {
      if (welcome().stores[id].name == store) return &rows_[id];
    }
    return nullptr;
  }
  const std::vector<std::pair<std::string, TestOutput>>& outputs() const { return outputs_; }

  absl::Status Send(std::string_view) override { return absl::OkStatus(); }  // EXTEND
  absl::Status Refuse(const char*, std::string_view problem) override { return absl::InternalError(ToAbsl(problem)); }
  absl::Status Look() override { return absl::OkStatus(); }
  absl::StatusOr<ReceivedMessage> Ask(std::string_view frame, uint64_t seq, uint64_t rid) override;

 private:
  // The store as the batch sees it.
  Rows Scratched(uint32_t store) const;
  protocol::SidecarMessage Answer(const protocol::Get& get);
  protocol::SidecarMessage Answer(const protocol::Scan& scan);
  void Note(const protocol::StateOps& new_ops);
  absl::Status Take(const protocol::Result& result);

  std::vector<Rows> rows_;  // by store id
  std::map<uint32_t, std::map<std::string, std::optional<std::string>>> scratch_;
  std::vector<std::pair<std::string, TestOutput>> outputs_;
  BatchRun run_;
  uint64_t last_seq_ = 0;
  int64_t next_offset_ = 0;
};

absl::Status TestKit::Impl::FeedBatch(std::string_view input, const std::vector<TestRecord>& records) {
  const auto& inputs = welcome().inputs;
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const auto& one) { return one.name == input; });
  if (found == inputs.end())
    return absl::InvalidArgumentError(StrCat("the app has no handler for an input \"", input, "\""));

  protocol::Batch batch;
  batch.seq = ++last_seq_;
  batch.task = TaskId(0);
  for (const TestRecord& record : records) {
    protocol::RecordItem& item = batch.items.emplace_back();
    item.input = static_cast<uint32_t>(found - inputs.begin());
    item.offset = Offset(next_offset_++);
    item.timestamp_ms = record.timestamp_ms;
    item.value = ViewOf(record.value);
    for (const auto& [name, value] : record.headers) item.headers.emplace_back(name, ViewOf(value));
    if (!record.key.has_value()) continue;
    const auto key = std::find(batch.keys.begin(), batch.keys.end(), *record.key);
    item.key_index = static_cast<int32_t>(key - batch.keys.begin());
    if (key == batch.keys.end()) batch.keys.push_back(*record.key);
  }
  for (uint32_t store = 0; store < rows_.size(); ++store) {
    if (!welcome().stores[store].prefetched) continue;
    auto& state = batch.state.emplace_back();
    state.store = store;
    for (const std::string_view key : batch.keys) {
      const auto row = rows_[store].find(std::string(key));
      if (row == rows_[store].end()) {
        state.values.push_back({protocol::StateValue::What::kAbsent, {}});
      } else {
        state.values.push_back({protocol::StateValue::What::kValue, row->second});
      }
    }
  }
  scratch_.clear();
  MS_ASSIGN_OR_RETURN(const std::string frame, run_.Run(batch));
  MS_ASSIGN_OR_RETURN(const protocol::WorkerMessage message,
                      protocol::DecodeWorkerMessage(std::string_view(frame).substr(protocol::kFrameHeaderBytes)));
  const auto& result = std::get<protocol::Result>(message);
  MS_RETURN_IF_ERROR(Take(result));
  // A batch may end early (its frame is full): the rest is sent again, as the sidecar does it.
  if (result.done == records.size() || result.done == 0) return absl::OkStatus();
  return FeedBatch(input, {records.begin() + result.done, records.end()});
}

absl::Status TestKit::Impl::Take(const protocol::Result& result) {
  for (const auto& [store, ops] : result.ops) {
    for (const protocol::StateOp& op : ops) {
      if (op.value.has_value()) {
        rows_[store][std::string(op.key)] = std::string(*op.value);
      } else {
        rows_[store].erase(std::string(op.key));
      }
    }
  }
  for (const protocol::OutputRecord& record : result.outputs) {
    TestOutput output{Owned(record.key), Owned(record.value), record.timestamp_ms, {}, record.partition};
    for (const auto& [name, value] : record.headers) output.headers.emplace_back(name, Owned(value));
    outputs_.emplace_back(welcome().outputs[record.output].name, std::move(output));
  }
  if (!result.failure.has_value()) return absl::OkStatus();
  const std::string text = StrCat(result.failure->failure_class, ": ", result.failure->message);
  return result.failure->retriable ? absl::AbortedError(text) : absl::FailedPreconditionError(text);
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

Rows TestKit::Impl::Scratched(uint32_t store) const {
  Rows rows = rows_[store];
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
  const Rows rows = Scratched(get.store);
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

const std::map<std::string, std::string>& TestKit::State(std::string_view store) const {
  static const Rows none;
  const Rows* rows = impl_->RowsOf(store);
  return rows == nullptr ? none : *rows;
}

void TestKit::SetState(std::string_view store, std::string_view key, std::string_view value) {
  if (Rows* rows = impl_->RowsOf(store)) (*rows)[std::string(key)] = std::string(value);
}

std::vector<TestOutput> TestKit::Outputs(std::string_view output) const {
  std::vector<TestOutput> found;
  for (const auto& [name, record] : impl_->outputs()) {
    if (name == output) found.push_back(record);
  }
  return found;
}

}  // namespace millstream::worker
