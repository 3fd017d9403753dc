#include "operator/kube/config.h"

#include <filesystem>
#include <fstream>
#include <map>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "operator/kube/watched_file.h"

namespace millstream::kube {
namespace {

using ::testing::HasSubstr;

class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "kube-config-XXXXXX").string();
    MS_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  std::string Write(const std::string& name, std::string_view text) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
    return path_ + "/" + name;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Environment Of(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

constexpr char kKubeconfig[] = R"(apiVersion: v1
kind: Config
current-context: one
contexts:
- name: one
  context: {cluster: here, user: admin, namespace: orders}
- name: two
  context: {cluster: there, user: robot}
- name: broken
  context: {cluster: nowhere, user: admin}
- name: cloud
  context: {cluster: here, user: cloud}
clusters:
- name: here
  cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: Q0E=}
- name: there
  cluster: {server: "https://there:6443", certificate-authority: pki/ca.crt}
users:
- name: admin
  user: {client-certificate-data: Q0VSVA==, client-key-data: S0VZ}
- name: robot
  user: {token: secret}
- name: cloud
  user:
    exec: {command: cloud-login}
)";

TEST(KubeconfigTest, CurrentContextWithInlineCertificates) {
  const auto config = ParseKubeconfig(kKubeconfig, "/etc/kube/config", "");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://127.0.0.1:6443");
  EXPECT_EQ(config->ca_pem, "CA");
  EXPECT_EQ(config->certificate_pem, "CERT");
  EXPECT_EQ(config->key_pem, "KEY");
  EXPECT_EQ(config->name_space, "orders");
  EXPECT_EQ(config->source, "/etc/kube/config, context one");
}

TEST(KubeconfigTest, NamedContextWithFilesAndToken) {
  const auto config = ParseKubeconfig(kKubeconfig, "/etc/kube/config", "two");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->ca_file, "/etc/kube/pki/ca.crt");
  EXPECT_EQ(config->token, "secret");
  EXPECT_EQ(config->name_space, "default");
}

TEST(KubeconfigTest, WhatIsMissingIsNamed) {
  EXPECT_THAT(std::string(ParseKubeconfig(kKubeconfig, "f", "three").status().message()),
              HasSubstr("no 'three' among its contexts"));
  EXPECT_THAT(std::string(ParseKubeconfig(kKubeconfig, "f", "broken").status().message()),
              HasSubstr("no 'nowhere' among its clusters"));
  EXPECT_THAT(std::string(ParseKubeconfig("a: [", "f", "").status().message()), HasSubstr("f:"));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseKubeconfig("5", "f", "").status()));
}

TEST(KubeconfigTest, WhatIsNotSupportedIsRefusedWithAWayOut) {
  const absl::Status refused = ParseKubeconfig(kKubeconfig, "f", "cloud").status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("exec is not supported; use a client certificate or a token"));
  constexpr char kInsecure[] = R"({current-context: a, contexts: [{name: a, context: {cluster: c}}],
      clusters: [{name: c, cluster: {server: "https://x:1", insecure-skip-tls-verify: true}}]})";
  EXPECT_THAT(std::string(ParseKubeconfig(kInsecure, "f", "").status().message()),
              HasSubstr("insecure-skip-tls-verify"));
}

TEST(InClusterConfigTest, FilesOfThePod) {
  TestFolder folder;
  folder.Write("token", "t1\n");
  folder.Write("ca.crt", "CA");
  folder.Write("namespace", "millstream\n");
  const Environment environment = Of({{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "443"}});
  const auto config = InClusterConfig(environment, folder.path());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://[fd00::1]:443");
  EXPECT_EQ(config->name_space, "millstream");
  EXPECT_EQ(config->token_file, folder.path() + "/token");
}

TEST(InClusterConfigTest, SaysWhatIsMissing) {
  TestFolder folder;
  EXPECT_TRUE(absl::IsFailedPrecondition(InClusterConfig(Of({}), folder.path()).status()));
  const Environment environment = Of({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"KUBERNETES_SERVICE_PORT", "443"}});
  const absl::Status status = InClusterConfig(environment, folder.path()).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("automountServiceAccountToken"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/token"));
}

TEST(FindConfigTest, InTheOrderOfKubectl) {
  TestFolder folder;
  const std::string file = folder.Write("config", kKubeconfig);
  EXPECT_TRUE(FindConfig(file, "", Of({})).ok());
  EXPECT_TRUE(FindConfig("", "", Of({{"KUBECONFIG", file}})).ok());
  EXPECT_THAT(std::string(FindConfig("", "", Of({{"KUBECONFIG", "a:b"}})).status().message()), HasSubstr("--flatten"));
  std::filesystem::create_directory(folder.path() + "/.kube");
  folder.Write(".kube/config", kKubeconfig);
  EXPECT_TRUE(FindConfig("", "", Of({{"HOME", folder.path()}})).ok());
}

TEST(WatchedFileTest, IsReadAgainAfterAMinuteOrWhenExpired) {
  TestFolder folder;
  FakeClock clock;
  WatchedFile file(folder.Write("token", "one"), &clock);
  EXPECT_EQ(*file.Contents(), "one");
  folder.Write("token", "two");
  EXPECT_EQ(*file.Contents(), "one");
  clock.Advance(WatchedFile::kMaxAge);
  EXPECT_EQ(*file.Contents(), "two");
  folder.Write("token", "three");
  file.Expire();
  EXPECT_EQ(*file.Contents(), "three");
}

TEST(WatchedFileTest, KeepsWhatItHasWhileThereIsNothing) {
  TestFolder folder;
  FakeClock clock;
  WatchedFile file(folder.Write("token", "one"), &clock);
  EXPECT_EQ(*file.Contents(), "one");
  folder.Write("token", "");
  file.Expire();
  EXPECT_EQ(*file.Contents(), "one");
  std::filesystem::remove(file.path());
  file.Expire();
  EXPECT_EQ(*file.Contents(), "one");
  folder.Write("token", "two");
  EXPECT_EQ(*file.Contents(), "two");
}

TEST(WatchedFileTest, ErrorsNameThePath) {
  TestFolder folder;
  FakeClock clock;
  WatchedFile missing(folder.path() + "/none", &clock);
  EXPECT_TRUE(absl::IsNotFound(missing.Contents().status()));
  EXPECT_THAT(std::string(missing.Contents().status().message()), HasSubstr(missing.path()));
  WatchedFile large(folder.Write("large", std::string(WatchedFile::kMaxBytes + 1, 'x')), &clock);
  EXPECT_TRUE(absl::IsResourceExhausted(large.Contents().status()));
}

}  // namespace
}  // namespace millstream::kube
