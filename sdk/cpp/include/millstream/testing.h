#ifndef MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TESTING_H_
#define MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TESTING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "millstream/worker.h"

namespace millstream::worker {

/// A record to feed.
struct TestRecord {
  std::optional<std::string> key = {};       ///< nullopt: none
  std::optional<std::string> value = {};     ///< nullopt: a tombstone
  std::optional<int64_t> timestamp_ms = {};  ///< since 1970; nullopt: the kit's clock
  /// In order; names may repeat.
  std::vector<std::pair<std::string, std::optional<std::string>>> headers = {};
};

/// A record that a handler sent to an output.
struct TestOutput {
  std::optional<std::string> key = {};       ///< nullopt: none
  std::optional<std::string> value = {};     ///< nullopt: a tombstone
  std::optional<int64_t> timestamp_ms = {};  ///< nullopt: the sidecar's clock
  /// In order; names may repeat.
  std::vector<std::pair<std::string, std::optional<std::string>>> headers = {};
  std::optional<int32_t> partition = {};  ///< nullopt: by key
  /// Equal in all of it.
  friend bool operator==(const TestOutput&, const TestOutput&) = default;
};

/// A store of type Window. Times are in milliseconds.
struct TestWindows {
  std::string name = {};     ///< in the manifest
  int64_t size_ms = 0;       ///< of a window, above 0
  int64_t advance_ms = 0;    ///< from one beginning to the next; 0: the size
  int64_t grace_ms = 0;      ///< how long it takes late records behind its end
  int64_t retention_ms = 0;  ///< from its beginning, how long it can be read; 0: size and grace
  bool final = false;        ///< `emit: Final`: its handler is called when it closes
  bool prefetched = true;    ///< whether values travel with the batch
};

/// A store of type Session. Times are in milliseconds.
struct TestSessions {
  std::string name = {};     ///< in the manifest
  int64_t gap_ms = 0;        ///< two records further apart are of two sessions; above 0
  int64_t grace_ms = 0;      ///< how long it takes late records behind its end and gap
  int64_t retention_ms = 0;  ///< from its end, how long it can be read; 0: gap and grace
  bool final = false;        ///< `emit: Final`: its handler is called when it closes
  bool prefetched = true;    ///< whether values travel with the batch
};

/// A visit.
struct TestVisit {
  std::string name = {};   ///< in the manifest
  std::string store = {};  ///< that it walks
};

/// What the manifest declares.
struct TestSetup {
  std::vector<std::string> stores = {};             ///< their values travel with the batch
  std::vector<std::string> unfetched = {};          ///< stores whose values are asked for
  std::vector<std::string> outputs = {};            ///< their names
  int64_t max_bytes = 1 << 20;                      ///< of a stored value, and of an output record
  std::vector<TestWindows> windows = {};            ///< stores of type Window
  std::vector<TestSessions> sessions = {};          ///< stores of type Session
  bool timers = false;                              ///< the program may set timers
  std::vector<TestVisit> visits = {};               ///< of the stores above
  std::vector<std::string> joins = {};              ///< their names
  std::vector<std::string> lookups = {};            ///< their names
  std::map<std::string, int64_t> lateness_ms = {};  ///< by input: how far it holds back event time; none: 0
  /// `latePolicy: Process`: records that are late for all their windows reach the handler, without windows.
  bool process_late = false;
};

/// A window or session that has a row. A session without a value has an empty one.
struct TestWindow {
  std::string key = {};    ///< its key
  Window window = {};      ///< its bounds
  std::string value = {};  ///< its value
  /// Equal in all of it.
  friend bool operator==(const TestWindow&, const TestWindow&) = default;
};

/// A timer that is not due yet.
struct TestTimer {
  int64_t time_ms = 0;                        ///< when it will be, since 1970
  std::string name = {};                      ///< its name
  std::string key = {};                       ///< its key
  TimerClock clock = TimerClock::kEventTime;  ///< what it goes by
  /// Equal in all of it.
  friend bool operator==(const TestTimer&, const TestTimer&) = default;
};

/// Runs the handlers of an App without a sidecar: records go through the same code as in production (codecs, read your
/// writes, the prefix rule, limits, windows, sessions, timers), state and outputs are kept in memory. Event time is
/// that of the records fed; timers of the wall clock follow Advance. What becomes due is delivered before a call
/// returns, so are all rows of a visit that is started, and what was sent to the output `loop` comes back to the input
/// of that name. Not imitated: retries, partitions, the log. Not thread-safe.
///
///     TestKit kit(app, {.stores = {"counts"}, .outputs = {"word-counts"}});
///     ASSERT_TRUE(kit.Feed("words", {.key = "tea"}).ok());
///     EXPECT_EQ(kit.State("counts").at("tea"), "1");
class TestKit {
 public:
  /// `app`: with all its handlers; has to outlive the kit.
  TestKit(const App& app, TestSetup setup);
  ~TestKit();

  /// One record as a batch. OK: handled, its effects are there. Else what the sidecar would be told, "CLASS: message"
  /// with FailedPrecondition where it would not be tried again and Aborted where it would; nothing of it counts. A
  /// timer, closing window or visited row that fails is given up, and told the same way. InvalidArgument: the app has
  /// no such input. FailedPrecondition too: program and setup do not fit, as a sidecar's WELCOME that the program
  /// refuses.
  absl::Status Feed(std::string_view input, const TestRecord& record);
  /// Several records as one batch. The prefix rule: those before a failing one count, those behind it are not handled.
  absl::Status FeedBatch(std::string_view input, const std::vector<TestRecord>& records);
  /// Lets the clock go on, and delivers timers of the wall clock that it makes due. Event time only moves with records.
  absl::Status Advance(int64_t milliseconds);

  /// Starts a visit as a handler would, at now_ms(), and lets it run to its end. InvalidArgument: there is no such
  /// visit; else as Feed.
  absl::Status StartVisit(std::string_view name, MaybeView data = {});

  /// The clock, milliseconds since 1970: some time in 2023 at first.
  int64_t now_ms() const;
  /// How far event time has come; nullopt: no record yet.
  std::optional<int64_t> watermark_ms() const;
  /// Records that were late for all their windows.
  int64_t late_records() const;

  /// Keys and values of a store, join or lookup; empty for one that was not declared. Of windows and sessions see
  /// Windows.
  const std::map<std::string, std::string>& State(std::string_view name) const;
  /// Puts a value there before the next record: state, or what the topic of a join or lookup said.
  void SetState(std::string_view name, std::string_view key, std::string_view value);
  /// The rows of a store of windows or sessions, by key and beginning.
  std::vector<TestWindow> Windows(std::string_view store) const;
  /// Timers that are not due yet, the next one first.
  std::vector<TestTimer> Timers() const;
  /// The visits that were started and have not ended: those that are paused.
  std::vector<std::string> Visits() const;
  /// What was sent to an output, in order.
  std::vector<TestOutput> Outputs(std::string_view output) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TESTING_H_
