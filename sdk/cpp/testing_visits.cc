#include "sdk/cpp/testing_visits.h"

#include <algorithm>

namespace millstream::worker {
namespace {

// Rows per batch: fewer than a usual store has, so that tests meet several.
constexpr size_t kPage = 100;

}  // namespace

std::optional<uint32_t> KitVisits::IdOf(std::string_view name) const {
  for (uint32_t visit = 0; visit < welcome_.visits.size(); ++visit) {
    if (NameOf(visit) == name) return visit;
  }
  return std::nullopt;
}

void KitVisits::Apply(const protocol::VisitOp& op, int64_t time_ms) {
  using What = protocol::VisitOp::What;
  const auto walk = walks_.find(op.visit);
  if (op.what == What::kStart) {
    Walk& anew = walks_[op.visit] = {};
    anew.started_ms = time_ms;
    if (op.data.has_value()) anew.data.emplace(*op.data);
  } else if (walk != walks_.end() && op.what == What::kStop) {
    walks_.erase(walk);
  } else if (walk != walks_.end()) {
    walk->second.paused = op.what == What::kPause;
  }
}

std::vector<KitDue> KitVisits::Next() const {
  const std::pair<const uint32_t, Walk>* first = nullptr;
  for (const auto& entry : walks_) {
    const bool sooner = first == nullptr || NameOf(entry.first) < NameOf(first->first);
    if (!entry.second.paused && sooner) first = &entry;
  }
  std::vector<KitDue> due;
  if (first == nullptr) return due;
  const auto& [visit, walk] = *first;
  KitDue one;
  one.time_ms = walk.started_ms;
  one.name = NameOf(visit);
  one.item.type = protocol::RecordItem::Type::kVisit;
  one.item.visit = visit;
  one.item.timestamp_ms = walk.started_ms;
  if (walk.data.has_value()) one.item.value = *walk.data;
  const KitRows& rows = rows_[welcome_.visits[visit].store];
  for (auto row = walk.after.has_value() ? rows.upper_bound(*walk.after) : rows.begin();
       row != rows.end() && due.size() < kPage; ++row) {
    due.push_back(one);
    due.back().key = row->first;
  }
  if (due.empty()) {
    one.keyless = true;
    due.push_back(std::move(one));
  }
  return due;
}

void KitVisits::Done(const KitDue& due) {
  if (due.keyless) {
    walks_.erase(due.item.visit);
  } else {
    walks_[due.item.visit].after = due.key;
  }
}

std::vector<std::string> KitVisits::UnderWay() const {
  std::vector<std::string> names;
  for (const auto& [visit, walk] : walks_) names.push_back(NameOf(visit));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace millstream::worker
