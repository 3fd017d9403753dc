#include "millstream/worker.h"
#include "sdk/cpp/batch_run.h"

namespace millstream::worker {

std::string_view Context::input() const {
  const auto& inputs = run_->welcome().inputs;
  const uint32_t input = run_->item().input;
  return input < inputs.size() ? std::string_view(inputs[input].name) : std::string_view();
}
std::string_view Context::topic() const {
  const auto& inputs = run_->welcome().inputs;
  const uint32_t input = run_->item().input;
  return input < inputs.size() ? std::string_view(inputs[input].topic) : std::string_view();
}
MaybeView Context::key() const { return run_->RecordKey(); }
MaybeView Context::value() const { return run_->item().value; }
int64_t Context::timestamp_ms() const { return run_->item().timestamp_ms; }
const std::vector<std::pair<std::string_view, MaybeView>>& Context::headers() const { return run_->item().headers; }
MaybeView Context::header(std::string_view name) const {
  MaybeView last;
  for (const auto& [each, value] : headers()) {
    if (each == name) last = value;
  }
  return last;
}
int64_t Context::offset() const { return run_->item().offset.value(); }
int32_t Context::task() const { return run_->batch().task.value(); }
uint32_t Context::attempt() const { return run_->item().attempt; }

std::string_view Context::processor() const { return run_->welcome().processor; }
std::optional<int64_t> Context::watermark_ms() const { return run_->batch().watermark_ms; }

Store Context::State(std::string_view name) { return Store(run_, run_->StoreId(name)); }
absl::Status Context::Emit(std::string_view output, MaybeView key, MaybeView value, const EmitOptions& options) {
  return run_->Emit(output, key, value, options);
}

absl::Status Context::FailOutput(absl::Status status) { return run_->FailOutput(std::move(status)); }
bool Context::Cancelled() { return run_->Cancelled(); }

absl::StatusOr<MaybeView> Store::Get() { return run_->Read(id_, std::nullopt); }
absl::StatusOr<MaybeView> Store::Get(std::string_view key) { return run_->Read(id_, key); }
absl::StatusOr<std::vector<MaybeView>> Store::GetMany(const std::vector<std::string_view>& keys) {
  return run_->ReadMany(id_, keys);
}
absl::Status Store::Put(std::string_view value) { return run_->Write(id_, std::nullopt, value); }
absl::Status Store::Put(std::string_view key, std::string_view value) { return run_->Write(id_, key, value); }
absl::Status Store::Delete() { return run_->Write(id_, std::nullopt, std::nullopt); }
absl::Status Store::Delete(std::string_view key) { return run_->Write(id_, key, std::nullopt); }
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Store::Scan(const ScanOptions& options) {
  return run_->Scan(id_, options);
}

}  // namespace millstream::worker
