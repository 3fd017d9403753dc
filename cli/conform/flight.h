#ifndef MILLSTREAM_CLI_CONFORM_FLIGHT_H_
#define MILLSTREAM_CLI_CONFORM_FLIGHT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/conform/notation.h"
#include "cli/conform/store_model.h"
#include "cli/conform/window_rows.h"
#include "sidecar/protocol/messages.h"

namespace millstream::cli::conform {

// A record, a timer that is due, a window that closes or a row that is visited (key absent: the end of them) of a
// `batch` step, its names resolved.
struct CaseRecord {
  protocol::RecordItem::Type type = protocol::RecordItem::Type::kRecord;
  uint32_t input = 0;
  std::optional<std::string> key, value;
  std::vector<std::pair<std::string, std::optional<std::string>>> headers;
  int64_t timestamp_ms = 0;  // of a timer: when it was to be due
  int64_t offset = 0;
  uint32_t attempt = 1;
  std::vector<protocol::ItemWindow> windows;
  // A timer's.
  protocol::TimerClock clock = protocol::TimerClock::kEventTime;
  std::string name;
  // Of a window that closes.
  uint32_t store = 0;
  int64_t start_ms = 0, end_ms = 0;
  // Of a visit; its data is `value`, the time of its start the timestamp.
  uint32_t visit = 0;
};

// One batch of a case from its BATCH to its last RESULT. A worker may hand back its end unhandled: then the rest goes
// out under another seq, and what came back adds up here.
struct Flight {
  uint64_t seq = 0;      // as the case knows it
  uint64_t sent_as = 0;  // of the BATCH that is out
  int32_t task = 0;
  uint32_t flags = 0;
  std::optional<int64_t> watermark_ms;
  std::vector<CaseRecord> records;
  Json not_prefetched = Json::object();  // store -> [key] or true: left out of the state that travels along
  bool hook = false;                     // BEGIN, FINALIZE, LOAD, STORE: no records, and a failure of its own
  bool cancelled = false;
  bool ended = false;
  std::vector<uint32_t> extends;   // `done` of the EXTENDs since BATCH
  std::vector<uint64_t> requests;  // rids of GET and SCAN
  // What came back.
  size_t done = 0;
  int results = 0;       // RESULTs
  int idle_results = 0;  // of no item, in a row
  Json failure;
  Json state = Json::object();  // store -> key -> last value or null
  Json outputs = Json::array();
  Json timers = Json::array();  // [key, clock, name, time or null]
  Json visits = Json::array();  // [name, start|stop|pause|resume, data or null]
};

// The records of a `batch` step; {generate: {count, keys?, key, value}} stands for many. `next_offset` is counted on.
absl::StatusOr<std::vector<CaseRecord>> ReadRecords(const Json& list, const std::vector<std::string>& inputs,
                                                    const std::vector<std::string>& visits,
                                                    const std::vector<StoreShape>& shapes, int64_t* next_offset);

// The BATCH frame of what is left of the flight. `prefetched`: the stores whose values travel along, by their ids.
std::string BatchFrame(const Flight& flight, const StoreModel& model, const std::vector<std::string>& stores,
                       const std::vector<StoreShape>& shapes, const std::vector<size_t>& prefetched);

// What the sidecar does when items are done, beside the writes of the worker: the sessions that a record connected
// become one, which has an empty value if nothing was written. `done`: items of this RESULT.
void JoinSessions(const std::vector<StoreShape>& shapes, size_t done, Flight* flight, StoreModel* model);

// `state`, `outputs`, `timers` and `visits` of a `result` step in the form of Flight, for comparison.
absl::StatusOr<Json> ReadExpectedState(const Json& state, const std::vector<StoreShape>& shapes);
absl::StatusOr<Json> ReadExpectedTimers(const Json& timers);
absl::StatusOr<Json> ReadExpectedVisits(const Json& visits);
absl::StatusOr<Json> ReadExpectedOutputs(const Json& outputs);

}  // namespace millstream::cli::conform

#endif  // MILLSTREAM_CLI_CONFORM_FLIGHT_H_
