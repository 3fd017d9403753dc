// The contract of common/log, on the embedded log.
#include <filesystem>

#include "common/base/status.h"
#include "common/log/embedded/embedded_log.h"
#include "common/log/embedded/test_folder.h"
#include "common/log/testing/contract_suite.h"

namespace millstream::log {
namespace {

class EmbeddedBackend : public ContractBackend {
 public:
  EmbeddedBackend() {
    EmbeddedLogOptions options;
    options.directory = folder_.path();
    options.maintenance_interval = absl::Milliseconds(100);
    auto log = EmbeddedLog::Open(options);
    MS_CHECK_OK(log);
    log_ = *std::move(log);
  }
  Log& log() override { return *log_; }
  absl::StatusOr<GroupToken> JoinGroup(const std::string& group, const std::string& member_id) override {
    return log_->JoinGroup(group, member_id);
  }
  void LeaveGroup(const GroupToken& token) override { log_->LeaveGroup(token); }
  absl::Duration quiet() const override { return absl::Milliseconds(20); }

 private:
  embedded::TestFolder folder_;
  std::unique_ptr<EmbeddedLog> log_;
};

INSTANTIATE_TEST_SUITE_P(Embedded, LogContract,
                         testing::Values(ContractBackendFactory([] { return std::make_unique<EmbeddedBackend>(); })),
                         [](const auto&) { return "embedded"; });

}  // namespace
}  // namespace millstream::log
