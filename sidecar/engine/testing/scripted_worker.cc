#include "sidecar/engine/testing/scripted_worker.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/testing/scripted_visits.h"
#include "sidecar/engine/windows.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/frame.h"

namespace millstream::engine::testing {

template <typename Message>
void ScriptedWorker::Say(const Message& message, std::vector<Event>* events) {
  auto buffer = std::make_shared<std::string>(protocol::EncodeFrame(message));
  absl::StatusOr<protocol::WorkerMessage> decoded =
      protocol::DecodeWorkerMessage(std::string_view(*buffer).substr(protocol::kFrameHeaderBytes));
  MS_CHECK_OK(decoded);
  events->push_back(WorkerSent{id_, *std::move(decoded), std::move(buffer)});
}

bool ScriptedWorker::CanStep() const {
  if (state_ != State::kAlive) return false;
  if (!inbox_.empty()) return true;
  if (goodbye_ && batches_.empty()) return true;
  return std::any_of(batches_.begin(), batches_.end(), [](const auto& entry) { return entry.second.waits_for == 0; });
}

void ScriptedWorker::Step(std::vector<Event>* events) {
  std::vector<Batch*> runnable;
  for (auto& [seq, batch] : batches_) {
    if (batch.waits_for == 0) runnable.push_back(&batch);
  }
  if (!inbox_.empty() && (runnable.empty() || Chance(0.5))) {
    const std::string frame = std::move(inbox_.front());
    inbox_.pop_front();
    HandleFrame(frame, events);
  } else if (!runnable.empty()) {
    Advance(*runnable[(*random_)() % runnable.size()], events);
  } else if (goodbye_ && batches_.empty()) {
    state_ = State::kGone;
  }
}

void ScriptedWorker::SayGoodbye(std::vector<Event>* events) {
  if (std::exchange(goodbye_, true)) return;
  Say(protocol::Goodbye{"told to stop"}, events);
}

void ScriptedWorker::SayNonsense(std::vector<Event>* events) {
  const uint64_t seq = batches_.empty() ? 12345 : batches_.begin()->first;
  const auto items = batches_.empty() ? 1 : static_cast<uint32_t>(batches_.begin()->second.items.size());
  protocol::Result result;
  result.seq = seq;
  result.done = items;
  switch ((*random_)() % 7) {
    case 0:
      result.done = items + 1;
      return Say(result, events);
    case 1:
      result.ops = {{0, {{"k0", "wrong", 0}}}, {7, {{"k1", "wrong", 0}}}};
      return Say(result, events);
    case 2:
      result.outputs.push_back(
          {.output = 3, .key = {}, .value = "wrong", .timestamp_ms = {}, .headers = {}, .partition = {}});
      return Say(result, events);
    case 3:
      result.failure = protocol::Failure{"Handler", "E", "of no item", true};
      return Say(result, events);
    case 4:
      return Say(protocol::Extend{seq, items + 1}, events);
    case 5: {
      protocol::Get get;
      get.seq = seq;
      get.store = 20;
      return Say(get, events);
    }
    default: {
      protocol::Scan scan;
      scan.seq = seq + 1'000'000;
      return Say(scan, events);
    }
  }
}

void ScriptedWorker::HandleFrame(const std::string& frame, std::vector<Event>* events) {
  absl::StatusOr<protocol::SidecarMessage> message =
      protocol::DecodeSidecarMessage(std::string_view(frame).substr(protocol::kFrameHeaderBytes));
  MS_CHECK_OK(message);
  Accept(*message, events);
}

void ScriptedWorker::Accept(const protocol::SidecarMessage& message, std::vector<Event>* events) {
  if (const auto* sent = std::get_if<protocol::Batch>(&message)) {
    Batch batch;
    batch.seq = last_seq_ = sent->seq;
    batch.task = sent->task;
    batch.trace = (sent->flags & protocol::kFlagTrace) != 0;
    for (const protocol::RecordItem& item : sent->items) {
      std::optional<std::string> key;
      if (item.key_index >= 0) key.emplace(sent->keys.at(static_cast<size_t>(item.key_index)));
      if (item.type == protocol::RecordItem::Type::kRecord) {
        batch.items.push_back(
            {item.offset.value(), key, Input::Decode(item.value.value()), item.attempt, item.windows, ""});
        for (const protocol::ItemWindow& window : item.windows) {
          if (!window.session)
            batch.known[{window.store, RowKey(timed->stores[window.store], *key, {window.start_ms, window.end_ms})}] =
                {};
        }
        continue;
      }
      Item& due = batch.items.emplace_back();
      due.key = key;
      due.due = DueOutput(*sent, item);
      if (!key) due.key = StrCat("end@", sent->task.value());  // of a visit
    }
    for (const auto& state : sent->state) {
      for (size_t i = 0; i < state.windows.size(); ++i) {
        for (const protocol::WindowValue& row : state.windows[i]) {
          MS_CHECK(row.value.what == protocol::StateValue::What::kValue);
          batch.known[{state.store, RowKey(timed->stores[state.store], sent->keys[i], {row.start_ms, row.end_ms})}] =
              Bytes(row.value.value);
        }
      }
      if (state.windowed) continue;
      for (size_t i = 0; i < sent->keys.size(); ++i) {
        const protocol::StateValue& value = state.values.at(i);
        if (value.what == protocol::StateValue::What::kNotPrefetched) continue;
        MaybeBytes known;
        if (value.what == protocol::StateValue::What::kValue) known.emplace(value.value);
        batch.known[{state.store, std::string(sent->keys[i])}] = std::move(known);
      }
    }
    // Rows that are visited lead: nothing in the batch has changed them.
    for (const protocol::RecordItem& item : sent->items) {
      if (item.type != protocol::RecordItem::Type::kVisit || item.key_index < 0) continue;
      const auto row = batch.known.find({kTotals, std::string(sent->keys.at(static_cast<size_t>(item.key_index)))});
      MS_CHECK(row == batch.known.end() || row->second.has_value());
    }
    MS_CHECK(database == nullptr || transactions_.contains(batch.task));  // LOAD comes first
    MS_CHECK(batches_.emplace(batch.seq, std::move(batch)).second);
    MS_CHECK(static_cast<int>(batches_.size()) <= parallel_);
    const bool traced =
        std::any_of(batches_.begin(), batches_.end(), [](const auto& entry) { return entry.second.trace; });
    MS_CHECK(!traced || batches_.size() == 1);
  } else if (const auto* cancel = std::get_if<protocol::Cancel>(&message)) {
    auto batch = batches_.find(cancel->seq);
    if (batch == batches_.end()) return;
    if (Chance(0.7)) SendResult(batch->second, std::nullopt, events);  // a late one
    batches_.erase(batch);
  } else if (const auto* open = std::get_if<protocol::Open>(&message)) {
    gathered_.erase(open->task);
    transactions_.erase(open->task);
  } else if (const auto* close = std::get_if<protocol::Close>(&message)) {
    gathered_.erase(close->task);
    transactions_.erase(close->task);
  } else if (const auto* begin = std::get_if<protocol::BeginTransaction>(&message)) {
    MS_CHECK(gathered_[begin->task].empty());  // FINALIZE or CLOSE came before
    protocol::Result result;
    result.seq = begin->seq;
    Say(result, events);
  } else if (const auto* finalize = std::get_if<protocol::FinalizeTransaction>(&message)) {
    Finalize(*finalize, events);
  } else if (const auto* load = std::get_if<protocol::Load>(&message)) {
    LoadRow(*load, events);
  } else if (const auto* store = std::get_if<protocol::Store>(&message)) {
    StoreRow(*store, events);
  } else if (const auto* values = std::get_if<protocol::Values>(&message)) {
    auto batch = batches_.find(values->seq);
    if (batch == batches_.end() || batch->second.waits_for != values->rid) return;
    if (values->error) return;  // CANCEL follows, or the end
    batch->second.waits_for = 0;
    batch->second.known[{batch->second.asked_store, *batch->second.asked_key}] = values->values.at(0);
  } else if (const auto* rows = std::get_if<protocol::Rows>(&message)) {
    auto batch = batches_.find(rows->seq);
    if (batch == batches_.end() || batch->second.waits_for != rows->rid || rows->error) return;
    batch->second.waits_for = 0;
    auto& known = batch->second.rows[batch->second.asked_store];
    known.insert(known.end(), rows->rows.begin(), rows->rows.end());
    batch->second.scan_from = rows->cursor;
  } else if (std::holds_alternative<protocol::Goodbye>(message)) {
    goodbye_ = true;
  }
}

bool ScriptedWorker::Gather(Batch& batch, const Item& item, Reads* reads, std::vector<Event>* events) {
  if (item.key && !Know(batch, kTotals, *item.key, &reads->total, events)) return false;
  const Wants wants = WantsOf(item.input);
  if (wants.index_key && !Know(batch, kIndex, *wants.index_key, &reads->index, events)) return false;
  return !wants.scan || Scanned(batch, kIndex, wants.from, wants.to, &reads->rows, events);
}

bool ScriptedWorker::GatherRecent(Batch& batch, const Item& item, RecentReads* reads, std::vector<Event>* events) {
  if (timed == nullptr || !item.key) return true;
  if (!Know(batch, kRecent, *item.key, &reads->own, events)) return false;
  const std::optional<std::string> other = OtherRecent(item.input.id, *item.key);
  if (other && !Know(batch, kRecent, *other, &reads->other, events)) return false;
  return !ScansRecent(item.input.id) || Scanned(batch, kRecent, kRecentFrom, kRecentTo, &reads->rows, events);
}

bool ScriptedWorker::Know(Batch& batch, uint32_t store, const std::string& key, MaybeBytes* value,
                          std::vector<Event>* events) {
  const auto known = batch.known.find({store, key});
  if (known == batch.known.end()) {
    SendGet(batch, store, key, events);
    return false;
  }
  *value = known->second;
  return true;
}

bool ScriptedWorker::Scanned(Batch& batch, uint32_t store, const std::string& from, const std::string& to,
                             std::vector<std::pair<Bytes, Bytes>>* rows, std::vector<Event>* events) {
  const auto known = batch.rows.find(store);
  if (known == batch.rows.end() || (batch.scan_from && batch.asked_store == store)) {
    SendScan(batch, store, from, to, events);
    return false;
  }
  *rows = known->second;
  return true;
}

protocol::StateOps ScriptedWorker::NewOps(Batch& batch) {
  protocol::StateOps ops;
  for (; batch.told < batch.writes.size(); ++batch.told) {
    const Write& write = batch.writes[batch.told];
    auto of_store = std::find_if(ops.begin(), ops.end(), [&](const auto& entry) { return entry.first == write.store; });
    if (of_store == ops.end()) of_store = ops.insert(ops.end(), {write.store, {}});
    of_store->second.push_back({write.key, write.value ? protocol::MaybeView(*write.value) : std::nullopt, 0});
  }
  return ops;
}

void ScriptedWorker::SendGet(Batch& batch, uint32_t store, const std::string& key, std::vector<Event>* events) {
  protocol::Get get;
  get.seq = batch.seq;
  get.rid = batch.waits_for = next_rid_++;
  get.store = store;
  get.keys = {key};
  get.new_ops = NewOps(batch);
  batch.asked_key = key;
  batch.asked_store = store;
  Say(get, events);
}

void ScriptedWorker::SendScan(Batch& batch, uint32_t store, const std::string& from, const std::string& to,
                              std::vector<Event>* events) {
  protocol::Scan scan;
  scan.seq = batch.seq;
  scan.rid = batch.waits_for = next_rid_++;
  scan.store = batch.asked_store = store;
  scan.from = from;
  scan.to = to;
  scan.limit = 2;  // pages
  if (batch.scan_from) scan.cursor = *batch.scan_from;
  scan.new_ops = NewOps(batch);
  Say(scan, events);
}

void ScriptedWorker::Advance(Batch& batch, std::vector<Event>* events) {
  const Item& item = batch.items[batch.next];
  if (batch.trace && !batch.extended) {
    batch.extended = true;
    return Say(protocol::Extend{batch.seq, static_cast<uint32_t>(batch.next)}, events);
  }
  if (item.input.fate == Fate::kCrashes) {
    handovers->Called(RecordName(item.input.id));
    state_ = State::kCrashed;
    return;
  }
  if (!item.due.empty()) {
    handovers->Called(item.due);
    batch.outputs.push_back({0, item.key, item.due});
    ++batch.next;
    batch.extended = false;
    if (batch.next < batch.items.size() && !Chance(stop_early)) return;
    SendResult(batch, std::nullopt, events);
    batches_.erase(batch.seq);
    return;
  }
  const bool fails = item.input.fate == Fate::kFails || (item.input.fate == Fate::kFailsOnce && item.attempt == 1);
  if (fails) handovers->Called(RecordName(item.input.id));
  if (!fails && database != nullptr) return HandleInDatabase(batch, item, events);
  if (!fails) {
    Reads reads;
    RecentReads recent;
    if (!Gather(batch, item, &reads, events) || !GatherRecent(batch, item, &recent, events)) return;
    handovers->Called(RecordName(item.input.id));
    Effects effects = Handle(item.key, item.input, reads);
    for (Write& write : effects.writes) {
      batch.known[{write.store, write.key}] = write.value;
      batch.writes.push_back(std::move(write));
    }
    if (timed != nullptr) HandleTime(batch, item, recent);
    AddOutputs(batch, item, std::move(effects));
    ++batch.next;
    batch.extended = false;
    batch.rows.clear();
    batch.scan_from.reset();
    if (batch.next < batch.items.size() && batch.visits.empty() && !Chance(stop_early)) return;
  }
  std::optional<protocol::Failure> failure;
  if (fails) failure = protocol::Failure{"Handler", "Scripted", StrCat("record ", item.input.id), true};
  SendResult(batch, std::move(failure), events);
  batches_.erase(batch.seq);
}

void ScriptedWorker::AddOutputs(Batch& batch, const Item& item, Effects effects) {
  if (item.input.fate == Fate::kOverLimit) effects.output.resize(kTooLarge, '!');
  batch.outputs.push_back({0, item.key, std::move(effects.output)});
  for (const auto& [key, looped] : effects.loop) batch.outputs.push_back({1, key, looped.Encode()});
}

// The item's changes are in the database's transaction, whatever becomes of its RESULT.
void ScriptedWorker::HandleInDatabase(Batch& batch, const Item& item, std::vector<Event>* events) {
  if (Chance(database_lost)) {
    transactions_.erase(batch.task);  // to use it again without LOAD would be wrong
    SayFailed(batch.seq, "Store", events);
    batches_.erase(batch.seq);
    return;
  }
  AddOutputs(batch, item, transactions_.at(batch.task).Apply(item.key, item.input));
  ++batch.next;
  batch.extended = false;
  if (batch.next < batch.items.size() && !Chance(stop_early)) return;
  SendResult(batch, std::nullopt, events);
  batches_.erase(batch.seq);
}

void ScriptedWorker::LoadRow(const protocol::Load& load, std::vector<Event>* events) {
  transactions_.erase(load.task);
  last_seq_ = load.seq;
  if (Chance(database_lost)) return SayFailed(load.seq, "Handler", events);
  ScriptedDatabase::Row& row = database->rows[load.task];
  ++row.fence;
  if (Chance(database_lost)) return SayFailed(load.seq, "Handler", events);  // behind the commit
  transactions_[load.task] = row.model;
  protocol::Checkpoint answer{load.seq, row.fence, std::nullopt};
  if (row.checkpoint) answer.checkpoint = *row.checkpoint;
  Say(answer, events);
}

void ScriptedWorker::StoreRow(const protocol::Store& store, std::vector<Event>* events) {
  const auto transaction = transactions_.find(store.task);
  MS_CHECK(transaction != transactions_.end());
  for (const auto& [seq, batch] : batches_) MS_CHECK(batch.task != store.task);
  last_seq_ = store.seq;
  ScriptedDatabase::Row& row = database->rows[store.task];
  if (Chance(database_lost)) {  // before the commit
    transactions_.erase(transaction);
    return SayFailed(store.seq, "Handler", events);
  }
  if (row.fence != store.fence) {
    transactions_.erase(transaction);
    return Say(protocol::Stored{store.seq, false}, events);
  }
  row.model = transaction->second;
  row.checkpoint.emplace(store.checkpoint);
  if (Chance(database_lost)) {  // behind it
    transactions_.erase(transaction);
    return SayFailed(store.seq, "Handler", events);
  }
  if (Chance(database_lost)) {
    state_ = State::kCrashed;
    return;
  }
  Say(protocol::Stored{store.seq, true}, events);
}

void ScriptedWorker::SayFailed(uint64_t seq, const char* failure_class, std::vector<Event>* events) {
  protocol::Result result;
  result.seq = seq;
  result.failure = protocol::Failure{failure_class, "OperationalError", "the database is gone", true};
  Say(result, events);
}

void ScriptedWorker::HandleTime(Batch& batch, const Item& item, const RecentReads& recent) {
  for (const protocol::ItemWindow& window : item.windows) {
    const spec::StoreSpec& store = timed->stores[window.store];
    const Bytes row_key = RowKey(store, *item.key, {window.start_ms, window.end_ms});
    MaybeBytes value;
    if (window.session) {
      std::vector<std::string> merged;
      for (const auto& [start, end] : window.merged)
        merged.push_back(batch.known.at({window.store, RowKey(store, *item.key, {start, end})}).value());
      value = NextSession(merged, item.input.id);
    } else {
      value = NextValue(batch.known.at({window.store, row_key}), item.input.id);
    }
    batch.known[{window.store, row_key}] = value;
    batch.writes.push_back({window.store, row_key, value});
  }
  if (!item.key) return;
  const MaybeBytes value = NextRecent(recent, item.input.id);
  batch.known[{kRecent, *item.key}] = value;
  batch.writes.push_back({kRecent, *item.key, value});
  for (SetTimer& timer : TimersOf(item.input.id, *item.key)) batch.timers.push_back(std::move(timer));
  if (!timed->visits.empty() && StartsVisit(item.input.id)) batch.visits.push_back(StrCat(item.input.id));
}

void ScriptedWorker::Finalize(const protocol::FinalizeTransaction& finalize, std::vector<Event>* events) {
  Batch hook;
  hook.seq = finalize.seq;
  hook.outputs = std::move(gathered_[finalize.task]);
  gathered_.erase(finalize.task);
  std::optional<protocol::Failure> failure;
  if (Chance(0.02)) {
    failure = protocol::Failure{"Handler", "Scripted", "FINALIZE", true};
    hook.outputs.clear();
  }
  const bool was = std::exchange(gathers, false);
  SendResult(hook, std::move(failure), events);
  gathers = was;
}

void ScriptedWorker::SendResult(const Batch& batch, std::optional<protocol::Failure> failure,
                                std::vector<Event>* events) {
  protocol::Result result;
  result.seq = batch.seq;
  result.done = static_cast<uint32_t>(batch.next);
  result.failure = std::move(failure);
  for (const Write& write : batch.writes) {
    auto of_store = std::find_if(result.ops.begin(), result.ops.end(),
                                 [&](const auto& entry) { return entry.first == write.store; });
    if (of_store == result.ops.end()) of_store = result.ops.insert(result.ops.end(), {write.store, {}});
    of_store->second.push_back({write.key, write.value ? protocol::MaybeView(*write.value) : std::nullopt, 0});
  }
  for (const SetTimer& timer : batch.timers) {
    result.timers.push_back({timer.key,
                             timer.wall ? protocol::TimerClock::kWallClock : protocol::TimerClock::kEventTime,
                             timer.name, timer.time});
  }
  for (const std::string& data : batch.visits)
    result.visits.push_back({0, protocol::VisitOp::What::kStart, protocol::MaybeView(data)});
  if (gathers) {
    std::vector<Output>& gathered = gathered_[batch.task];
    gathered.insert(gathered.end(), batch.outputs.begin(), batch.outputs.end());
    return Say(result, events);
  }
  for (const Output& sent : batch.outputs) {
    protocol::OutputRecord output;
    output.output = sent.output;
    if (sent.key) output.key = *sent.key;
    output.value = sent.value;
    output.timestamp_ms = 1;
    result.outputs.push_back(std::move(output));
  }
  Say(result, events);
}

}  // namespace millstream::engine::testing
