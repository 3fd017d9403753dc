#ifndef MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_VISITS_H_
#define MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_VISITS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/base/bytes.h"

// Visits in the scripted world: some records start the walk over kTotals, with their id as its data; each row that is
// visited emits a record, and so does the end. Which rows a walk meets depends on what it meets them beside; the model
// knows which it must meet, which it may, and that none comes twice.
namespace millstream::engine::testing {

bool StartsVisit(int64_t id);
// `data`: of the visit's start. No other output looks like these.
std::string VisitedOutput(std::string_view data, std::string_view key);
std::string VisitEndOutput(std::string_view data);
bool IsVisitOutput(std::string_view output);

// One task.
class VisitModel {
 public:
  // A record that was handled, in the order of the log; `rows`: of kTotals, with its effects.
  void Handled(const std::optional<std::string>& key, int64_t id, const std::map<Bytes, Bytes>& rows);
  // What is wrong with how often each output came, empty if nothing. `once`: none may repeat.
  std::string Check(const std::map<std::string, int>& came, bool once,
                    const std::function<bool(const std::string&)>& may_be_lost) const;

 private:
  std::set<std::string> allowed_;  // beginnings of outputs: of every start
  std::string last_;               // data of the last start; the ones before may have been cut off. Empty: none
  std::set<Bytes> must_;           // rows there from then on to the end
};

}  // namespace millstream::engine::testing

#endif  // MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_VISITS_H_
