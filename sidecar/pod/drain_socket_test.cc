#include "sidecar/pod/drain_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "common/base/clock.h"
#include "gtest/gtest.h"

namespace millstream::pod {
namespace {

class DrainSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/ms-drain-XXXXXX";
    root_ = mkdtemp(pattern.data());
    // Longer than the address of a socket can be.
    folder_ = root_ + "/" + std::string(120, 'd') + "/state";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string root_, folder_;
};

TEST_F(DrainSocketTest, AnswersWhenItHasDrainedAndAtOnceAfterThat) {
  auto socket = DrainSocket::Listen(folder_);
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_FALSE((*socket)->requested());
  absl::Status first = absl::UnknownError("no answer");
  std::thread hook([&] { first = RequestDrain(folder_, absl::Seconds(30)); });
  (*socket)->WaitForRequest(absl::Seconds(30));
  EXPECT_TRUE((*socket)->requested());
  (*socket)->SetDrained();
  hook.join();
  EXPECT_TRUE(first.ok()) << first;
  EXPECT_TRUE(RequestDrain(folder_, absl::Seconds(30)).ok());
}

TEST_F(DrainSocketTest, SaysThatItTakesLonger) {
  auto socket = DrainSocket::Listen(folder_);
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(RequestDrain(folder_, absl::Milliseconds(50))));
  (*socket)->WaitForRequest(absl::Seconds(30));
  EXPECT_TRUE((*socket)->requested());
}

TEST_F(DrainSocketTest, WithoutASidecarThereIsNobody) {
  EXPECT_TRUE(absl::IsNotFound(RequestDrain(folder_, absl::Seconds(1))));
  { ASSERT_TRUE(DrainSocket::Listen(folder_).ok()); }
  EXPECT_TRUE(absl::IsNotFound(RequestDrain(folder_, absl::Seconds(1))));
}

TEST_F(DrainSocketTest, OneThatEndsTellsThoseWhoWait) {
  auto socket = DrainSocket::Listen(folder_);
  ASSERT_TRUE(socket.ok()) << socket.status();
  absl::Status first;
  std::thread hook([&] { first = RequestDrain(folder_, absl::Seconds(30)); });
  (*socket)->WaitForRequest(absl::Seconds(30));
  socket->reset();
  hook.join();
  EXPECT_TRUE(absl::IsUnavailable(first)) << first;
}

TEST_F(DrainSocketTest, TakesThePlaceOfAKilledOneAndNotOfALivingOne) {
  auto living = DrainSocket::Listen(folder_);
  ASSERT_TRUE(living.ok()) << living.status();
  EXPECT_TRUE(absl::IsAlreadyExists(DrainSocket::Listen(folder_).status()));
  living->reset();
  // As after kill -9: the file is there, and nobody listens.
  ASSERT_EQ(chdir(folder_.c_str()), 0);
  const int stale = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = "drain.sock"};
  ASSERT_EQ(bind(stale, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(stale);
  ASSERT_EQ(chdir("/"), 0);
  EXPECT_TRUE(DrainSocket::Listen(folder_).ok());
}

}  // namespace
}  // namespace millstream::pod
