#include "sidecar/host/abandoned_transactions.h"

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::host {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ids = std::vector<std::string>;

class AbandonedTransactionsTest : public testing::Test {
 protected:
  void End(const std::vector<std::string>& tags) {
    committed_.clear();
    for (size_t i = 0; i < tags.size(); ++i) {
      committed_[{"in", Partition(static_cast<int32_t>(i))}] = {
          Offset(5), StrCat(R"({"v":1,"owner":"local/default/p","tag":")", tags[i], "\"}")};
    }
    EXPECT_TRUE(abandoned_.EndWritersOf({{"in", Partition(0)}}).ok());
  }

  std::map<TopicPartition, log::GroupOffset> committed_;
  std::vector<Ids> ended_;
  absl::Status answer_;
  std::optional<Ids> present_ = Ids{"g-here-0-a", "g-here-0-b", "g-me-0-a", "g-me-0-b"};
  AbandonedTransactions abandoned_{{"g-me-0-a", "g-me-0-b"},
                                   {.offsets_now = [this](const std::vector<TopicPartition>&) { return committed_; },
                                    .end =
                                        [this](const Ids& ids) {
                                          ended_.push_back(ids);
                                          return answer_;
                                        }},
                                   [this] { return present_; }};
};

TEST_F(AbandonedTransactionsTest, EndsItsFormerSelf) {
  abandoned_.EndOwn();
  EXPECT_THAT(ended_, ElementsAre(Ids{"g-me-0-a", "g-me-0-b"}));
}

TEST_F(AbandonedTransactionsTest, EndsBothWritersOfWhoIsGoneOnce) {
  End({"g-gone-0-b/17-ab/9", "g-gone-0-a/17-ab/8"});
  End({"g-gone-0-b/17-ab/9"});
  EXPECT_THAT(ended_, ElementsAre(Ids{"g-gone-0-a", "g-gone-0-b"}));
  // It came back and died again.
  End({"g-gone-0-b/18-cd/3"});
  EXPECT_EQ(ended_.size(), 2u);
}

TEST_F(AbandonedTransactionsTest, SparesMembersAndItself) {
  End({"g-here-0-a/1/1", "g-me-0-b/2/2"});
  EXPECT_THAT(ended_, IsEmpty());
}

TEST_F(AbandonedTransactionsTest, EndsNobodyWhenItIsUnknownWhoIsThere) {
  present_.reset();
  End({"g-gone-0-a/1/1"});
  EXPECT_THAT(ended_, IsEmpty());
}

TEST_F(AbandonedTransactionsTest, TriesAgainWhatFailed) {
  answer_ = absl::UnavailableError("no broker");
  End({"g-reset/1/1"});
  answer_ = absl::OkStatus();
  End({"g-reset/1/1"});
  End({"g-reset/1/1"});
  EXPECT_THAT(ended_, ElementsAre(Ids{"g-reset"}, Ids{"g-reset"}));
}

TEST_F(AbandonedTransactionsTest, OffsetsOfOtherToolsNameNobody) {
  for (const char* metadata : {"", "{", "[1]", R"({"tag":7})", R"({"tag":"no slash"})", R"({"owner":"x"})"}) {
    committed_ = {{{"in", Partition(0)}, {Offset(1), metadata}}};
    EXPECT_TRUE(abandoned_.EndWritersOf({{"in", Partition(0)}}).ok());
    EXPECT_THAT(ended_, IsEmpty()) << metadata;
  }
}

TEST_F(AbandonedTransactionsTest, OffsetsThatCannotBeReadAreAnError) {
  AbandonedTransactions blind(
      {},
      {.offsets_now =
           [](const std::vector<TopicPartition>&) -> absl::StatusOr<std::map<TopicPartition, log::GroupOffset>> {
         return absl::UnavailableError("no broker");
       },
       .end = [](const Ids&) { return absl::OkStatus(); }},
      [this] { return present_; });
  EXPECT_TRUE(absl::IsUnavailable(blind.EndWritersOf({{"in", Partition(0)}})));
}

TEST(AbandonedTransactions, WithoutOtherProcessesThereIsNothingToDo) {
  AbandonedTransactions abandoned({"a"}, {}, [] { return std::vector<std::string>(); });
  abandoned.EndOwn();
  EXPECT_TRUE(abandoned.EndWritersOf({{"in", Partition(0)}}).ok());
}

}  // namespace
}  // namespace millstream::host
