#include "cli/kubernetes/cluster_state.h"

#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A sidecar that has some of the tasks, each with one row: key `k<task>`, value the task.
StateHolder Sidecar(const std::string& name, const std::map<int, std::string>& states) {
  const auto ask = [states](const std::string& path) -> absl::StatusOr<std::string> {
    if (path == "/v1/tasks") {
      std::string tasks;
      for (const auto& [task, state] : states)
        StrAppend(&tasks, tasks.empty() ? "" : ",", "{\"task\":", task, ",\"state\":\"", state, "\"}");
      return StrCat("{\"tasks\":[", tasks, "]}");
    }
    if (absl::StrContains(path, "/range")) {
      std::string rows;
      for (const auto& [task, state] : states) {
        if (state != "active") continue;
        StrAppend(&rows, rows.empty() ? "" : ",", "{\"key\":\"", absl::BytesToHexString(StrCat("k", task)),
                  "\",\"value\":\"\",\"task\":", task, "}");
      }
      return StrCat("{\"rows\":[", rows, "],\"cursor\":null}");
    }
    for (const auto& [task, state] : states) {
      if (!absl::StrContains(path, StrCat("/keys/", absl::BytesToHexString(StrCat("k", task)), "?"))) continue;
      if (state == "active") return StrCat("{\"value\":\"\",\"task\":", task, "}");
      if (state == "restoring") return absl::UnavailableError("restoring");
    }
    return absl::Status(states.count(9) > 0 ? absl::StatusCode::kNotFound : absl::StatusCode::kUnavailable, "not here");
  };
  return {.name = name, .ask = ask};
}

StateQuery Query(const std::string& key) {
  StateQuery query;
  query.store = "s";
  query.key = key;
  return query;
}

std::vector<std::string> Keys(const std::vector<StateRow>& rows) {
  std::vector<std::string> keys;
  for (const StateRow& row : rows) keys.push_back(row.key);
  return keys;
}

TEST(ClusterStateTest, AKeyIsAskedForUntilSomebodyHasItsTask) {
  const auto state =
      NewClusterState({Sidecar("pod a", {{0, "active"}, {1, "idle"}}), Sidecar("pod b", {{0, "idle"}, {1, "active"}})});
  const auto rows = state->GetState(Query("k1"));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->front().task, 1);
  EXPECT_TRUE(absl::IsUnavailable(state->GetState(Query("k7")).status()));
}

TEST(ClusterStateTest, AScanIsOverAllTasksInTheOrderOfKeys) {
  const auto state = NewClusterState({Sidecar("pod a", {{0, "active"}, {1, "idle"}, {2, "active"}}),
                                      Sidecar("pod b", {{0, "idle"}, {1, "active"}, {2, "idle"}})});
  auto rows = state->ScanState(Query(""));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(Keys(*rows), ElementsAre("k0", "k1", "k2"));
  StateQuery last = Query("");
  last.reverse = true;
  last.limit = 2;
  rows = state->ScanState(last);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(Keys(*rows), ElementsAre("k2", "k1"));
}

TEST(ClusterStateTest, ALookupIsNotShownOncePerPod) {
  const auto state = NewClusterState({Sidecar("pod a", {{0, "active"}}), Sidecar("pod b", {{0, "active"}})});
  const auto rows = state->ScanState(Query(""));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(Keys(*rows), ElementsAre("k0"));
}

TEST(ClusterStateTest, AScanIsRefusedWhileATaskIsWithNobody) {
  const auto state = NewClusterState(
      {Sidecar("pod a", {{0, "active"}, {1, "idle"}}), Sidecar("pod b", {{0, "idle"}, {1, "restoring"}})});
  const absl::Status refused = state->ScanState(Query("")).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("task 1 is open in no pod"));
  EXPECT_TRUE(absl::IsUnavailable(NewClusterState({})->ScanState(Query("")).status()));
}

}  // namespace
}  // namespace millstream::cli
