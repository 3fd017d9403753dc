// Context and what it gives out, thin over BatchRun.
#include "millstream/context.h"

#include "sdk/cpp/batch_run.h"

namespace millstream::worker {
namespace {

using ItemType = protocol::RecordItem::Type;

const protocol::NamedTopic* InputOf(const BatchRun& run) {
  const auto& inputs = run.welcome().inputs;
  const uint32_t input = run.item().input;
  return run.item().type == ItemType::kRecord && !run.in_hook() && input < inputs.size() ? &inputs[input] : nullptr;
}

}  // namespace

std::string_view Context::input() const {
  const protocol::NamedTopic* input = InputOf(*run_);
  return input == nullptr ? std::string_view() : input->name;
}
std::string_view Context::topic() const {
  const protocol::NamedTopic* input = InputOf(*run_);
  return input == nullptr ? std::string_view() : input->topic;
}
MaybeView Context::key() const { return run_->ItemKey(); }
MaybeView Context::value() const { return run_->ItemValue(); }
int64_t Context::timestamp_ms() const { return run_->ItemTime(); }
const std::vector<std::pair<std::string_view, MaybeView>>& Context::headers() const { return run_->item().headers; }
MaybeView Context::header(std::string_view name) const {
  MaybeView last;
  for (const auto& [each, value] : headers()) {
    if (each == name) last = value;
  }
  return last;
}
int64_t Context::offset() const {
  return run_->item().type == ItemType::kRecord && !run_->in_hook() ? run_->item().offset.value() : -1;
}
int32_t Context::task() const { return run_->batch().task.value(); }
uint32_t Context::attempt() const { return run_->item().attempt; }
std::string_view Context::timer() const { return run_->item().name; }
TimerClock Context::timer_clock() const {
  return run_->item().clock == protocol::TimerClock::kWallClock ? TimerClock::kWallClock : TimerClock::kEventTime;
}
Window Context::closing() const { return {run_->item().closing.start_ms, run_->item().closing.end_ms}; }
std::string_view Context::visit() const {
  const bool visited = run_->item().type == ItemType::kVisit && !run_->in_hook();
  return visited ? std::string_view(run_->welcome().visits[run_->item().visit].name) : std::string_view();
}
MaybeView Context::visit_data() const {
  return run_->item().type == ItemType::kVisit && !run_->in_hook() ? run_->item().value : std::nullopt;
}
std::string_view Context::processor() const { return run_->welcome().processor; }
std::optional<int64_t> Context::watermark_ms() const { return run_->batch().watermark_ms; }

Store Context::State(std::string_view name) { return Store(run_, run_->Resolve(name, Readable::kStore)); }
WindowStore Context::Windows(std::string_view name) {
  return WindowStore(run_, run_->Resolve(name, Readable::kWindows));
}
SessionStore Context::Sessions(std::string_view name) {
  return SessionStore(run_, run_->Resolve(name, Readable::kSessions));
}
Table Context::Join(std::string_view name) { return Table(run_, run_->Resolve(name, Readable::kJoin)); }
Table Context::Lookup(std::string_view name) { return Table(run_, run_->Resolve(name, Readable::kLookup)); }
absl::Status Context::Emit(std::string_view output, MaybeView key, MaybeView value, const EmitOptions& options) {
  return run_->Emit(output, key, value, options);
}
absl::Status Context::SetTimer(std::string_view name, int64_t time_ms, const TimerOptions& options) {
  return run_->StageTimer(name, time_ms, options);
}
absl::Status Context::CancelTimer(std::string_view name, const TimerOptions& options) {
  return run_->StageTimer(name, std::nullopt, options);
}
absl::Status Context::StartVisit(std::string_view name, MaybeView data) {
  return run_->StageVisit(name, protocol::VisitOp::What::kStart, data);
}
absl::Status Context::StopVisit(std::string_view name) {
  return run_->StageVisit(name, protocol::VisitOp::What::kStop, std::nullopt);
}
absl::Status Context::PauseVisit(std::string_view name) {
  return run_->StageVisit(name, protocol::VisitOp::What::kPause, std::nullopt);
}
absl::Status Context::ResumeVisit(std::string_view name) {
  return run_->StageVisit(name, protocol::VisitOp::What::kResume, std::nullopt);
}
absl::Status Context::FailOutput(absl::Status status) { return run_->FailOutput(std::move(status)); }
bool Context::Cancelled() { return run_->Cancelled(); }
std::shared_ptr<void>* Context::GatheredSlot(const void* handle) { return run_->GatheredSlot(handle); }
void Context::ChangeGathered(const void* handle, std::function<void(std::shared_ptr<void>*)> change) {
  run_->StageChange(handle, std::move(change));
}

absl::StatusOr<MaybeView> Table::Get() { return run_->Read(id_, std::nullopt); }
absl::StatusOr<MaybeView> Table::Get(std::string_view key) { return run_->Read(id_, key); }
absl::StatusOr<std::vector<MaybeView>> Table::GetMany(const std::vector<std::string_view>& keys) {
  return run_->ReadMany(id_, keys);
}
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Table::Scan(const ScanOptions& options) {
  return run_->Scan(id_, options);
}

absl::Status Store::Put(std::string_view value) { return run_->Write(id_, std::nullopt, value); }
absl::Status Store::Put(std::string_view key, std::string_view value) { return run_->Write(id_, key, value); }
absl::Status Store::Delete() { return run_->Write(id_, std::nullopt, std::nullopt); }
absl::Status Store::Delete(std::string_view key) { return run_->Write(id_, key, std::nullopt); }

absl::StatusOr<std::span<const Window>> WindowStore::Windows() { return run_->Windows(id_); }
absl::StatusOr<MaybeView> WindowStore::Get(const Window& window) { return run_->ReadRow(id_, std::nullopt, window); }
absl::StatusOr<MaybeView> WindowStore::Get(std::string_view key, int64_t start_ms) {
  return run_->ReadRow(id_, key, {start_ms, start_ms});
}
absl::Status WindowStore::Put(const Window& window, std::string_view value) {
  return run_->WriteRow(id_, window, value);
}
absl::Status WindowStore::Delete(const Window& window) { return run_->WriteRow(id_, window, std::nullopt); }

absl::StatusOr<std::optional<Window>> SessionStore::Session() {
  const absl::StatusOr<std::span<const Window>> sessions = run_->Windows(id_);
  if (!sessions.ok()) return sessions.status();
  return sessions->empty() ? std::nullopt : std::optional<Window>(sessions->front());
}
absl::StatusOr<std::vector<std::string_view>> SessionStore::Values() { return run_->SessionValues(id_); }
absl::Status SessionStore::Put(std::string_view value) { return run_->WriteSession(id_, value); }

}  // namespace millstream::worker
