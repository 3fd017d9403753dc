#include "sidecar/server/http_endpoints.h"

#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "absl/strings/escaping.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/http/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "sidecar/engine/windows.h"
#include "sidecar/server/http_endpoints_scan.h"
#include "sidecar/server/http_endpoints_values.h"

namespace millstream::server {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using Json = nlohmann::json;

constexpr int64_t kNowMs = 1'700'000'000'000;

// State in maps, answered on a thread of its own or at once.
class FakeBackend : public QueryBackend {
 public:
  ~FakeBackend() override {
    for (std::thread& thread : threads_) thread.join();
  }

  ProbeAnswer Health() const override { return {healthy, healthy ? "" : "the loop has not turned for 31 s"}; }
  ProbeAnswer Readiness() const override { return {ready, ready ? "" : "no worker has connected to /run/ms.sock"}; }
  ProcessorReport Tasks() const override { return report; }
  std::vector<std::string> Stores() const override { return {"totals", "odd name/ü"}; }
  bool IsLookup(store::StoreIndex) const override { return false; }
  const spec::StoreSpec* Windowed(store::StoreIndex) const override { return windowed ? &*windowed : nullptr; }
  TaskId TaskOf(std::string_view) const override { return TaskId(1); }
  std::vector<TaskId> TasksToScan() const override {
    std::vector<TaskId> tasks;
    for (const auto& [task, rows] : state) tasks.push_back(TaskId(task));
    return tasks;
  }

  void GetKey(store::StoreIndex store, Bytes key, std::optional<TaskId> task,
              std::function<void(absl::StatusOr<KeyAnswer>)> done) override {
    Answer([=, this]() {
      last_store = store;
      if (!failure.ok()) return done(failure);
      for (const auto& [number, rows] : state) {
        if (task ? number != task->value() : rows.count(key) == 0) continue;
        const auto row = rows.find(key);
        return done(KeyAnswer{row == rows.end() ? MaybeBytes() : MaybeBytes(row->second), Source(number)});
      }
      if (task) return done(absl::NotFoundError(StrCat("task ", task->value(), " is not here")));
      done(KeyAnswer{std::nullopt, Source(0)});
    });
  }

  void Scan(TaskId task, store::ScanRequest range, std::function<void(absl::StatusOr<ScanAnswer>)> done) override {
    Answer([=, this]() {
      if (!failure.ok()) return done(failure);
      if (state.count(task.value()) == 0)
        return done(absl::NotFoundError(StrCat("task ", task.value(), " is not here")));
      done(ScanAnswer{Page(state.at(task.value()), range), Source(task.value())});
    });
  }

  static AnswerSource Source(int task) {
    return {TaskId(task), "totals-0", {{"orders", Offset(100 + task)}}, kNowMs - 250};
  }

  // The contract of TaskStore::Scan in a few lines.
  static store::ScanPage Page(const std::map<Bytes, Bytes>& rows, const store::ScanRequest& range) {
    std::vector<std::pair<Bytes, Bytes>> found;
    for (const auto& row : rows) {
      if ((range.from && row.first < *range.from) || (range.to && row.first >= *range.to)) continue;
      if (range.after && (range.reverse ? row.first >= *range.after : row.first <= *range.after)) continue;
      found.push_back(row);
    }
    if (range.reverse) std::reverse(found.begin(), found.end());
    store::ScanPage page;
    size_t bytes = 0;
    for (auto& row : found) {
      bytes += row.first.size() + row.second.size();
      if (!page.rows.empty() && (page.rows.size() == range.max_rows || bytes > range.max_bytes)) {
        page.more = true;
        break;
      }
      page.rows.push_back(std::move(row));
    }
    return page;
  }

  bool healthy = true, ready = true, threaded = false;
  ProcessorReport report;
  std::optional<spec::StoreSpec> windowed;
  std::map<int, std::map<Bytes, Bytes>> state;
  absl::Status failure;
  std::atomic<uint32_t> last_store{99};

 private:
  void Answer(std::function<void()> answer) {
    if (!threaded) return answer();
    std::lock_guard<std::mutex> lock(mutex_);
    threads_.emplace_back(std::move(answer));
  }

  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

class Endpoints : public ::testing::Test {
 protected:
  Endpoints() : clock_(absl::FromUnixMillis(kNowMs)), metrics_(NewMetricsRegistry()) {
    HttpEndpointsOptions options;
    options.clock = &clock_;
    auto started = HttpEndpoints::Start(options, &backend_, metrics_.get());
    MS_CHECK_OK(started);
    endpoints_ = *std::move(started);
  }
  ~Endpoints() override { endpoints_ = nullptr; }

  http::Response Ask(const std::string& path) {
    auto response = http::Get(StrCat("http://", endpoints_->authority(), path), absl::Seconds(10));
    MS_CHECK_OK(response);
    return *response;
  }
  Json AskJson(const std::string& path, int status = 200) {
    const http::Response response = Ask(path);
    EXPECT_EQ(response.status, status) << path << "\n" << response.body;
    EXPECT_EQ(response.content_type, "application/json");
    Json json = Json::parse(response.body, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << response.body;
    return json;
  }
  std::string ErrorOf(const std::string& path, int status) { return AskJson(path, status)["error"].dump(); }

  FakeClock clock_;
  FakeBackend backend_;
  std::unique_ptr<MetricsRegistry> metrics_;
  std::unique_ptr<HttpEndpoints> endpoints_;
};

TEST_F(Endpoints, Probes) {
  EXPECT_EQ(Ask("/healthz").status, 200);
  EXPECT_EQ(Ask("/healthz").body, "ok\n");
  EXPECT_EQ(Ask("/readyz").status, 200);
  backend_.healthy = backend_.ready = false;
  EXPECT_EQ(Ask("/healthz").status, 503);
  EXPECT_EQ(Ask("/healthz").body, "the loop has not turned for 31 s\n");
  EXPECT_EQ(Ask("/readyz").status, 503);
  EXPECT_EQ(Ask("/readyz").body, "no worker has connected to /run/ms.sock\n");
}

TEST_F(Endpoints, Metrics) {
  metrics_->GetCounter("millstream_records_total", "Records committed.", {{"task", "3"}})->Add(7);
  const http::Response response = Ask("/metrics");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(response.body, HasSubstr("millstream_records_total{task=\"3\"} 7"));
}

TEST_F(Endpoints, TasksGolden) {
  backend_.report.processor = "totals";
  backend_.report.group = "default.totals";
  TaskReport active;
  active.task = TaskId(0);
  active.state = "active";
  active.inputs = {{"orders", "prod.orders", Partition(0), Offset(90), Offset(95), Offset(100)}};
  active.records = 90;
  active.attempt = 2;
  TaskReport restoring;
  restoring.task = TaskId(1);
  restoring.state = "restoring";
  restoring.inputs = {{"orders", "prod.orders", Partition(1), kNoOffset, kNoOffset, kNoOffset}};
  restoring.restore = TaskReport::Restore{"sums", Offset(5), Offset(50), 1234, 11106, absl::Milliseconds(8200)};
  TaskReport stopped;
  stopped.task = TaskId(2);
  stopped.state = "stopped";
  stopped.error = "record \"x\" failed";
  backend_.report.tasks = {active, restoring, stopped};
  backend_.report.conditions = {{"OffsetsLost", "task 2 is \"stopped\""}};
  backend_.report.member = "totals-0";
  backend_.report.version = "1.2.3";
  backend_.report.guarantee = "ExactlyOnce";
  backend_.report.drain = "Draining";
  backend_.report.in_group = true;
  backend_.report.workers = 2;
  backend_.report.orders = R"({"drain":true})";
  backend_.report.lag_records = 10;
  backend_.report.lag_time = absl::Milliseconds(2050);
  backend_.report.restore_bytes_left = 11106;
  backend_.report.restore_time_left = absl::Milliseconds(8100);
  EXPECT_EQ(
      Ask("/v1/tasks").body,
      R"({"processor":"totals","group":"default.totals","member":"totals-0","version":"1.2.3",)"
      R"("guarantee":"ExactlyOnce","state":"Running","drain":"Draining","drained":false,"inGroup":true,)"
      R"("ready":false,"workers":2,"workerConnected":true,"partitions":3,)"
      R"("summary":{"total":3,"active":1,"restoring":1,"standby":0,"stopped":1},)"
      R"("lag":{"records":10,"seconds":2.050},"restore":{"bytesLeft":11106,"etaSeconds":9},)"
      R"("firstError":{"task":2,"input":null,"topic":null,"partition":null,"offset":null,)"
      R"("message":"record \"x\" failed"},"orders":{"drain":true},"tasks":[)"
      R"({"task":0,"state":"active","inputs":[{"name":"orders","topic":"prod.orders","partition":0,"committed":90,)"
      R"("position":95,"end":100,"lag":10}],"records":90,"attempt":2},)"
      R"({"task":1,"state":"restoring","inputs":[{"name":"orders","topic":"prod.orders","partition":1,"committed":null,)"
      R"("position":null,"end":null,"lag":null}],"restore":{"store":"sums","position":5,"end":50,"bytes":1234,)"
      R"("bytesLeft":11106,"etaSeconds":9},"records":0},)"
      R"({"task":2,"state":"stopped","error":"record \"x\" failed","inputs":[],"records":0}],)"
      R"("conditions":[{"reason":"OffsetsLost","message":"task 2 is \"stopped\""}]})"
      "\n");
}

TEST_F(Endpoints, TheFirstErrorIsThatOfAStoppedTaskWithItsRecord) {
  TaskReport reopened, stopped;
  reopened.task = TaskId(0);
  reopened.state = "restoring";
  reopened.error = "cannot be opened";
  stopped.task = TaskId(1);
  stopped.state = "stopped";
  stopped.error = "failed";
  stopped.inputs = {{.name = "orders", .topic = "prod.orders", .partition = Partition(1)}};
  stopped.error_at = TaskReport::Place{0, Offset(17)};
  backend_.report.tasks = {reopened};
  EXPECT_EQ(AskJson("/v1/tasks")["firstError"]["task"], 0);
  backend_.report.tasks = {reopened, stopped};
  backend_.report.paused = true;
  const Json answer = AskJson("/v1/tasks");
  EXPECT_EQ(answer["firstError"].dump(), R"({"input":"orders","message":"failed","offset":17,"partition":1,)"
                                         R"("task":1,"topic":"prod.orders"})");
  EXPECT_EQ(answer["tasks"][1]["errorOffset"], 17);
  EXPECT_EQ(answer["state"], "Paused");
  EXPECT_EQ(answer["workerConnected"], false);
  EXPECT_TRUE(answer["orders"].is_null());
  EXPECT_TRUE(answer["lag"]["seconds"].is_null());
  EXPECT_EQ(answer["restore"]["etaSeconds"], 0);
}

TEST_F(Endpoints, KeyGolden) {
  backend_.state[3]["alice"] = R"({"spent": 12.50, "big": 12345678901234567890123})";
  EXPECT_EQ(Ask("/v1/stores/totals/keys/alice").body,
            R"({"value":{"spent": 12.50, "big": 12345678901234567890123},"format":"json","store":"totals",)"
            R"("owner":"totals-0","task":3,"position":{"orders":103},"ageMs":250})"
            "\n");
  const http::Response missing = Ask("/v1/stores/totals/keys/bob");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.body, R"({"error":{"code":"NOT_FOUND","message":"store 'totals' has no key 'bob'",)"
                          R"("hint":"keys that are not text need key.format=base64, hex or int64"},"store":"totals",)"
                          R"("owner":"totals-0","task":0,"position":{"orders":100},"ageMs":250})"
                          "\n");
  EXPECT_EQ(AskJson("/v1/stores")["stores"].dump(), R"(["totals","odd name/ü"])");
}

TEST_F(Endpoints, ValuesOfEveryKind) {
  const std::vector<std::tuple<Bytes, std::string, Json>> cases{
      {"7", "json", 7},
      {"\"text\"", "json", "text"},
      {"text", "utf8", "text"},
      {"", "utf8", ""},
      {"grün \n \"quoted\"", "utf8", "grün \n \"quoted\""},
      {Bytes("a\0b", 3), "utf8", Bytes("a\0b", 3)},
      {"\xff\xfe", "base64", "//4="},
      {"{\"a\": \"\xff\"}", "base64", absl::Base64Escape("{\"a\": \"\xff\"}")},
      {"NaN", "utf8", "NaN"},
  };
  for (const auto& [value, format, shown] : cases) {
    backend_.state[0]["k"] = value;
    const Json json = AskJson("/v1/stores/totals/keys/k");
    EXPECT_EQ(json["format"], format) << Readable(value);
    EXPECT_EQ(json["value"], shown) << Readable(value);
  }
  backend_.state[0]["k"] = Bytes("\0\0\0\0\0\0\x01\x00", 8);
  EXPECT_EQ(AskJson("/v1/stores/totals/keys/k?value.format=int64")["value"], 256);
  EXPECT_EQ(AskJson("/v1/stores/totals/keys/k?value.format=hex")["value"], "0000000000000100");
  EXPECT_EQ(AskJson("/v1/stores/totals/keys/k?value.format=base64")["value"], "AAAAAAAAAQA=");
  backend_.state[0]["k"] = "not eight";
  EXPECT_EQ(AskJson("/v1/stores/totals/keys/k?value.format=int64")["format"], "base64");
  EXPECT_EQ(AskJson("/v1/stores/totals/keys/k?value.format=json")["format"], "base64");
}

TEST_F(Endpoints, KeysOfEveryKind) {
  const Bytes zeros("a\0/ %+\xff", 7);
  backend_.state[0] = {{zeros, "binary"},
                       {"", "the empty key"},
                       {Bytes("\0\0\0\0\0\0\0\x2a", 8), "42"},
                       {Bytes("\xff\xff\xff\xff\xff\xff\xff\xff", 8), "-1"},
                       {"a+b", "plus"}};
  EXPECT_EQ(AskJson("/v1/stores/totals/keys/a%00%2F%20%25%2B%FF")["value"], "binary");
  EXPECT_EQ(AskJson("/v1/stores/totals/keys/")["value"], "the empty key");
  EXPECT_EQ(AskJson("/v1/stores/totals/keys/a+b")["value"], "plus");
  EXPECT_EQ(AskJson("/v1/stores/totals/keys/42?key.format=int64&value.format=utf8")["value"], "42");
  EXPECT_EQ(AskJson("/v1/stores/totals/keys/-1?key.format=int64")["value"], -1);
  EXPECT_EQ(AskJson("/v1/stores/totals/keys/6100"
                    "2f20252bff?key.format=hex")["value"],
            "binary");
  EXPECT_EQ(AskJson("/v1/stores/totals/keys/" + http::PercentEncode(absl::Base64Escape(absl::string_view(zeros))) +
                    "?key.format=base64")["value"],
            "binary");
  EXPECT_EQ(AskJson("/v1/stores/totals/keys/" + absl::WebSafeBase64Escape(absl::string_view(zeros)) +
                    "?key.format=base64")["value"],
            "binary");
  AskJson("/v1/stores/odd%20name%2F%C3%BC/keys/x", 404);
  EXPECT_EQ(backend_.last_store, 1u);
}

TEST_F(Endpoints, ErrorsSayWhatToDo) {
  backend_.state[0]["k"] = "v";
  EXPECT_THAT(ErrorOf("/nothing", 404), HasSubstr("/v1/stores/{store}/keys/{key}"));
  EXPECT_THAT(ErrorOf("/v1/stores/totalz/keys/k", 404),
              AllOf(HasSubstr("no store 'totalz'"), HasSubstr("stores: totals, odd name")));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/nope/k", 404), HasSubstr("there are: "));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/keys/a/b", 400), HasSubstr("%2F"));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/keys/x?key.format=hex", 400), HasSubstr("key 'x' is not hex"));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/keys/x?key.format=int64", 400), HasSubstr("64-bit integer"));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/keys/99999999999999999999?key.format=int64", 400),
              HasSubstr("64-bit integer"));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/keys/!?key.format=base64", 400), HasSubstr("base64"));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/keys/k?key.format=json", 400), HasSubstr("utf8, base64, hex or int64"));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/keys/k?key_format=hex", 400),
              HasSubstr("known: key.format, value.format, task"));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/keys/k?consistency=standby", 400), HasSubstr("not supported yet"));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/keys/k?read-through=a:1:2", 400), HasSubstr("not supported yet"));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/keys/k?task=x", 400), HasSubstr("/v1/tasks"));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/keys/k?task=9", 404), HasSubstr("task 9 is not here"));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/range?limit=0", 400), HasSubstr("1 to 1000"));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/range?limit=1001", 400), HasSubstr("by cursor"));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/range?reverse=maybe", 400), HasSubstr("neither true nor false"));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/range?cursor=%2F", 400), HasSubstr("not one of ours"));
  EXPECT_THAT(ErrorOf("/v1/tasks?x=1", 400), HasSubstr("'x' is not known"));
  backend_.failure = absl::UnavailableError("task 0 is restoring");
  EXPECT_THAT(ErrorOf("/v1/stores/totals/keys/k", 503), AllOf(HasSubstr("is restoring"), HasSubstr("ask again")));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/range", 503), HasSubstr("is restoring"));
  EXPECT_THAT(Ask("/v1/stores/totals/keys/k").headers, Contains(Pair("Retry-After", "1")));
  backend_.failure = absl::DataLossError("checksum");
  AskJson("/v1/stores/totals/keys/k", 503);
}

TEST_F(Endpoints, OnlyReading) {
  http::ClientRequest request;
  request.method = "DELETE";
  request.url = StrCat("http://", endpoints_->authority(), "/v1/stores/totals/keys/k");
  const auto response = http::Fetch(request);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->status, 405);
  EXPECT_THAT(response->headers, Contains(Pair("Allow", "GET, HEAD")));
}

// ---------------------------------------------------------------- ranges

TEST_F(Endpoints, RangeGolden) {
  backend_.state[0] = {{"a", "1"}, {"c", "3"}};
  backend_.state[1] = {{"b", "two"}, {"\xff", "4"}};
  EXPECT_EQ(Ask("/v1/stores/totals/range?limit=3").body,
            R"({"store":"totals","rows":[{"key":"a","keyFormat":"utf8","value":1,"format":"json","task":0},)"
            R"({"key":"b","keyFormat":"utf8","value":"two","format":"utf8","task":1},)"
            R"({"key":"c","keyFormat":"utf8","value":3,"format":"json","task":0}],)"
            R"("cursor":"AAAAAGM","sources":[{"owner":"totals-0","task":0,"position":{"orders":100},"ageMs":250},)"
            R"({"owner":"totals-0","task":1,"position":{"orders":101},"ageMs":250}]})"
            "\n");
  const Json last = AskJson("/v1/stores/totals/range?limit=3&cursor=AAAAAGM");
  EXPECT_EQ(last["rows"].size(), 1u);
  EXPECT_EQ(last["rows"][0]["key"], "/w==");
  EXPECT_EQ(last["rows"][0]["keyFormat"], "base64");
  EXPECT_TRUE(last["cursor"].is_null());
}

// ---------------------------------------------------------------- windows and sessions

TEST_F(Endpoints, WindowsGolden) {
  spec::StoreSpec& store = backend_.windowed.emplace();
  store.type = spec::StoreType::kWindow;
  store.window = {.size = absl::Minutes(1), .advance = absl::Minutes(1)};
  const auto put = [&](const std::string& key, int64_t start, const std::string& value) {
    backend_.state[1][engine::RowKey(store, key, engine::WindowAt(*store.window, start))] = value;
  };
  put("a", kNowMs - kNowMs % 60'000, "2");
  put("a", -60'000, "1");  // before 1970: its row sorts behind the others
  put("a" + Bytes(8, '\1'), 0, "of a longer key");
  put("b", 0, "3");
  EXPECT_EQ(Ask("/v1/stores/totals/keys/a").body,
            R"({"windows":[{"start":-60000,"end":0,"startTime":"1969-12-31T23:59:00.000Z",)"
            R"("endTime":"1970-01-01T00:00:00.000Z","value":1,"format":"json"},)"
            R"({"start":1699999980000,"end":1700000040000,"startTime":"2023-11-14T22:13:00.000Z",)"
            R"("endTime":"2023-11-14T22:14:00.000Z","value":2,"format":"json"}],"more":false,"store":"totals",)"
            R"("owner":"totals-0","task":1,"position":{"orders":101},"ageMs":250})"
            "\n");
  EXPECT_EQ(Ask("/v1/stores/totals/keys/c").status, 404);
  EXPECT_THAT(ErrorOf("/v1/stores/totals/keys/a?task=7", 404), HasSubstr("task 7"));
  const Json rows = AskJson("/v1/stores/totals/range?from=b")["rows"];
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(
      rows[0].dump(),
      R"({"end":60000,"endTime":"1970-01-01T00:01:00.000Z","format":"json","key":"b","keyFormat":"utf8","start":0,)"
      R"("startTime":"1970-01-01T00:00:00.000Z","task":1,"value":3})");
}

TEST_F(Endpoints, OfManySessionsTheNewestAreShown) {
  spec::StoreSpec& store = backend_.windowed.emplace();
  store.type = spec::StoreType::kSession;
  store.session = {.gap = absl::Seconds(1)};
  for (int64_t i = 0; i < 2'500; ++i) {
    backend_.state[1][engine::RowKey(store, "a", {i * 5000, i * 5000 + 7})] = StrCat(i);
    backend_.state[1][engine::RowKey(store, StrCat("a", Bytes(3, '\x80')), {i * 5000, i * 5000})] = "another key";
  }
  const Json answer = AskJson("/v1/stores/totals/keys/a");
  ASSERT_EQ(answer["windows"].size(), 1000u);
  EXPECT_EQ(answer["more"], true);
  EXPECT_EQ(answer["windows"][0]["value"], 1500);
  EXPECT_EQ(answer["windows"][999]["end"], 2499 * 5000 + 7);
}

TEST_F(Endpoints, RangeBounds) {
  for (const char* key : {"a", "b", "ba", "bb", "c"}) backend_.state[0][key] = "1";
  const auto keys = [&](const std::string& query) {
    std::vector<std::string> found;
    const Json page = AskJson("/v1/stores/totals/range?" + query);
    for (const Json& row : page["rows"]) found.push_back(row["key"]);
    return found;
  };
  EXPECT_THAT(keys(""), ElementsAre("a", "b", "ba", "bb", "c"));
  EXPECT_THAT(keys("from=b&to=c"), ElementsAre("b", "ba", "bb"));
  EXPECT_THAT(keys("prefix=b"), ElementsAre("b", "ba", "bb"));
  EXPECT_THAT(keys("prefix=b&from=ba"), ElementsAre("ba", "bb"));
  EXPECT_THAT(keys("prefix=b&to=bb"), ElementsAre("b", "ba"));
  EXPECT_THAT(keys("prefix=b&reverse=true"), ElementsAre("bb", "ba", "b"));
  EXPECT_THAT(keys("from=6261&key.format=hex&reverse"), ElementsAre("63", "6262", "6261"));
  EXPECT_THAT(keys("prefix=zz"), IsEmpty());
  EXPECT_THAT(keys("from=c&to=a"), IsEmpty());
  EXPECT_THAT(keys("task=0&limit=2"), ElementsAre("a", "b"));
  EXPECT_THAT(ErrorOf("/v1/stores/totals/range?task=5", 404), HasSubstr("task 5 is not here"));
}

TEST_F(Endpoints, RangesOverManyTasksPageThroughEverythingOnce) {
  const uint64_t seed = std::random_device()();
  printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  backend_.threaded = true;
  for (int task = 0; task < 11; ++task) {
    for (uint64_t n = random() % 60; n > 0; --n) {
      // The same keys in several tasks, and now and then a row that fills half a page.
      backend_.state[task][StrCat("k", random() % 80)] = std::string(random() % 40 == 0 ? 500'000 : 3, 'v');
    }
    backend_.state[task];
  }
  for (const bool reverse : {false, true}) {
    std::vector<std::pair<std::string, int>> expected, found;
    for (const auto& [task, rows] : backend_.state) {
      for (const auto& [key, value] : rows) {
        if (key >= "k2" && key < "k7") expected.emplace_back(key, task);
      }
    }
    std::sort(expected.begin(), expected.end());
    if (reverse) std::reverse(expected.begin(), expected.end());
    std::string cursor;
    for (int pages = 0; pages < 1000; ++pages) {
      const Json page = AskJson(StrCat("/v1/stores/totals/range?from=k2&to=k7&limit=", 1 + random() % 30,
                                       "&reverse=", reverse ? "true" : "false", "&cursor=", cursor));
      for (const Json& row : page["rows"]) found.emplace_back(row["key"], row["task"]);
      if (page["cursor"].is_null()) break;
      EXPECT_FALSE(page["rows"].empty());
      cursor = page["cursor"];
    }
    EXPECT_EQ(found, expected) << (reverse ? "reverse" : "forward");
  }
}

TEST_F(Endpoints, PagesStayWithinTheirBytes) {
  for (int task = 0; task < 9; ++task) {
    for (int i = 0; i < 10; ++i) backend_.state[task][StrCat("k", i)] = std::string(300'000, 'v');
  }
  const http::Response response = Ask("/v1/stores/totals/range?limit=1000");
  EXPECT_EQ(response.status, 200);
  EXPECT_LT(response.body.size(), 1'100'000u);
}

// ---------------------------------------------------------------- stopping, hostile requests

TEST_F(Endpoints, TheBackendIsNotCalledAfterStop) {
  backend_.state[0]["k"] = "v";
  const std::string url = StrCat("http://", endpoints_->authority(), "/v1/stores/totals/keys/k");
  std::atomic<bool> done{false};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      while (!done) http::Get(url, absl::Seconds(1)).IgnoreError();
    });
  }
  absl::SleepFor(absl::Milliseconds(50));
  endpoints_->Stop(absl::Seconds(5));
  backend_.last_store = 99;
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(backend_.last_store, 99u);
  done = true;
  for (std::thread& client : clients) client.join();
}

TEST_F(Endpoints, RandomPathsGetAnAnswer) {
  const uint64_t seed = std::random_device()();
  printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  backend_.state[0]["k"] = "v";
  const std::vector<std::string> parts{"v1", "stores", "totals", "keys", "range", "..",
                                       "",   "%00",    "%2F",    "k",    "tasks", "%C3%28"};
  const std::vector<std::string> parameters{"from=%FF",
                                            "to=",
                                            "limit=-1",
                                            "limit=99999999999999999999",
                                            "cursor=AAAA",
                                            "cursor=%00%00%00%00%00",
                                            "key.format=int64",
                                            "value.format=hex",
                                            "task=-1",
                                            "task=2147483648",
                                            "prefix=%FF%FF",
                                            "reverse",
                                            "=",
                                            "a=b",
                                            "limit=1"};
  for (int round = 0; round < 300; ++round) {
    std::string path;
    for (uint64_t n = 1 + random() % 6; n > 0; --n) path += "/" + parts[random() % parts.size()];
    if (round % 2 == 0) path = "/v1/stores/totals/range";
    for (uint64_t n = random() % 4, i = 0; i < n; ++i)
      path += (i == 0 ? "?" : "&") + parameters[random() % parameters.size()];
    const http::Response response = Ask(path);
    EXPECT_THAT(response.status, AnyOf(200, 400, 404)) << path;
    if (response.content_type == "application/json") {
      EXPECT_TRUE(Json::accept(response.body)) << path << "\n" << response.body;
    }
  }
}

}  // namespace
}  // namespace millstream::server
