// The process as main runs it: threads, HTTP and the real transport, against an API server in memory behind HTTP.
#include "operator/process.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <list>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/http/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "operator/kube/testing/fake_api_server.h"

namespace millstream::program {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kDeadline = absl::Seconds(60);

bool Eventually(const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + kDeadline;
  while (absl::Now() < deadline) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(20));
  }
  return false;
}

// The API server in memory, over HTTP. A watch is answered after a while with what has happened by then.
class ApiOverHttp {
 public:
  ApiOverHttp() {
    http::ServerOptions options;
    options.max_connections = 256;
    auto started = http::Server::Start(
        options, [this](http::Request request, http::Responder respond) { Handle(request, std::move(respond)); });
    MS_CHECK_OK(started);
    server_ = *std::move(started);
  }
  ~ApiOverHttp() {
    server_->Stop(absl::Seconds(1));
    for (std::thread& thread : waiting_) thread.join();
  }
  kube::FakeApiServer& objects() { return objects_; }
  std::string url() const { return "http://" + server_->authority(); }
  // Answers to PATCH (server-side apply) wait until Release.
  void Hold() { held_ = true; }
  void Release() { released_.Notify(); }
  bool holds() const { return holds_; }

 private:
  void Handle(const http::Request& request, http::Responder respond) {
    kube::HttpCall call;
    call.method = request.method;
    call.target = request.path;
    char separator = '?';
    for (const auto& [name, value] : request.query) {
      StrAppend(&call.target, std::string(1, separator), name, "=", http::PercentEncode(value));
      separator = '&';
    }
    for (const auto& [name, value] : request.headers) {
      if (name == "Content-Type" || name == "content-type") call.content_type = value;
    }
    call.body = request.body;
    if (!absl::StrContains(call.target, "watch=") && !(held_ && call.method == "PATCH")) {
      const absl::StatusOr<kube::HttpAnswer> answer = transport_->Do(call);
      return respond({answer->status, "application/json", answer->body, {}});
    }
    absl::MutexLock lock(&mutex_);
    if (held_ && call.method == "PATCH") {
      holds_ = true;
      waiting_.emplace_back([this, respond] {
        released_.WaitForNotification();
        respond({503, "application/json", "{}", {}});
      });
      return;
    }
    waiting_.emplace_back([this, call, respond] {
      absl::SleepFor(absl::Milliseconds(200));
      std::string body;
      const absl::StatusOr<kube::HttpAnswer> answer =
          transport_->Stream(call, absl::Seconds(1), http::Interruption(), [&body](std::string_view piece) {
            body += piece;
            return absl::OkStatus();
          });
      respond({answer->status, "application/json", answer->status == 200 ? body : answer->body, {}});
    });
  }

  kube::FakeApiServer objects_{&SystemClock()};
  std::unique_ptr<kube::Transport> transport_ = objects_.Connect();
  absl::Mutex mutex_;
  std::list<std::thread> waiting_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> held_{false}, holds_{false};
  absl::Notification released_;
  std::unique_ptr<http::Server> server_;
};

// The system's clock, which may be told that much time has passed.
class LeapingClock : public Clock {
 public:
  absl::Time WallTime() const override { return SystemClock().WallTime(); }
  absl::Duration Monotonic() const override {
    return SystemClock().Monotonic() + absl::Nanoseconds(leapt_.load(std::memory_order_relaxed));
  }
  void Leap(absl::Duration step) { leapt_ += absl::ToInt64Nanoseconds(step); }

 private:
  std::atomic<int64_t> leapt_{0};
};

void MakeProcessor(kube::Json* object) {
  (*object)["spec"] = kube::Json{{"kafka", {{"bootstrapServers", "kafka:9092"}}},
                                 {"inputs", kube::Json::array({{{"topic", "payments"}}})},
                                 {"container", {{"image", "registry.example.com/totals:1"}}}};
}

class ProcessTest : public ::testing::Test {
 protected:
  ProcessTest() {
    std::string name = (std::filesystem::temp_directory_path() / "operator-process-XXXXXX").string();
    MS_CHECK(mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~ProcessTest() override { std::filesystem::remove_all(folder_); }

  Options OptionsFor(const std::string& url) const {
    std::ofstream(folder_ + "/config") << "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                                       << "clusters: [{name: k, cluster: {server: \"" << url << "\"}}]\n"
                                       << "users: [{name: u, user: {token: t}}]\n"
                                       << "contexts: [{name: c, context: {cluster: k, user: u, namespace: ops}}]\n";
    Options options;
    options.kubeconfig = folder_ + "/config";
    options.identity = "pod";
    options.model.sidecar_image = "registry.example.com/sidecar:1";
    options.http_address = "127.0.0.1";
    options.http_port = 0;
    return options;
  }
  static std::unique_ptr<Process> Start(const Options& options, const Clock* clock = &SystemClock()) {
    auto process = Process::Start(
        options, [](const std::string&) { return std::nullopt; }, clock);
    MS_CHECK_OK(process);
    return *std::move(process);
  }
  static http::Response Ask(const Process& process, const std::string& path) {
    const auto response = http::Get(StrCat("http://127.0.0.1:", process.http_port(), path), absl::Seconds(30));
    MS_CHECK_OK(response);
    return *response;
  }

  std::string folder_;
};

TEST_F(ProcessTest, WorksWhileItLeadsAndReleasesTheLease) {
  ApiOverHttp api;
  api.objects().Edit(kube::kStreamProcessors, {"orders", "totals"}, MakeProcessor);
  const auto process = Start(OptionsFor(api.url()));
  EXPECT_TRUE(Eventually([&] { return !api.objects().Read(kube::kConfigMaps, {"orders", "totals"}).is_null(); }));
  EXPECT_TRUE(Eventually([&] { return Ask(*process, "/readyz").status == 200; }));
  EXPECT_EQ(Ask(*process, "/healthz").status, 200);
  const kube::ObjectKey lease{"ops", "millstream-operator"};
  EXPECT_EQ(kube::TextAt(api.objects().Read(kube::kLeases, lease), {"spec", "holderIdentity"}), process->identity());
  const std::string metrics = Ask(*process, "/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("millstream_operator_leader 1"));
  EXPECT_THAT(metrics, HasSubstr("millstream_operator_info{version="));
  EXPECT_TRUE(Eventually(
      [&] { return absl::StrContains(Ask(*process, "/metrics").body, "millstream_operator_reconcile_total"); }));
  EXPECT_TRUE(process->Stop(kDeadline));
  EXPECT_EQ(kube::TextAt(api.objects().Read(kube::kLeases, lease), {"spec", "holderIdentity"}, "?"), "");
}

TEST_F(ProcessTest, APassThatDoesNotEndIsAReasonForARestart) {
  ApiOverHttp api;
  LeapingClock clock;
  api.objects().Edit(kube::kStreamProcessors, {"orders", "totals"}, MakeProcessor);
  api.Hold();
  const auto process = Start(OptionsFor(api.url()), &clock);
  ASSERT_TRUE(Eventually([&] { return api.holds(); }));
  EXPECT_EQ(Ask(*process, "/healthz").status, 200);
  clock.Leap(absl::Minutes(6));
  const http::Response sick = Ask(*process, "/healthz");
  EXPECT_EQ(sick.status, 503);
  EXPECT_THAT(sick.body, HasSubstr("does not end"));
  // Its term is over by then, too: that it is waited for does not hide it.
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(Ask(*process, "/metrics").body, "operator_leader 0"); }));
  EXPECT_EQ(Ask(*process, "/healthz").status, 503);
  api.Release();
  EXPECT_TRUE(Eventually([&] { return Ask(*process, "/healthz").status == 200; }));
  EXPECT_TRUE(process->Stop(kDeadline));
}

TEST_F(ProcessTest, AnApiServerThatIsAwayIsSaidAndNoReasonToEnd) {
  std::string url;
  {
    ApiOverHttp gone;
    url = gone.url();
  }
  const auto process = Start(OptionsFor(url));
  EXPECT_EQ(Ask(*process, "/healthz").status, 200);
  EXPECT_TRUE(Eventually([&] { return Ask(*process, "/readyz").body.size() > 3; }));
  EXPECT_EQ(Ask(*process, "/readyz").status, 503);
  EXPECT_THAT(Ask(*process, "/metrics").body, HasSubstr("millstream_operator_leader 0"));
  EXPECT_TRUE(process->Stop(kDeadline));
}

TEST_F(ProcessTest, AConfigurationThatCannotBeUsedIsNamed) {
  Options options = OptionsFor("http://127.0.0.1:1");
  options.kubeconfig = folder_ + "/missing";
  const auto process = Process::Start(
      options, [](const std::string&) { return std::nullopt; }, &SystemClock());
  EXPECT_THAT(std::string(process.status().message()), HasSubstr("/missing"));
}

}  // namespace
}  // namespace millstream::program
