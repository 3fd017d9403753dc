#include "operator/kube/lease.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::kube {
namespace {

constexpr int64_t kMaxDurationSeconds = 3600;

absl::StatusOr<absl::Time> TimeAt(const Json& object, std::string_view field) {
  const std::string text = TextAt(object, {"spec", field});
  if (text.empty()) return absl::UnixEpoch();
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) {
    return absl::InvalidArgumentError(StrCat("lease ", KeyOf(object).Text(), ": spec.", field, ": ", error));
  }
  return time;
}

class ApiLeaseStore : public LeaseStore {
 public:
  ApiLeaseStore(Client* client, const ObjectKey& key) : client_(client), key_(key) {}

  absl::StatusOr<Lease> Read() override {
    MS_ASSIGN_OR_RETURN(const Json object, client_->Get(kLeases, key_));
    return LeaseFromJson(object);
  }

  absl::StatusOr<Lease> Write(const Lease& lease) override {
    const Json object = LeaseToJson(lease, key_);
    MS_ASSIGN_OR_RETURN(const Json written, lease.resource_version.empty() ? client_->Create(kLeases, object)
                                                                           : client_->Replace(kLeases, object));
    return LeaseFromJson(written);
  }

 private:
  Client* const client_;
  const ObjectKey key_;
};

}  // namespace

std::string FormatMicroTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone());
}

Json LeaseToJson(const Lease& lease, const ObjectKey& key) {
  Json object = {{"apiVersion", kLeases.ApiVersion()},
                 {"kind", std::string(kLeases.kind)},
                 {"metadata", {{"name", key.name}, {"namespace", key.name_space}}},
                 {"spec",
                  {{"holderIdentity", lease.holder},
                   // At least 1: the API server refuses less.
                   {"leaseDurationSeconds", std::max<int64_t>(1, absl::ToInt64Seconds(lease.duration))},
                   {"acquireTime", FormatMicroTime(lease.acquired)},
                   {"renewTime", FormatMicroTime(lease.renewed)},
                   {"leaseTransitions", lease.transitions}}}};
  if (!lease.resource_version.empty()) object["metadata"]["resourceVersion"] = lease.resource_version;
  return object;
}

absl::StatusOr<Lease> LeaseFromJson(const Json& object) {
  Lease lease;
  lease.holder = TextAt(object, {"spec", "holderIdentity"});
  lease.duration =
      absl::Seconds(std::clamp<int64_t>(IntAt(object, {"spec", "leaseDurationSeconds"}, 15), 1, kMaxDurationSeconds));
  MS_ASSIGN_OR_RETURN(lease.acquired, TimeAt(object, "acquireTime"));
  MS_ASSIGN_OR_RETURN(lease.renewed, TimeAt(object, "renewTime"));
  lease.transitions =
      static_cast<int32_t>(std::clamp<int64_t>(IntAt(object, {"spec", "leaseTransitions"}), 0, INT32_MAX));
  lease.resource_version = ResourceVersionOf(object);
  return lease;
}

std::unique_ptr<LeaseStore> NewApiLeaseStore(Client* client, const ObjectKey& key) {
  return std::make_unique<ApiLeaseStore>(client, key);
}

}  // namespace millstream::kube
