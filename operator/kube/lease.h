#ifndef MILLSTREAM_OPERATOR_KUBE_LEASE_H_
#define MILLSTREAM_OPERATOR_KUBE_LEASE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/kube/client.h"

namespace millstream::kube {

// What a coordination.k8s.io/v1 Lease says about who leads.
struct Lease {
  std::string holder;  // empty: released, anybody may take it
  absl::Duration duration = absl::Seconds(15);
  absl::Time acquired = absl::UnixEpoch();
  absl::Time renewed = absl::UnixEpoch();
  int32_t transitions = 0;       // how often the holder changed
  std::string resource_version;  // of what was read; empty: to be made
};

// Where one lease is kept. Thread-safe. Each call has its own deadline, and blocks.
class LeaseStore {
 public:
  virtual ~LeaseStore() = default;
  // NOT_FOUND: there is none yet.
  virtual absl::StatusOr<Lease> Read() = 0;
  // Makes it, or writes over the version that was read. ABORTED or ALREADY_EXISTS: somebody was faster; read again.
  virtual absl::StatusOr<Lease> Write(const Lease& lease) = 0;
};

// In the API server, by a client of its own without a write allowance: this is what makes the allowance. Its deadline
// (ClientOptions) is a few seconds, less than half of the renew deadline: two calls renew. `client` outlives it.
std::unique_ptr<LeaseStore> NewApiLeaseStore(Client* client, const ObjectKey& key);

// To and from the object. INVALID_ARGUMENT: it has fields of the wrong kind; says which.
Json LeaseToJson(const Lease& lease, const ObjectKey& key);
absl::StatusOr<Lease> LeaseFromJson(const Json& object);

// A MicroTime: "2026-01-31T12:00:00.000000Z".
std::string FormatMicroTime(absl::Time time);

}  // namespace millstream::kube

#endif  // MILLSTREAM_OPERATOR_KUBE_LEASE_H_
