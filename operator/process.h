#ifndef MILLSTREAM_OPERATOR_PROCESS_H_
#define MILLSTREAM_OPERATOR_PROCESS_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/http/interruption.h"
#include "common/http/server.h"
#include "operator/kube/client.h"
#include "operator/leading.h"
#include "operator/options.h"
#include "operator/reconcile/operator.h"
#include "operator/reconcile/sidecar_reports.h"
#include "operator/runtime/leader_election.h"

namespace millstream::program {

// One operator that runs: clients of the API server, the election, what it does while it leads, and its HTTP pages.
// Everything is wired here and nowhere else. Made and destroyed by one thread; `clock` outlives it.
class Process {
 public:
  // Waits for nothing: an API server that cannot be reached is tried again and again, and /readyz says so. Errors: the
  // configuration, named; UNAVAILABLE: the HTTP port.
  static absl::StatusOr<std::unique_ptr<Process>> Start(const Options& options, const kube::Environment& environment,
                                                        const Clock* clock);
  ~Process();  // Stop, with a deadline of 20 s

  // Ends the passes under way, releases the lease, so that the next operator need not wait for it. False: something did
  // not come to an end within `deadline`; nothing of it may be destroyed then, the process has to exit.
  bool Stop(absl::Duration deadline);

  int http_port() const { return server_->port(); }
  const std::string& identity() const { return identity_; }

 private:
  Process(const Options& options, std::string identity, const Clock* clock);
  absl::Status Connect(const Options& options, const kube::ClientConfig& config);
  absl::Status Listen(const Options& options);
  void Elect();
  absl::Status Health() const;
  absl::Status Readiness() const;
  std::string Metrics();

  const std::string identity_;
  const Clock* const clock_;
  const std::unique_ptr<MetricsRegistry> metrics_;
  // In the order in which they use each other.
  std::unique_ptr<kube::Client> lease_client_;
  std::unique_ptr<kube::LeaseStore> lease_;
  std::unique_ptr<runtime::LeaderElection> election_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<reconcile::SidecarReports> reports_;
  std::unique_ptr<reconcile::Operator> operator_;
  std::unique_ptr<Leading> leading_;
  std::unique_ptr<http::Server> server_;
  http::Interruption interruption_;
  absl::Notification elected_out_;  // the thread below is at its end
  std::thread elect_;
};

}  // namespace millstream::program

#endif  // MILLSTREAM_OPERATOR_PROCESS_H_
