#ifndef MILLSTREAM_CLI_ACCESS_LOCAL_ACCESS_H_
#define MILLSTREAM_CLI_ACCESS_LOCAL_ACCESS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/access/log_access.h"
#include "common/log/log.h"

namespace millstream::cli {

// What is known of processors: from running engines (`millstream run`), or from the folder on disk when nothing runs.
// Thread-safe. Errors as LogAccess.
class ProcessorBackend {
 public:
  virtual ~ProcessorBackend() = default;
  virtual absl::StatusOr<std::vector<StateRow>> GetState(const StateQuery& query) = 0;
  virtual absl::StatusOr<std::vector<StateRow>> ScanState(const StateQuery& query) = 0;
  virtual absl::StatusOr<std::vector<TaskRow>> ListTasks(const std::string& processor) = 0;
  virtual absl::StatusOr<std::vector<int32_t>> RestartTasks(const std::string& processor,
                                                            const std::vector<int32_t>& tasks) = 0;
  virtual absl::Status SetPaused(const std::string& /*processor*/, bool /*paused*/) {
    return absl::FailedPreconditionError(
        "nothing that runs can be asked from here: pausing is said to the process that runs the processor, or by "
        "spec.desiredState");
  }
};

// LogAccess over a log that this process has open. Thread-safe, so that the control server can share one.
class LocalAccess : public LogAccess {
 public:
  // `log` and `processors` outlive the access and everything it opened. `holder` is what Holder() says.
  LocalAccess(log::Log* log, ProcessorBackend* processors, std::string holder)
      : log_(log), processors_(processors), holder_(std::move(holder)) {}

  std::string Holder() const override { return holder_; }
  absl::StatusOr<std::vector<log::TopicInfo>> ListTopics() override;
  absl::StatusOr<TopicDetail> DescribeTopic(const std::string& topic) override;
  absl::Status CreateTopic(const log::TopicSpec& spec) override;
  absl::Status DeleteTopic(const std::string& topic) override;
  absl::StatusOr<std::unique_ptr<RecordSink>> OpenSink() override;
  absl::StatusOr<std::unique_ptr<RecordSource>> OpenSource(const ConsumeRequest& request) override;
  absl::StatusOr<std::vector<StateRow>> GetState(const StateQuery& query) override {
    return processors_->GetState(query);
  }
  absl::StatusOr<std::vector<StateRow>> ScanState(const StateQuery& query) override {
    return processors_->ScanState(query);
  }

  absl::StatusOr<std::vector<TaskRow>> ListTasks(const std::string& processor) override {
    return processors_->ListTasks(processor);
  }
  absl::StatusOr<std::vector<int32_t>> RestartTasks(const std::string& processor,
                                                    const std::vector<int32_t>& tasks) override {
    return processors_->RestartTasks(processor, tasks);
  }
  absl::Status SetPaused(const std::string& processor, bool paused) override {
    return processors_->SetPaused(processor, paused);
  }
  absl::StatusOr<std::string> RunTool(const std::string& tool, const std::string& request) override;

 private:
  absl::StatusOr<Offset> ResolveStart(const TopicPartition& of, const StartAt& start, log::Isolation isolation);

  log::Log* const log_;
  ProcessorBackend* const processors_;
  const std::string holder_;
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_ACCESS_LOCAL_ACCESS_H_
