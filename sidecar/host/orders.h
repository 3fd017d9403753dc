#ifndef MILLSTREAM_SIDECAR_HOST_ORDERS_H_
#define MILLSTREAM_SIDECAR_HOST_ORDERS_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/spec/stream_processor.h"

namespace millstream::host {

// What a running sidecar is told without a restart (docs/design/0007-sidecar-in-a-pod.md). What an order does not say
// is as the manifest says.
struct Orders {
  bool drain = false;  // hand over all tasks and leave the group, until it is taken back
  std::optional<int> standby_replicas = {};
  std::optional<spec::DesiredState> state = {};

  friend bool operator==(const Orders&, const Orders&) = default;
};

// {"drain":false,"standbyReplicas":1,"state":"Running"}; each may be missing, others are for newer sidecars and
// ignored. INVALID_ARGUMENT says what is wrong with which.
absl::StatusOr<Orders> ParseOrders(std::string_view json);
std::string ToJson(const Orders& orders);

// Orders in a file that somebody replaces, as the kubelet does with a projected annotation: a symbolic link to a folder
// is changed. One thread.
class OrdersFile {
 public:
  // Empty path: there never are any.
  explicit OrdersFile(std::string path) : path_(std::move(path)) {}

  // Reads the file again. True: orders() or problem() changed. A file that is missing or empty is no orders; one that
  // cannot be understood keeps the last good ones.
  bool Look();
  // Unset: none are given.
  const std::optional<Orders>& orders() const { return orders_; }
  // Why what is in the file now is not followed; OK: it is.
  const absl::Status& problem() const { return problem_; }

 private:
  absl::StatusOr<std::string> Read() const;
  void Take(const std::string& content);

  const std::string path_;
  std::optional<std::string> seen_;  // content
  std::optional<Orders> orders_;
  absl::Status problem_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_ORDERS_H_
