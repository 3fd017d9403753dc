// The cache alone, and under a reflector whose API server is a script.
#include "operator/runtime/object_cache.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "operator/kube/testing/scripted_transport.h"
#include "operator/runtime/reflector.h"

namespace millstream::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

kube::Json Object(const std::string& name, int version, const std::string& owner = "") {
  kube::Json object = {{"apiVersion", "v1"},
                       {"kind", "Pod"},
                       {"metadata", {{"name", name}, {"namespace", "s"}, {"resourceVersion", StrCat(version)}}}};
  if (!owner.empty()) {
    kube::Json reference = {{"uid", owner}, {"controller", true}};
    object["metadata"]["ownerReferences"] = kube::Json::array({reference});
  }
  return object;
}

kube::WatchEvent Event(kube::WatchEvent::Type type, kube::Json object) {
  kube::WatchEvent event;
  event.type = type;
  event.resource_version = kube::ResourceVersionOf(object);
  event.object = std::move(object);
  return event;
}

constexpr auto kAdded = kube::WatchEvent::Type::kAdded;
constexpr auto kModified = kube::WatchEvent::Type::kModified;
constexpr auto kDeleted = kube::WatchEvent::Type::kDeleted;
constexpr auto kBookmark = kube::WatchEvent::Type::kBookmark;

class ObjectCacheTest : public ::testing::Test {
 protected:
  void List(std::vector<kube::Json> items, int version) { cache_.Replace({std::move(items), StrCat(version)}); }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const ObjectRef& object : cache_.All()) {
      names.push_back(StrCat(kube::KeyOf(*object).name, "@", kube::ResourceVersionOf(*object)));
    }
    return names;
  }

  std::vector<std::string> news_;
  ObjectCache cache_{
      [this](const ObjectRef& before, const ObjectRef& after) {
        const kube::Json& named = after == nullptr ? *before : *after;
        news_.push_back(StrCat(before == nullptr ? "+" : after == nullptr ? "-" : "~", kube::KeyOf(named).name));
      },
      DropManagedFields};
};

TEST_F(ObjectCacheTest, IsOfUseAfterTheFirstListOnly) {
  EXPECT_FALSE(cache_.synced());
  List({}, 1);
  EXPECT_TRUE(cache_.synced());
  EXPECT_EQ(cache_.size(), 0u);
}

TEST_F(ObjectCacheTest, ListsAndEventsBecomeNews) {
  List({Object("a", 1), Object("b", 2)}, 5);
  EXPECT_THAT(news_, ElementsAre("+a", "+b"));
  cache_.Take(Event(kModified, Object("a", 6)));
  cache_.Take(Event(kDeleted, Object("b", 7)));
  cache_.Take(Event(kAdded, Object("c", 8)));
  cache_.Take(Event(kBookmark, kube::Json{{"metadata", {{"resourceVersion", "20"}}}}));
  EXPECT_THAT(news_, ElementsAre("+a", "+b", "~a", "-b", "+c"));
  EXPECT_THAT(Names(), ElementsAre("a@6", "c@8"));
  EXPECT_EQ(cache_.resource_version(), "20");
}

TEST_F(ObjectCacheTest, ARelistTellsWhatWasMissed) {
  List({Object("a", 1), Object("b", 2), Object("c", 3)}, 5);
  news_.clear();
  List({Object("a", 1), Object("c", 30), Object("d", 40)}, 50);
  EXPECT_THAT(news_, ElementsAre("~c", "+d", "-b"));
}

TEST_F(ObjectCacheTest, OwnWritesAreSeenAtOnceAndNeverTurnedBack) {
  List({Object("a", 1)}, 5);
  cache_.Learn(Object("a", 9));
  EXPECT_THAT(Names(), ElementsAre("a@9"));
  cache_.Take(Event(kModified, Object("a", 7)));  // from before the write
  EXPECT_THAT(Names(), ElementsAre("a@9"));
  cache_.Take(Event(kModified, Object("a", 9)));
  cache_.Take(Event(kDeleted, Object("a", 12)));
  cache_.Learn(Object("a", 11));  // an answer that came late: the object is gone
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(ObjectCacheTest, AnObjectMadeAfterAListSurvivesIt) {
  List({}, 5);
  cache_.Learn(Object("a", 9));
  List({}, 7);
  EXPECT_THAT(Names(), ElementsAre("a@9"));
  List({}, 10);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(ObjectCacheTest, AServerRestoredFromABackupIsBelieved) {
  List({Object("a", 90), Object("b", 95)}, 100);
  List({Object("a", 40)}, 50);
  EXPECT_THAT(Names(), ElementsAre("a@40"));
  EXPECT_EQ(cache_.resource_version(), "50");
}

TEST_F(ObjectCacheTest, FindsByOwner) {
  List({Object("a", 1, "u1"), Object("b", 2, "u1"), Object("c", 3, "u2")}, 5);
  EXPECT_EQ(cache_.OwnedBy("u1").size(), 2u);
  cache_.Take(Event(kModified, Object("a", 6, "u2")));
  EXPECT_EQ(cache_.OwnedBy("u1").size(), 1u);
  EXPECT_EQ(cache_.OwnedBy("u2").size(), 2u);
  cache_.Take(Event(kDeleted, Object("b", 7, "u1")));
  EXPECT_EQ(cache_.OwnedBy("u1").size(), 0u);
  EXPECT_EQ(cache_.InNamespace("s").size(), 2u);
  EXPECT_EQ(cache_.InNamespace("t").size(), 0u);
}

TEST_F(ObjectCacheTest, KeepsNoManagedFields) {
  kube::Json object = Object("a", 1);
  object["metadata"]["managedFields"] = kube::Json::array({1, 2});
  List({object}, 1);
  EXPECT_EQ(cache_.Get({"s", "a"})->dump().find("managedFields"), std::string::npos);
}

TEST(IsOlderTest, NumbersOnly) {
  EXPECT_TRUE(IsOlder("9", "10"));
  EXPECT_FALSE(IsOlder("10", "9"));
  EXPECT_FALSE(IsOlder("10", "10"));
  EXPECT_FALSE(IsOlder("a", "b"));
  EXPECT_FALSE(IsOlder("", "1"));
}

class ReflectorTest : public ::testing::Test {
 protected:
  ReflectorTest() {
    auto transport = std::make_unique<kube::ScriptedTransport>();
    transport_ = transport.get();
    client_ = std::make_unique<kube::Client>(std::move(transport), kube::ClientOptions());
    reflector_ = std::make_unique<Reflector>(kube::kPods, kube::Selection(), client_.get(), &cache_, &clock_, 1);
  }
  static std::string ListOf(const std::string& names, int version) {
    std::string items;
    for (const char name : names) {
      StrAppend(&items, items.empty() ? "" : ",", R"({"metadata":{"name":")", std::string(1, name),
                R"(","namespace":"s","resourceVersion":"1"}})");
    }
    return StrCat(R"({"metadata":{"resourceVersion":")", version, R"("},"items":[)", items, "]}");
  }
  static std::string Line(std::string_view type, std::string_view name, int version) {
    return StrCat(R"({"type":")", type, R"(","object":{"metadata":{"name":")", name,
                  R"(","namespace":"s","resourceVersion":")", version, "\"}}}\n");
  }
  static constexpr char kExpired[] =
      R"({"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410,"message":"too old"}})"
      "\n";

  FakeClock clock_;
  kube::ScriptedTransport* transport_;
  std::unique_ptr<kube::Client> client_;
  ObjectCache cache_;
  std::unique_ptr<Reflector> reflector_;
  http::Interruption interruption_;
};

TEST_F(ReflectorTest, ListsOnceAndWatchesOn) {
  transport_->Answer(200, ListOf("ab", 10));
  transport_->Pieces({Line("ADDED", "c", 11)});
  transport_->Pieces({Line("DELETED", "a", 12)});
  EXPECT_EQ(reflector_->Step(interruption_), absl::ZeroDuration());
  EXPECT_EQ(reflector_->Step(interruption_), absl::ZeroDuration());
  EXPECT_EQ(cache_.size(), 2u);
  ASSERT_EQ(transport_->calls().size(), 3u);
  EXPECT_THAT(transport_->calls()[1].target, HasSubstr("resourceVersion=10&"));
  EXPECT_THAT(transport_->calls()[2].target, HasSubstr("resourceVersion=11&"));
}

TEST_F(ReflectorTest, A410AsEventOrAnswerListsAnew) {
  transport_->Answer(200, ListOf("ab", 10));
  transport_->Pieces({Line("ADDED", "c", 11), kExpired});
  transport_->Answer(200, ListOf("bc", 50));
  transport_->Answer(410, R"({"kind":"Status","reason":"Gone","code":410})");
  transport_->Answer(200, ListOf("c", 60));
  transport_->Pieces({Line("ADDED", "d", 61)});
  for (int i = 0; i < 3; ++i) reflector_->Step(interruption_);
  EXPECT_EQ(cache_.Get({"s", "a"}), nullptr);
  EXPECT_EQ(cache_.Get({"s", "b"}), nullptr);
  EXPECT_NE(cache_.Get({"s", "c"}), nullptr);
  EXPECT_NE(cache_.Get({"s", "d"}), nullptr);
  EXPECT_TRUE(reflector_->last_error().ok());
}

TEST_F(ReflectorTest, AWatchThatBreaksGoesOnFromItsLastEvent) {
  transport_->Answer(200, ListOf("a", 10));
  transport_->Pieces({Line("ADDED", "b", 11)}, absl::UnavailableError("reset"));
  transport_->Pieces({Line("BOOKMARK", "", 30)}, absl::DeadlineExceededError("silence"));
  transport_->Pieces({Line("ADDED", "c", 31)});
  for (int i = 0; i < 3; ++i) reflector_->Step(interruption_);
  EXPECT_EQ(cache_.size(), 3u);
  EXPECT_THAT(transport_->calls()[2].target, HasSubstr("resourceVersion=11&"));
  EXPECT_THAT(transport_->calls()[3].target, HasSubstr("resourceVersion=30&"));
}

TEST_F(ReflectorTest, AServerThatIsDownIsAskedMoreAndMoreSeldom) {
  absl::Duration longest = absl::ZeroDuration();
  for (int i = 0; i < 20; ++i) {
    const absl::Duration delay = reflector_->Step(interruption_);
    EXPECT_GE(delay, absl::Milliseconds(400));
    EXPECT_LE(delay, absl::Seconds(30));
    longest = std::max(longest, delay);
  }
  EXPECT_GE(longest, absl::Seconds(15));
  EXPECT_FALSE(cache_.synced());
  EXPECT_TRUE(absl::IsUnavailable(reflector_->last_error()));
  // It is back.
  transport_->Answer(200, ListOf("a", 10));
  transport_->Pieces({Line("ADDED", "b", 11)});
  EXPECT_EQ(reflector_->Step(interruption_), absl::ZeroDuration());
  EXPECT_TRUE(cache_.synced());
}

TEST_F(ReflectorTest, WhatIsCachedStaysWhileTheServerIsDown) {
  transport_->Answer(200, ListOf("ab", 10));
  for (int i = 0; i < 3; ++i) reflector_->Step(interruption_);
  EXPECT_TRUE(cache_.synced());
  EXPECT_EQ(cache_.size(), 2u);
}

TEST_F(ReflectorTest, WatchesThatEndAtOnceAreNoTightLoop) {
  transport_->Answer(200, ListOf("a", 10));
  for (int i = 0; i < 3; ++i) transport_->Pieces({});
  for (int i = 0; i < 3; ++i) EXPECT_GT(reflector_->Step(interruption_), absl::ZeroDuration());
}

TEST_F(ReflectorTest, TheServersWishToBeLeftAloneIsGranted) {
  transport_->Answer(429, R"({"kind":"Status","reason":"TooManyRequests","code":429})", "45");
  EXPECT_EQ(reflector_->Step(interruption_), absl::Seconds(45));
}

TEST_F(ReflectorTest, RunEndsWithTheInterruption) {
  interruption_.Interrupt();
  reflector_->Run(interruption_);
  EXPECT_TRUE(transport_->calls().empty());
}

}  // namespace
}  // namespace millstream::runtime
