#ifndef MILLSTREAM_SDK_CPP_TESTING_VISITS_H_
#define MILLSTREAM_SDK_CPP_TESTING_VISITS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/cpp/testing_time.h"
#include "sidecar/protocol/messages.h"

namespace millstream::worker {

// The test kit's visits: what the sidecar keeps of them, and which rows come next. Not thread-safe.
class KitVisits {
 public:
  // Both outlive this; `rows` is by readable id.
  KitVisits(const protocol::Welcome* welcome, std::vector<KitRows>* rows) : welcome_(*welcome), rows_(*rows) {}

  // nullopt: the manifest has no such visit.
  std::optional<uint32_t> IdOf(std::string_view name) const;
  // What a RESULT does to a visit; `time_ms`: of the item that did it.
  void Apply(const protocol::VisitOp& op, int64_t time_ms);
  // The next rows of the first visit, by name, that is not paused; or its end. Empty: there is none. Valid until the
  // next call of Apply or Done.
  std::vector<KitDue> Next() const;
  // A row, or the end, was handled or given up.
  void Done(const KitDue& due);
  // Started and not ended.
  std::vector<std::string> UnderWay() const;

 private:
  struct Walk {
    int64_t started_ms = 0;
    std::optional<std::string> data, after;
    bool paused = false;
  };
  const std::string& NameOf(uint32_t visit) const { return welcome_.visits[visit].name; }

  const protocol::Welcome& welcome_;
  std::vector<KitRows>& rows_;
  std::map<uint32_t, Walk> walks_;
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_TESTING_VISITS_H_
