#include "cli/conform/store_model.h"

#include <algorithm>

namespace millstream::cli::conform {

std::optional<std::string> StoreModel::Find(size_t store, std::string_view key) const {
  const auto row = rows_[store].find(key);
  return row == rows_[store].end() ? std::nullopt : row->second;
}

void StoreModel::Apply(const protocol::Result& result) {
  for (const auto& [store, ops] : result.ops) {
    for (const protocol::StateOp& op : ops) {
      if (op.value.has_value()) {
        rows_[store][std::string(op.key)] = std::string(*op.value);
      } else {
        rows_[store].erase(std::string(op.key));
      }
    }
  }
  Forget(result.seq);
}

void StoreModel::Keep(uint64_t seq, const protocol::StateOps& new_ops) {
  for (const auto& [store, ops] : new_ops) {
    Rows& rows = scratch_[seq][store];
    for (const protocol::StateOp& op : ops)
      rows[std::string(op.key)] = op.value.has_value() ? std::optional<std::string>(*op.value) : std::nullopt;
  }
}

protocol::Values StoreModel::Answer(const protocol::Get& get) {
  Keep(get.seq, get.new_ops);
  const Rows& written = scratch_[get.seq][get.store];
  protocol::Values values{get.seq, get.rid, {}, std::nullopt};
  for (const std::string_view key : get.keys) {
    const auto own = written.find(key);
    values.values.push_back(own != written.end() ? own->second : Find(get.store, key));
  }
  return values;
}

protocol::Rows StoreModel::Answer(const protocol::Scan& scan) {
  Keep(scan.seq, scan.new_ops);
  Rows merged = rows_[scan.store];
  for (const auto& [key, value] : scratch_[scan.seq][scan.store]) merged[key] = value;
  std::vector<std::pair<Bytes, Bytes>> found;
  for (const auto& [key, value] : merged) {
    const bool inside = value.has_value() && (!scan.from || key >= *scan.from) && (!scan.to || key < *scan.to);
    const bool after = !scan.cursor || (scan.reverse ? key < *scan.cursor : key > *scan.cursor);
    if (inside && after) found.emplace_back(key, *value);
  }
  if (scan.reverse) std::reverse(found.begin(), found.end());
  const size_t most = scan.limit == 0 ? page_ : std::min(scan.limit, page_);
  protocol::Rows rows{scan.seq, scan.rid, {}, std::nullopt, std::nullopt};
  if (found.size() > most) {
    found.resize(most);
    rows.cursor = found.back().first;
  }
  rows.rows = std::move(found);
  return rows;
}

}  // namespace millstream::cli::conform
