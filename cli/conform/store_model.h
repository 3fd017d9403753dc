#ifndef MILLSTREAM_CLI_CONFORM_STORE_MODEL_H_
#define MILLSTREAM_CLI_CONFORM_STORE_MODEL_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/protocol/messages.h"

namespace millstream::cli::conform {

// The state a case begins with and what RESULTs did to it: where BATCHes are filled from, and GET and SCAN are answered
// from. One task, whatever the task numbers of a case. Not thread-safe.
class StoreModel {
 public:
  explicit StoreModel(size_t stores, uint32_t page) : rows_(stores), page_(page) {}

  size_t stores() const { return rows_.size(); }
  void Put(size_t store, std::string_view key, std::string_view value) {
    rows_[store][std::string(key)] = std::string(value);
  }
  void Erase(size_t store, std::string_view key) { rows_[store].erase(std::string(key)); }
  std::optional<std::string> Find(size_t store, std::string_view key) const;
  // The writes of a RESULT. Forgets the scratch of its batch.
  void Apply(const protocol::Result& result);
  void Forget(uint64_t seq) { scratch_.erase(seq); }

  // Answers that see the batch's "new ops", as the sidecar's do. Precondition: the stores exist.
  protocol::Values Answer(const protocol::Get& get);
  protocol::Rows Answer(const protocol::Scan& scan);

 private:
  using Rows = std::map<std::string, std::optional<std::string>, std::less<>>;
  void Keep(uint64_t seq, const protocol::StateOps& new_ops);

  std::vector<Rows> rows_;
  std::map<uint64_t, std::map<uint32_t, Rows>> scratch_;  // by seq and store
  const uint32_t page_;
};

}  // namespace millstream::cli::conform

#endif  // MILLSTREAM_CLI_CONFORM_STORE_MODEL_H_
