#include "sidecar/host/orders.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "nlohmann/json.hpp"

namespace millstream::host {
namespace {

using Json = nlohmann::json;

// Orders are about sixty bytes; whatever is larger is something else.
constexpr size_t kMaxBytes = 16 << 10;
// An image that says more than a manifest could is a mistake.
constexpr int kMaxStandbys = 1'000;

absl::Status Wrong(std::string_view field, std::string_view expected, const Json& found) {
  return absl::InvalidArgumentError(
      StrCat(field, " is ", found.dump(-1, ' ', false, Json::error_handler_t::replace), ", expected ", expected));
}

}  // namespace

absl::StatusOr<Orders> ParseOrders(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("not a JSON object");
  Orders orders;
  if (const auto drain = json.find("drain"); drain != json.end()) {
    if (!drain->is_boolean()) return Wrong("drain", "true or false", *drain);
    orders.drain = drain->get<bool>();
  }
  if (const auto standbys = json.find("standbyReplicas"); standbys != json.end()) {
    const int64_t number = standbys->is_number_integer() ? standbys->get<int64_t>() : -1;
    if (number < 0 || number > kMaxStandbys)
      return Wrong("standbyReplicas", StrCat("a number from 0 to ", kMaxStandbys), *standbys);
    orders.standby_replicas = static_cast<int>(number);
  }
  if (const auto state = json.find("state"); state != json.end()) {
    if (*state == "Running") {
      orders.state = spec::DesiredState::kRunning;
    } else if (*state == "Paused") {
      orders.state = spec::DesiredState::kPaused;
    } else {
      return Wrong("state", "\"Running\" or \"Paused\"", *state);
    }
  }
  return orders;
}

std::string ToJson(const Orders& orders) {
  Json json = {{"drain", orders.drain}};
  if (orders.standby_replicas) json["standbyReplicas"] = *orders.standby_replicas;
  if (orders.state) json["state"] = std::string(spec::ToString(*orders.state));
  return json.dump();
}

absl::StatusOr<std::string> OrdersFile::Read() const {
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::string();
    return absl::UnavailableError(std::strerror(errno));
  }
  absl::Cleanup close_file = [file] { close(file); };
  std::string content(kMaxBytes + 1, '\0');
  size_t length = 0;
  while (length < content.size()) {
    const ssize_t got = read(file, content.data() + length, content.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::UnavailableError(std::strerror(errno));
    if (got == 0) break;
    length += static_cast<size_t>(got);
  }
  if (length > kMaxBytes) return absl::InvalidArgumentError(StrCat("more than ", kMaxBytes, " bytes"));
  content.resize(length);
  return content;
}

bool OrdersFile::Look() {
  if (path_.empty()) return false;
  const absl::Status problem_before = problem_;
  const std::optional<Orders> orders_before = orders_;
  const absl::StatusOr<std::string> content = Read();
  if (content.ok()) {
    if (seen_ == *content) return false;
    seen_ = *content;
    Take(*content);
  } else {
    seen_.reset();
    problem_ = content.status();
  }
  if (!problem_.ok()) problem_ = Annotate(problem_, StrCat("orders in ", path_));
  return orders_before != orders_ || problem_before != problem_;
}

void OrdersFile::Take(const std::string& content) {
  problem_ = absl::OkStatus();
  if (absl::StripAsciiWhitespace(content).empty()) {
    orders_.reset();
    return;
  }
  const absl::StatusOr<Orders> parsed = ParseOrders(content);
  if (parsed.ok()) orders_ = *parsed;
  problem_ = parsed.status();
}

}  // namespace millstream::host
