#include "sidecar/engine/testing/trace.h"

#include <sstream>

#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/frame.h"

namespace millstream::engine::testing {
namespace {

// `overloaded` visitor; the last overload takes everything that is not worth more than its index.
template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

const char* Name(WriterCall::What what) {
  switch (what) {
    case WriterCall::What::kCreate:
      return "create";
    case WriterCall::What::kBegin:
      return "begin";
    case WriterCall::What::kAppend:
      return "append";
    case WriterCall::What::kFlush:
      return "flush";
    case WriterCall::What::kSendOffsets:
      return "send-offsets";
    case WriterCall::What::kCommit:
      return "commit";
    case WriterCall::What::kAbort:
      return "abort";
  }
  return "?";
}

void Tell(std::ostream& out, const log::OutgoingRecord& record) {
  out << " " << record.to << ":" << record.key.value_or("null") << "=" << record.value.value_or("null");
}

}  // namespace

std::string Describe(const Event& event) {
  std::ostringstream out;
  std::visit(
      Overloaded{
          [&](const TaskAssigned& e) { out << "assigned " << e.task; },
          [&](const TaskRevoked& e) { out << "revoked " << e.task; },
          [&](const TokenChanged& e) { out << "token " << e.token.member_id << " generation " << e.token.generation; },
          [&](const RebalanceStarted&) { out << "rebalance started"; },
          [&](const MembershipLost&) { out << "membership lost"; },
          [&](const TaskOpened& e) {
            out << "opened " << e.task << " " << e.status;
            for (const InputStart& start : e.inputs)
              out << " input " << start.input << " at " << start.next << " " << start.metadata;
          },
          [&](const TaskClosed& e) { out << "closed " << e.task; },
          [&](const RecordsRead& e) {
            out << "read task " << e.task << " " << e.records.size() << " records, next " << e.next << ", fetch "
                << e.fetch;
          },
          [&](const EndOfInput& e) {
            out << "end of task " << e.task << " at " << e.position << ", fetch " << e.fetch;
          },
          [&](const KeysRead& e) { out << "keys read " << e.read; },
          [&](const RangeScanned& e) {
            out << "scanned " << e.read << (e.page.more ? " more" : "");
            for (const auto& [key, value] : e.page.rows) out << " " << key << "=" << value;
          },
          [&](const StateApplied& e) { out << "applied " << e.apply << " " << e.status; },
          [&](const WorkerConnected& e) { out << "worker " << e.worker << " connected"; },
          [&](const WorkerSent& e) {
            out << "worker " << e.worker << " sent kind " << e.message.index();
            if (const auto* result = std::get_if<protocol::Result>(&e.message)) {
              out << " RESULT " << result->seq << " done " << result->done << (result->failure ? " failure" : "");
            }
            if (const auto* get = std::get_if<protocol::Get>(&e.message))
              out << " GET " << get->rid << " " << (get->keys.empty() ? std::string_view("-") : get->keys[0]);
            if (const auto* scan = std::get_if<protocol::Scan>(&e.message)) {
              out << " SCAN " << scan->rid << " after " << (scan->cursor ? *scan->cursor : "nothing");
              for (const auto& [store, ops] : scan->new_ops) {
                for (const auto& op : ops) out << " " << store << "/" << op.key << "=" << op.value.value_or("null");
              }
            }
          },
          [&](const WorkerDisconnected& e) { out << "worker " << e.worker << " gone, orderly " << e.orderly; },
          [&](const WriterCallDone& e) {
            out << "writer " << static_cast<int>(e.writer) << " call " << e.call << " " << e.status;
          },
          [&](const OutcomeRead& e) {
            out << "outcome " << e.status;
            for (const auto& [of, offset] : e.offsets) out << " " << of << "@" << offset.next << " " << offset.metadata;
          },
          [&](const Tick&) { out << "tick"; },
          [&](const Drain&) { out << "drain"; },
          [&](const auto&) { out << "event " << event.index(); },
      },
      event);
  return out.str();
}

std::string Describe(const Action& action) {
  std::ostringstream out;
  std::visit(
      Overloaded{
          [&](const OpenTask& a) { out << "open " << a.task; },
          [&](const CloseTask& a) { out << "close " << a.task; },
          [&](const TaskReleased& a) { out << "released " << a.task; },
          [&](const StartFetch& a) { out << "fetch task " << a.task << " from " << a.from << ", fetch " << a.fetch; },
          [&](const SeekFetch& a) { out << "seek task " << a.task << " to " << a.to << ", fetch " << a.fetch; },
          [&](const PauseFetch& a) { out << (a.paused ? "pause" : "resume") << " task " << a.task; },
          [&](const StopFetch& a) { out << "stop fetching task " << a.task; },
          [&](const ReadKeys& a) {
            out << "read " << a.read << " of task " << a.task << ": " << a.keys.size() << " keys of store " << a.store;
          },
          [&](const ScanRange& a) { out << "scan " << a.read << " of task " << a.task; },
          [&](const ApplyState& a) {
            out << "apply " << a.apply << " to task " << a.task << ":";
            for (const auto& write : a.writes)
              out << " " << write.store << "/" << write.key << "=" << write.value.value_or("null");
            for (const auto& [store, next] : a.positions.changelog) out << " changelog " << store << "@" << next;
          },
          [&](const SendToWorker& a) {
            out << "to worker " << a.worker;
            auto message =
                protocol::DecodeSidecarMessage(std::string_view(a.frame).substr(protocol::kFrameHeaderBytes));
            if (!message.ok()) return;
            out << " kind " << message->index();
            if (const auto* batch = std::get_if<protocol::Batch>(&*message)) {
              out << " BATCH " << batch->seq << " task " << batch->task << " items " << batch->items.front().offset
                  << "-" << batch->items.back().offset << (batch->flags != 0 ? " trace" : "");
            }
            if (const auto* values = std::get_if<protocol::Values>(&*message)) {
              out << " VALUES " << values->rid << " " << values->error.value_or("");
              for (const MaybeBytes& value : values->values) out << " " << value.value_or("null");
            }
            if (const auto* rows = std::get_if<protocol::Rows>(&*message)) {
              out << " ROWS " << rows->rid << " " << rows->error.value_or("");
              for (const auto& [key, value] : rows->rows) out << " " << key << "=" << value;
              out << " cursor " << rows->cursor.value_or("null");
            }
          },
          [&](const DropWorker& a) { out << "drop worker " << a.worker << " " << a.code << " " << a.message; },
          [&](const WriterCall& a) {
            out << "writer " << static_cast<int>(a.writer) << " call " << a.call << " " << Name(a.what);
            for (const auto& record : a.records) Tell(out, record);
            for (const auto& [of, offset] : a.offsets) out << " " << of << "@" << offset.next << " " << offset.metadata;
          },
          [&](const ResolveOutcome&) { out << "resolve"; },
          [&](const auto&) { out << "action " << action.index(); },
      },
      action);
  return out.str();
}

}  // namespace millstream::engine::testing
