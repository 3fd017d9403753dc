#include "common/base/status.h"

#include <gtest/gtest.h>

namespace millstream {
namespace {

TEST(Recovery, TravelsWithTheStatusThroughAnnotations) {
  const absl::Status status = Annotate(WithRecovery(absl::AbortedError("fenced"), Recovery::kAbort), "send offsets");
  EXPECT_EQ(status.message(), "send offsets: fenced");
  EXPECT_EQ(RecoveryOf(status), Recovery::kAbort);
  EXPECT_FALSE(IsOutcomeUnknown(status));
  EXPECT_EQ(RecoveryOf(absl::InternalError("x")), Recovery::kNone);
  EXPECT_TRUE(WithRecovery(absl::OkStatus(), Recovery::kAbort).ok());
}

TEST(Recovery, UnknownOutcomeMeansRecreate) {
  const absl::Status status = Annotate(WithUnknownOutcome(absl::DeadlineExceededError("commit")), "tx 3");
  EXPECT_TRUE(IsOutcomeUnknown(status));
  EXPECT_EQ(RecoveryOf(status), Recovery::kRecreate);
}

absl::StatusOr<int> Half(int n) {
  if (n % 2 != 0) return absl::InvalidArgumentError("odd");
  return n / 2;
}

absl::StatusOr<int> Quarter(int n) {
  MS_ASSIGN_OR_RETURN(const int half, Half(n));
  return Half(half);
}

TEST(Macros, PassErrorsOn) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(3).status().message(), "odd");
}

}  // namespace
}  // namespace millstream
