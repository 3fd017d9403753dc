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
  int64_t timestamp_ms = 1'700'000'000'000;  ///< since 1970
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

/// What the manifest declares.
struct TestSetup {
  std::vector<std::string> stores = {};     ///< their values travel with the batch
  std::vector<std::string> unfetched = {};  ///< stores whose values are asked for
  std::vector<std::string> outputs = {};    ///< their names
  int64_t max_bytes = 1 << 20;              ///< of a stored value, and of an output record
};

/// Runs the handlers of an App without a sidecar: records go through the same code as in production (codecs, read your
/// writes, the prefix rule, limits), state and outputs are kept in memory. Not thread-safe.
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
  /// with FailedPrecondition where it would not be tried again and Aborted where it would; nothing of it counts.
  /// InvalidArgument: the app has no such input.
  absl::Status Feed(std::string_view input, const TestRecord& record);
  /// Several records as one batch. The prefix rule: those before a failing one count, those behind it are not handled.
  absl::Status FeedBatch(std::string_view input, const std::vector<TestRecord>& records);

  /// Keys and values of a store; empty for one that was not declared.
  const std::map<std::string, std::string>& State(std::string_view store) const;
  /// Puts a value there before the next record.
  void SetState(std::string_view store, std::string_view key, std::string_view value);
  /// What was sent to an output, in order.
  std::vector<TestOutput> Outputs(std::string_view output) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_TESTING_H_
