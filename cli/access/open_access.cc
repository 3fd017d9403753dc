#include "cli/access/open_access.h"

#include <thread>
#include <utility>

#include "cli/access/local_access.h"
#include "cli/access/remote_access.h"
#include "cli/access/state_answers.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/log/embedded/embedded_log.h"
#include "sidecar/host/data_folder.h"

namespace millstream::cli {
namespace {

// A folder that this process holds for one command.
class OwnedAccess : public LogAccess {
 public:
  OwnedAccess(std::unique_ptr<host::DataFolder> folder, std::unique_ptr<log::EmbeddedLog> log)
      : folder_(std::move(folder)),
        log_(std::move(log)),
        state_(NewOfflineState(folder_.get(), log_.get())),
        access_(log_.get(), state_.get(), "this process") {}

  std::string Holder() const override { return access_.Holder(); }
  absl::StatusOr<std::vector<log::TopicInfo>> ListTopics() override { return access_.ListTopics(); }
  absl::StatusOr<TopicDetail> DescribeTopic(const std::string& topic) override { return access_.DescribeTopic(topic); }
  absl::Status CreateTopic(const log::TopicSpec& spec) override { return access_.CreateTopic(spec); }
  absl::Status DeleteTopic(const std::string& topic) override { return access_.DeleteTopic(topic); }
  absl::StatusOr<std::unique_ptr<RecordSink>> OpenSink() override { return access_.OpenSink(); }
  absl::StatusOr<std::unique_ptr<RecordSource>> OpenSource(const ConsumeRequest& request) override {
    return access_.OpenSource(request);
  }
  absl::StatusOr<std::vector<StateRow>> GetState(const StateQuery& query) override { return access_.GetState(query); }
  absl::StatusOr<std::vector<StateRow>> ScanState(const StateQuery& query) override { return access_.ScanState(query); }

  absl::StatusOr<std::vector<TaskRow>> ListTasks(const std::string& processor) override {
    return access_.ListTasks(processor);
  }
  absl::StatusOr<std::vector<int32_t>> RestartTasks(const std::string& processor,
                                                    const std::vector<int32_t>& tasks) override {
    return access_.RestartTasks(processor, tasks);
  }
  absl::Status SetPaused(const std::string& processor, bool paused) override {
    return access_.SetPaused(processor, paused);
  }
  absl::StatusOr<std::string> RunTool(const std::string& tool, const std::string& request) override {
    return access_.RunTool(tool, request);
  }

 private:
  std::unique_ptr<host::DataFolder> folder_;
  std::unique_ptr<log::EmbeddedLog> log_;
  std::unique_ptr<ProcessorBackend> state_;
  LocalAccess access_;
};

absl::StatusOr<std::unique_ptr<LogAccess>> OpenOwned(std::unique_ptr<host::DataFolder> folder) {
  log::EmbeddedLogOptions options;
  options.directory = folder->LogDirectory();
  MS_ASSIGN_OR_RETURN(std::unique_ptr<log::EmbeddedLog> log, log::EmbeddedLog::Open(options));
  return std::make_unique<OwnedAccess>(std::move(folder), std::move(log));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogAccess>> OpenAccess(const OpenAccessOptions& options) {
  const absl::Duration deadline = SystemClock().Monotonic() + options.patience;
  bool told = false;
  while (true) {
    absl::StatusOr<std::unique_ptr<LogAccess>> remote = ConnectRemoteAccess(options.folder);
    if (remote.ok() || (!absl::IsNotFound(remote.status()) && !absl::IsUnavailable(remote.status()))) return remote;

    absl::StatusOr<std::unique_ptr<host::DataFolder>> folder =
        host::DataFolder::Acquire(options.folder, options.program, options.create);
    if (folder.ok()) return OpenOwned(*std::move(folder));
    const bool held = absl::IsFailedPrecondition(folder.status());
    if (!held || SystemClock().Monotonic() >= deadline) return folder.status();
    if (!told && options.on_wait) options.on_wait(std::string(folder.status().message()));
    told = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace millstream::cli
