// A reflector and its cache against an API server whose calls fail, whose watches break in the middle of an event and
// whose history gets lost: when it is quiet again the cache is what the server has, and so is what its news add up to.
#include <map>
#include <optional>
#include <random>
#include <string>

#include "common/base/strings.h"
#include "gtest/gtest.h"
#include "operator/kube/testing/fake_api_server.h"
#include "operator/runtime/object_cache.h"
#include "operator/runtime/reflector.h"

namespace millstream::runtime {
namespace {

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seed) {}

  void Run() {
    for (int step = 0; step < 150; ++step) {
      Disturb();
      clock_.Advance(reflector_.Step(interruption_));
      if (random_() % 4 == 0) WriteOurselves();
    }
    quiet_ = true;
    // A cut watch may have left one to be repeated, a lost history one list.
    for (int step = 0; step < 10; ++step) clock_.Advance(reflector_.Step(interruption_) + absl::Seconds(2));
    std::map<std::string, std::string> want;
    for (const kube::Json& object : server_.All(kube::kConfigMaps)) {
      want[kube::KeyOf(object).Text()] = kube::ResourceVersionOf(object);
    }
    std::map<std::string, std::string> cached;
    for (const ObjectRef& object : cache_.All()) {
      cached[kube::KeyOf(*object).Text()] = kube::ResourceVersionOf(*object);
    }
    EXPECT_EQ(cached, want);
    EXPECT_EQ(told_, want);
    EXPECT_TRUE(reflector_.last_error().ok()) << reflector_.last_error();
  }

 private:
  kube::ObjectKey AnyKey() { return {"s", StrCat("m", random_() % 12)}; }

  void Disturb() {
    for (uint64_t i = random_() % 4; i > 0; --i) {
      const bool remove = random_() % 3 == 0;
      const uint64_t value = random_() % 1000;
      server_.Edit(kube::kConfigMaps, AnyKey(), [&](kube::Json* object) {
        if (remove) {
          *object = kube::Json();
        } else {
          (*object)["data"]["k"] = StrCat(value);
        }
      });
    }
    if (random_() % 15 == 0) server_.ForgetHistory();
  }

  // An own write, whose answer the cache learns, perhaps after the object has changed again or is gone.
  void WriteOurselves() {
    const kube::ObjectKey key = AnyKey();
    kube::Json object = {{"apiVersion", "v1"}, {"kind", "ConfigMap"}};
    object["metadata"] = kube::Json{{"name", key.name}, {"namespace", key.name_space}};
    object["data"] = kube::Json{{"own", StrCat(random_() % 1000)}};
    const auto written = client_.Apply(kube::kConfigMaps, object);
    if (!written.ok()) return;
    if (random_() % 2 == 0) Disturb();
    if (random_() % 2 == 0) clock_.Advance(reflector_.Step(interruption_));
    cache_.Learn(*written);
  }

  std::optional<kube::FakeApiServer::Fault> FaultFor() {
    if (quiet_ || random_() % 3 != 0) return std::nullopt;
    using Kind = kube::FakeApiServer::Fault::Kind;
    constexpr Kind kKinds[] = {Kind::kRefuse, Kind::kNoConnection, Kind::kLostAnswer, Kind::kCut};
    constexpr int kCodes[] = {410, 429, 500, 503, 504};
    kube::FakeApiServer::Fault fault;
    fault.kind = kKinds[random_() % 4];
    fault.status = kCodes[random_() % 5];
    fault.bytes = random_() % 600;
    return fault;
  }

  void Heard(const ObjectRef& before, const ObjectRef& after) {
    const std::string key = kube::KeyOf(after == nullptr ? *before : *after).Text();
    EXPECT_EQ(told_.contains(key), before != nullptr) << key;
    if (after == nullptr) {
      told_.erase(key);
    } else {
      told_[key] = kube::ResourceVersionOf(*after);
    }
  }

  std::mt19937_64 random_;
  bool quiet_ = false;
  FakeClock clock_;
  kube::FakeApiServer server_;
  kube::Client client_{server_.Connect([this](const kube::HttpCall&) { return FaultFor(); }), kube::ClientOptions()};
  std::map<std::string, std::string> told_;
  ObjectCache cache_{[this](const ObjectRef& before, const ObjectRef& after) { Heard(before, after); },
                     DropManagedFields};
  Reflector reflector_{kube::kConfigMaps, kube::Selection(), &client_, &cache_, &clock_, 1};
  http::Interruption interruption_;
};

TEST(ReflectorSimulationTest, TheCacheConverges) {
  const uint64_t first_seed = std::random_device()();
  for (uint64_t seed = first_seed; seed < first_seed + 100 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    Simulation(seed).Run();
  }
}

}  // namespace
}  // namespace millstream::runtime
