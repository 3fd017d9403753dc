#include "sidecar/group/net/resolve.h"

#include <netdb.h>
#include <poll.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::group {
namespace {

constexpr int kMostLeftBehind = 4;
std::atomic<int>& Running() {
  static std::atomic<int> running{0};
  return running;
}

absl::StatusOr<std::vector<SocketAddress>> LookUp(const std::string& host, int port, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) return absl::UnavailableError(StrCat("resolving '", host, "': ", gai_strerror(error)));
  std::vector<SocketAddress> addresses;
  for (const addrinfo* item = list; item != nullptr; item = item->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, item->ai_addr, item->ai_addrlen);
    address.size = item->ai_addrlen;
    addresses.push_back(address);
  }
  freeaddrinfo(list);
  return addresses;
}

// Shared with the thread, which may end after everybody has lost interest.
struct Question {
  std::mutex mutex;
  absl::StatusOr<std::vector<SocketAddress>> answer = absl::UnknownError("");
  Cancel answered;
};

}  // namespace

absl::StatusOr<std::vector<SocketAddress>> Resolve(const BrokerAddress& address, const IoLimit& limit) {
  if (auto numeric = LookUp(address.host, address.port, AI_NUMERICHOST); numeric.ok()) return numeric;
  if (Running().fetch_add(1) >= kMostLeftBehind) {
    Running().fetch_sub(1);
    return absl::UnavailableError(StrCat("resolving '", address.host, "': the system's resolver does not answer"));
  }
  auto question = std::make_shared<Question>();
  std::thread([question, address] {
    auto answer = LookUp(address.host, address.port, AI_ADDRCONFIG);
    Running().fetch_sub(1);
    {
      std::lock_guard lock(question->mutex);
      question->answer = std::move(answer);
    }
    question->answered.Trigger();
  }).detach();
  MS_RETURN_IF_ERROR(
      Annotate(WaitFor(question->answered.fd(), POLLIN, limit), StrCat("resolving '", address.host, "'")));
  std::lock_guard lock(question->mutex);
  return std::move(question->answer);
}

}  // namespace millstream::group
