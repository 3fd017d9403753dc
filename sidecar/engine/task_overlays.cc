#include "sidecar/engine/task_overlays.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace millstream::engine {

Overlay& TaskOverlays::Stage(uint64_t tx) {
  if (staged_.empty() || staged_.back().tx != tx) {
    MS_CHECK(staged_.size() < 2);
    MS_CHECK(staged_.empty() || staged_.back().tx < tx);
    staged_.push_back({tx, std::make_unique<Overlay>(stores_)});
  }
  return *staged_.back().overlay;
}

const Overlay* TaskOverlays::Staged(uint64_t tx) const {
  for (const StagedLayer& layer : staged_) {
    if (layer.tx == tx) return layer.overlay.get();
  }
  return nullptr;
}

void TaskOverlays::Commit(uint64_t tx) {
  if (staged_.empty() || staged_.front().tx != tx) {
    MS_CHECK(Staged(tx) == nullptr);  // an earlier one would still be open
    return;
  }
  std::unique_ptr<Overlay> layer = std::move(staged_.front().overlay);
  staged_.erase(staged_.begin());
  if (layer->empty()) return;
  if (committed_ == nullptr) {
    committed_ = std::move(layer);
  } else {
    committed_->MergeFrom(*layer);
  }
}

void TaskOverlays::Drop(uint64_t tx) {
  std::erase_if(staged_, [tx](const StagedLayer& layer) { return layer.tx == tx; });
}

const Overlay* TaskOverlays::StartApply() {
  MS_CHECK(applying_ == nullptr);
  applying_ = std::move(committed_);
  return applying_.get();
}

void TaskOverlays::ApplyFailed() {
  MS_CHECK(applying_ != nullptr);
  if (committed_ != nullptr) applying_->MergeFrom(*committed_);
  committed_ = std::move(applying_);
}

void TaskOverlays::ApplyDone() {
  MS_CHECK(applying_ != nullptr);
  applied_.push_back(std::move(applying_));
  Retire(/*keep_newest=*/true);
}

TaskOverlays::Pin TaskOverlays::TakePin() {
  pins_.push_back(next_pin_);
  return next_pin_++;
}

void TaskOverlays::ReleasePin(Pin pin) {
  auto it = std::find(pins_.begin(), pins_.end(), pin);
  MS_CHECK(it != pins_.end());
  pins_.erase(it);
  Retire(/*keep_newest=*/true);
}

void TaskOverlays::FreeCache() { Retire(/*keep_newest=*/false); }

void TaskOverlays::Retire(bool keep_newest) {
  if (!pins_.empty()) return;
  const size_t keep = keep_newest ? 1 : 0;
  if (applied_.size() > keep) applied_.erase(applied_.begin(), applied_.end() - static_cast<ptrdiff_t>(keep));
}

const OverlayValue* TaskOverlays::Find(store::StoreIndex store, std::string_view key, size_t hash, View view) const {
  if (view == View::kAll) {
    for (auto layer = staged_.rbegin(); layer != staged_.rend(); ++layer) {
      if (const OverlayValue* found = layer->overlay->Find(store, key, hash)) return found;
    }
  }
  if (committed_ != nullptr) {
    if (const OverlayValue* found = committed_->Find(store, key, hash)) return found;
  }
  if (applying_ != nullptr) {
    if (const OverlayValue* found = applying_->Find(store, key, hash)) return found;
  }
  for (auto layer = applied_.rbegin(); layer != applied_.rend(); ++layer) {
    if (const OverlayValue* found = (*layer)->Find(store, key, hash)) return found;
  }
  return nullptr;
}

void TaskOverlays::Prefetch(store::StoreIndex store, const HashedBytes& key) const {
  for (const StagedLayer& layer : staged_) layer.overlay->Prefetch(store, key);
  if (committed_ != nullptr) committed_->Prefetch(store, key);
  if (applying_ != nullptr) applying_->Prefetch(store, key);
  for (const auto& layer : applied_) layer->Prefetch(store, key);
}

std::vector<Overlay*> TaskOverlays::Layers(View view) {
  std::vector<Overlay*> layers;
  if (view == View::kAll) {
    for (auto layer = staged_.rbegin(); layer != staged_.rend(); ++layer) layers.push_back(layer->overlay.get());
  }
  if (committed_ != nullptr) layers.push_back(committed_.get());
  if (applying_ != nullptr) layers.push_back(applying_.get());
  for (auto layer = applied_.rbegin(); layer != applied_.rend(); ++layer) layers.push_back(layer->get());
  return layers;
}

int64_t TaskOverlays::bytes() const {
  int64_t sum = staged_bytes() + committed_bytes() + (applying_ ? applying_->bytes() : 0);
  for (const auto& layer : applied_) sum += layer->bytes();
  return sum;
}

int64_t TaskOverlays::staged_bytes() const {
  int64_t sum = 0;
  for (const StagedLayer& layer : staged_) sum += layer.overlay->bytes();
  return sum;
}

}  // namespace millstream::engine
