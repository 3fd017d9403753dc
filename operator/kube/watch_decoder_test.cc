#include "operator/kube/watch_decoder.h"

#include <vector>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "operator/kube/api_error.h"
#include "operator/kube/resource.h"

namespace millstream::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Line(std::string_view type, std::string_view name, int version) {
  return StrCat(R"({"type":")", type, R"(","object":{"metadata":{"name":")", name, R"(","resourceVersion":")", version,
                "\"}}}\n");
}

struct Seen {
  std::vector<std::string> events;
  WatchDecoder decoder{[this](WatchEvent event) {
    events.push_back(StrCat(static_cast<int>(event.type), " ", KeyOf(event.object).name, " ", event.resource_version));
    return absl::OkStatus();
  }};
};

TEST(WatchDecoderTest, EventsWhereverThePiecesAreCut) {
  const std::string all = Line("ADDED", "caf\xc3\xa9", 1) + Line("MODIFIED", "b\\u00e9", 2) + "\n" +
                          Line("DELETED", "c", 3) + Line("BOOKMARK", "", 9);
  for (size_t cut = 0; cut <= all.size(); ++cut) {
    SCOPED_TRACE(cut);
    Seen seen;
    ASSERT_TRUE(seen.decoder.Feed(std::string_view(all).substr(0, cut)).ok());
    ASSERT_TRUE(seen.decoder.Feed(std::string_view(all).substr(cut)).ok());
    ASSERT_TRUE(seen.decoder.Finish().ok());
    EXPECT_THAT(seen.events, ElementsAre("0 caf\xc3\xa9 1", "1 b\xc3\xa9 2", "2 c 3", "3  9"));
  }
  Seen bytes;
  for (const char byte : all) ASSERT_TRUE(bytes.decoder.Feed(std::string_view(&byte, 1)).ok());
  EXPECT_EQ(bytes.events.size(), 4u);
}

TEST(WatchDecoderTest, ErrorEventsAreErrors) {
  Seen seen;
  const absl::Status gone = seen.decoder.Feed(
      R"({"type":"ERROR","object":{"kind":"Status","reason":"Expired","message":"too old resource version","code":410}})"
      "\n");
  EXPECT_TRUE(IsExpired(gone)) << gone;
  // And it stays so.
  EXPECT_EQ(seen.decoder.Feed(Line("ADDED", "a", 1)), gone);
  EXPECT_EQ(seen.decoder.Finish(), gone);
  EXPECT_TRUE(seen.events.empty());
  Seen odd;
  EXPECT_TRUE(absl::IsUnavailable(odd.decoder.Feed("{\"type\":\"ERROR\",\"object\":5}\n")));
}

TEST(WatchDecoderTest, UnknownTypesAreLeftOut) {
  Seen seen;
  EXPECT_TRUE(seen.decoder.Feed(Line("REWRITTEN", "a", 1) + Line("ADDED", "b", 2)).ok());
  EXPECT_THAT(seen.events, ElementsAre("0 b 2"));
}

TEST(WatchDecoderTest, WhatIsNoEvent) {
  for (const char* line :
       {"nonsense\n", "5\n", "[]\n", "{}\n", "{\"type\":\"ADDED\"}\n", "{\"type\":7,\"object\":{}}\n",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"1\"}}}\n",
        "{\"type\":\"ADDED\",\"object\":\"\xff\"}\n"}) {
    Seen seen;
    const absl::Status status = seen.decoder.Feed(line);
    EXPECT_TRUE(absl::IsDataLoss(status)) << line << status;
    EXPECT_TRUE(seen.events.empty());
  }
}

TEST(WatchDecoderTest, AnEndWithinAnEvent) {
  Seen seen;
  ASSERT_TRUE(seen.decoder.Feed("{\"type\":\"ADD").ok());
  EXPECT_THAT(std::string(seen.decoder.Finish().message()), HasSubstr("ends within an event"));
}

TEST(WatchDecoderTest, LinesHaveABound) {
  WatchDecoder decoder([](WatchEvent) { return absl::OkStatus(); }, 1000);
  absl::Status status;
  int pieces = 0;
  for (; status.ok() && pieces < 1000; ++pieces) status = decoder.Feed(std::string(100, 'x'));
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_EQ(pieces, 11);
}

TEST(WatchDecoderTest, ErrorsOfTheSinkPassThrough) {
  WatchDecoder decoder([](WatchEvent) { return absl::CancelledError("enough"); });
  EXPECT_TRUE(absl::IsCancelled(decoder.Feed(Line("ADDED", "a", 1) + Line("ADDED", "b", 2))));
}

}  // namespace
}  // namespace millstream::kube
