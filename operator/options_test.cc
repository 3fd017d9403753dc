#include "operator/options.h"

#include <map>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::program {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Options> Parse(std::vector<std::string> arguments,
                              const std::map<std::string, std::string>& environment = {}) {
  return ParseOptions(std::move(arguments), [environment](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}

TEST(OptionsTest, DefaultsAndEnvironment) {
  const auto options = Parse({"--sidecar-image", "registry.example.com/sidecar:1"},
                             {{"POD_NAMESPACE", "millstream-system"}, {"POD_NAME", "millstream-operator-abc"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->model.sidecar_image, "registry.example.com/sidecar:1");
  EXPECT_EQ(options->operator_namespace, "millstream-system");
  EXPECT_EQ(options->model.operator_namespace, "millstream-system");
  EXPECT_EQ(options->identity, "millstream-operator-abc");
  EXPECT_TRUE(options->namespaces.empty());
  EXPECT_TRUE(options->leader_election);
  EXPECT_EQ(options->lease_name, "millstream-operator");
  EXPECT_EQ(options->model.cluster_name, "local");
  EXPECT_EQ(options->http_port, 8080);
  EXPECT_EQ(options->log_format, LogFormat::kJson);
}

TEST(OptionsTest, Everything) {
  const auto options = Parse({"--sidecar-image=s:1",
                              "--namespaces",
                              "b,a,b",
                              "--operator-namespace",
                              "ops",
                              "--leader-elect=false",
                              "--lease-name",
                              "r-operator",
                              "--cluster-name",
                              "east",
                              "--max-concurrent-rollouts",
                              "3",
                              "--openshift",
                              "--network-policies",
                              "--network-peers",
                              R"([{"podSelector": {}}])",
                              "--pod-monitors",
                              "--pod-monitor-labels",
                              "release=prometheus,team=",
                              "--workers",
                              "8",
                              "--http-address",
                              "127.0.0.1",
                              "--http-port",
                              "0",
                              "--log-level",
                              "debug",
                              "--log-format",
                              "text"},
                             {{"POD_NAMESPACE", "elsewhere"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->namespaces, ElementsAre("a", "b"));
  EXPECT_EQ(options->operator_namespace, "ops");
  EXPECT_FALSE(options->leader_election);
  EXPECT_EQ(options->lease_name, "r-operator");
  EXPECT_EQ(options->model.cluster_name, "east");
  EXPECT_EQ(options->max_concurrent_rollouts, 3);
  EXPECT_TRUE(options->model.openshift);
  EXPECT_TRUE(options->model.network_policies);
  EXPECT_EQ(options->model.network_peers.size(), 1u);
  EXPECT_TRUE(options->model.pod_monitors);
  EXPECT_EQ(options->model.pod_monitor_labels.at("release"), "prometheus");
  EXPECT_EQ(options->model.pod_monitor_labels.at("team"), "");
  EXPECT_EQ(options->workers, 8);
  EXPECT_EQ(options->http_port, 0);
  EXPECT_EQ(options->log_level, LogLevel::kDebug);
  EXPECT_EQ(options->log_format, LogFormat::kText);
  EXPECT_FALSE(Parse({"--sidecar-image=s:1", "--no-leader-elect"})->leader_election);
}

TEST(OptionsTest, RefusalsNameTheOption) {
  const std::map<std::string, std::vector<std::string>> cases = {
      {"--sidecar-image", {}},
      {"--network-peers", {"--sidecar-image=s", "--network-peers", "{}"}},
      {"--network-peers is not JSON", {"--sidecar-image=s", "--network-peers", "[1"}},
      {"--pod-monitor-labels", {"--sidecar-image=s", "--pod-monitor-labels", "release"}},
      {"--namespaces", {"--sidecar-image=s", "--namespaces", "Orders"}},
      {"--lease-name", {"--sidecar-image=s", "--lease-name", "-"}},
      {"--cluster-name", {"--sidecar-image=s", "--cluster-name", "a/b"}},
      {"--http-port", {"--sidecar-image=s", "--http-port", "65536"}},
      {"--log-level", {"--sidecar-image=s", "--log-level", "loud"}},
      {"--nonsense", {"--sidecar-image=s", "--nonsense"}},
  };
  for (const auto& [named, arguments] : cases) {
    const auto options = Parse(arguments);
    EXPECT_TRUE(absl::IsInvalidArgument(options.status())) << named << ": " << options.status();
    EXPECT_THAT(std::string(options.status().message()), HasSubstr(named));
  }
}

TEST(OptionsTest, HelpAndVersion) {
  const auto help = Parse({"--help"});
  EXPECT_TRUE(absl::IsCancelled(help.status()));
  EXPECT_THAT(std::string(help.status().message()), HasSubstr("--max-concurrent-rollouts"));
  const auto version = Parse({"--version"});
  EXPECT_TRUE(absl::IsCancelled(version.status()));
  EXPECT_THAT(std::string(version.status().message()), HasSubstr("millstream-operator "));
  EXPECT_EQ(Parse({"--probe", "http://127.0.0.1:8080/readyz"})->probe, "http://127.0.0.1:8080/readyz");
}

}  // namespace
}  // namespace millstream::program
