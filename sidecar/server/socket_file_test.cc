#include "sidecar/server/socket_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::server {
namespace {

using ::testing::HasSubstr;

class SocketFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/ms-socket-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/worker.sock";
  }
  void TearDown() override {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }
  bool CanConnect() const {
    FileDescriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  // Leaves a socket file on which nobody listens, as a killed process does.
  void MakeStale() {
    auto stale = ListeningSocket::Listen(path_, 0600);
    ASSERT_EQ(stale.status(), absl::OkStatus());
    const std::string kept = folder_ + "/kept";
    ASSERT_EQ(rename(path_.c_str(), kept.c_str()), 0);
    stale->Close();
    ASSERT_EQ(rename(kept.c_str(), path_.c_str()), 0);
    ASSERT_FALSE(CanConnect());
  }

  std::string folder_, path_;
};

TEST_F(SocketFileTest, AStaleSocketIsReplaced) {
  MakeStale();
  auto socket = ListeningSocket::Listen(path_, 0600);
  ASSERT_EQ(socket.status(), absl::OkStatus());
  EXPECT_TRUE(CanConnect());
}

TEST_F(SocketFileTest, OfManyAtOnceOneWins) {
  for (int round = 0; round < 20; ++round) {
    MakeStale();
    std::vector<absl::StatusOr<ListeningSocket>> sockets(4);
    std::vector<std::thread> threads;
    for (auto& socket : sockets) threads.emplace_back([&] { socket = ListeningSocket::Listen(path_, 0600); });
    for (std::thread& thread : threads) thread.join();
    int winners = 0;
    for (const auto& socket : sockets) {
      winners += socket.ok() ? 1 : 0;
      EXPECT_TRUE(socket.ok() || absl::IsAlreadyExists(socket.status())) << socket.status();
    }
    EXPECT_EQ(winners, 1);
    EXPECT_TRUE(CanConnect());
  }
}

TEST_F(SocketFileTest, ASocketInUseIsRefused) {
  auto first = ListeningSocket::Listen(path_, 0600);
  ASSERT_EQ(first.status(), absl::OkStatus());
  const auto second = ListeningSocket::Listen(path_, 0600);
  EXPECT_TRUE(absl::IsAlreadyExists(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(path_));
  EXPECT_TRUE(CanConnect());
}

TEST_F(SocketFileTest, AFileInTheWayIsKept) {
  std::ofstream(path_) << "precious";
  EXPECT_TRUE(absl::IsFailedPrecondition(ListeningSocket::Listen(path_, 0600).status()));
  std::string content;
  std::ifstream(path_) >> content;
  EXPECT_EQ(content, "precious");
}

TEST_F(SocketFileTest, CloseKeepsWhatAnotherProcessPutThere) {
  auto socket = ListeningSocket::Listen(path_, 0600);
  ASSERT_EQ(socket.status(), absl::OkStatus());
  ASSERT_EQ(unlink(path_.c_str()), 0);
  std::ofstream(path_) << "another's";
  socket->Close();
  EXPECT_EQ(access(path_.c_str(), F_OK), 0);
}

TEST_F(SocketFileTest, TheLongestPath) {
  const std::string name(107 - folder_.size() - 1, 'x');
  const std::string longest = folder_ + "/" + name;
  EXPECT_EQ(ListeningSocket::Listen(longest, 0600).status(), absl::OkStatus());
  const absl::Status status = ListeningSocket::Listen(longest + "x", 0600).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("107"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("MILLSTREAM_SOCKET"));
}

TEST_F(SocketFileTest, ModesOfFileAndFolder) {
  const std::string made = folder_ + "/made";
  {
    auto socket = ListeningSocket::Listen(made + "/worker.sock", 0600);
    ASSERT_EQ(socket.status(), absl::OkStatus());
    struct stat info;
    ASSERT_EQ(stat((made + "/worker.sock").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    ASSERT_EQ(stat(made.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
  }
  EXPECT_NE(access((made + "/worker.sock").c_str(), F_OK), 0);
  rmdir(made.c_str());
}

TEST_F(SocketFileTest, AMissingParentFolderIsNamed) {
  const absl::Status status = ListeningSocket::Listen(folder_ + "/a/b/worker.sock", 0600).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ + "/a/b"));
}

}  // namespace
}  // namespace millstream::server
