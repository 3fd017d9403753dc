#include "common/base/status.h"
#include "common/log/kafka/open.h"
#include "sidecar/group/kafka_membership.h"
#include "sidecar/host/backend.h"

namespace millstream::host {
namespace {

class KafkaBackend : public Backend {
 public:
  KafkaBackend(const kafka::ClusterAccess& access, std::string client_id, std::unique_ptr<log::Log> log)
      : access_(access), client_id_(std::move(client_id)), log_(std::move(log)) {}

  log::Log* log() override { return log_.get(); }
  bool shared() const override { return true; }
  MembershipFactory Membership(const spec::StreamProcessorSpec& spec, const MemberIdentity& member,
                               MetricsRegistry* metrics) override {
    return nullptr;
  }

 private:
  const kafka::ClusterAccess access_;
  const std::string client_id_;
  const std::unique_ptr<log::Log> log_;
};

}  // namespace
}  // namespace millstream::host
