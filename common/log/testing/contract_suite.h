#ifndef MILLSTREAM_COMMON_LOG_TESTING_CONTRACT_SUITE_H_
#define MILLSTREAM_COMMON_LOG_TESTING_CONTRACT_SUITE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/log/log.h"

namespace millstream::log {

// A log under test. One object serves one test; topics and groups of other tests may lie in the same log.
class ContractBackend {
 public:
  virtual ~ContractBackend() = default;
  virtual Log& log() = 0;
  // The token of the group's only member, made by a join that raises the generation.
  virtual absl::StatusOr<GroupToken> JoinGroup(const std::string& group, const std::string& member_id) = 0;
  virtual void LeaveGroup(const GroupToken& token) = 0;

  // Upper bound on anything the suite waits for.
  virtual absl::Duration patience() const { return absl::Seconds(10); }
  // How long nothing must be seen to believe that nothing comes.
  virtual absl::Duration quiet() const { return absl::Milliseconds(100); }
  // How long the log takes to notice an expired transaction at most; the suite waits that long beyond the timeout.
  virtual absl::Duration expiry_scan() const { return absl::Seconds(2); }
  // Whether topics have ids (Kafka before 2.8 has none).
  virtual bool has_topic_ids() const { return true; }
};

using ContractBackendFactory = std::function<std::unique_ptr<ContractBackend>()>;

// What every log promises, as tests. A backend's test program compiles contract_suite.cc in and says
//   INSTANTIATE_TEST_SUITE_P(Embedded, LogContract, testing::Values(ContractBackendFactory(...)));
class LogContract : public testing::TestWithParam<ContractBackendFactory> {
 protected:
  void SetUp() override;

  Log& log() { return backend_->log(); }
  Admin& admin() { return backend_->log().admin(); }

  std::unique_ptr<ContractBackend> backend_;
};

}  // namespace millstream::log

#endif  // MILLSTREAM_COMMON_LOG_TESTING_CONTRACT_SUITE_H_
