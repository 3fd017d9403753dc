#include "common/log/embedded/embedded_log.h"

#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/thread_name.h"
#include "common/log/embedded/admin.h"
#include "common/log/embedded/coordinator.h"
#include "common/log/embedded/core.h"
#include "common/log/embedded/folder.h"
#include "common/log/embedded/maintenance.h"
#include "common/log/embedded/open.h"
#include "common/log/embedded/reader.h"
#include "common/log/embedded/writer.h"

namespace millstream::log {
namespace embedded {
namespace {

class EmbeddedLogImpl : public EmbeddedLog {
 public:
  EmbeddedLogImpl(const EmbeddedLogOptions& options, const InternalOptions& internal, std::unique_ptr<Folder> folder,
                  std::unique_ptr<Storage> storage)
      : options_(options), folder_(std::move(folder)), core_(options.clock, std::move(storage)), admin_(&core_) {
    core_.segment_bytes = internal.segment_bytes;
    core_.call_deadline = options.admin_deadline;
  }

  ~EmbeddedLogImpl() override {
    {
      absl::MutexLock lock(&stop_mutex_);
      stopping_ = true;
      stop_.Signal();
    }
    core_.stopping = true;
    if (maintenance_thread_.joinable()) maintenance_thread_.join();
  }

  absl::Status Start() {
    MS_RETURN_IF_ERROR(Recover(core_));
    if (options_.maintenance_interval > absl::ZeroDuration()) {
      maintenance_thread_ = std::thread([this] {
        NameThread("log upkeep");
        Maintain();
      });
    }
    return absl::OkStatus();
  }

  std::unique_ptr<Reader> NewReader(const ReaderOptions& options) override {
    return std::make_unique<EmbeddedReader>(&core_, options);
  }
  std::unique_ptr<TransactionalWriter> NewTransactionalWriter(const WriterOptions& options) override {
    return std::make_unique<EmbeddedTransactionalWriter>(&core_, options);
  }
  std::unique_ptr<PlainWriter> NewPlainWriter() override { return std::make_unique<EmbeddedPlainWriter>(&core_); }
  Admin& admin() override { return admin_; }

  absl::StatusOr<GroupToken> JoinGroup(const std::string& group, const std::string& member_id) override {
    if (group.empty() || member_id.empty()) return absl::InvalidArgumentError("a group and a member need names");
    WriteSet set = core_.storage->NewWriteSet();
    absl::MutexLock lock(&core_.write_mutex);
    Generation next;
    {
      absl::MutexLock state_lock(&core_.state_mutex);
      next = core_.groups.generation(group).Next();
    }
    PutGroup(group, next, &set);
    MS_RETURN_IF_ERROR(core_.storage->Write(set));
    GroupToken token;
    {
      absl::MutexLock state_lock(&core_.state_mutex);
      token = core_.groups.Join(group, member_id);
    }
    MS_RETURN_IF_ERROR(core_.storage->Sync());
    return token;
  }

  void LeaveGroup(const GroupToken& token) override {
    absl::MutexLock lock(&core_.state_mutex);
    core_.groups.Leave(token);
  }

  absl::Status RunMaintenance() override { return embedded::RunMaintenance(core_, /*thorough=*/true); }

 private:
  void Maintain() {
    const auto stop_requested = [this] {
      absl::MutexLock lock(&stop_mutex_);
      const absl::Duration until = SystemClock().Monotonic() + options_.maintenance_interval;
      while (!stopping_) {
        const absl::Duration left = until - SystemClock().Monotonic();
        if (left <= absl::ZeroDuration()) break;
        stop_.WaitWithTimeout(&stop_mutex_, left);
      }
      return stopping_;
    };
    while (!stop_requested()) {
      const absl::Status status = embedded::RunMaintenance(core_, /*thorough=*/false);
      if (!status.ok())
        LogWarning("maintenance of the embedded log failed, it is tried again", {{"error", status.message()}});
    }
  }

  const EmbeddedLogOptions options_;
  const std::unique_ptr<Folder> folder_;
  Core core_;
  EmbeddedAdmin admin_;
  std::thread maintenance_thread_;
  absl::Mutex stop_mutex_;
  absl::CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(stop_mutex_) = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddedLog>> OpenLog(const EmbeddedLogOptions& options,
                                                     const InternalOptions& internal) {
  MS_ASSIGN_OR_RETURN(auto folder, Folder::Hold(options.directory));
  StorageOptions storage_options;
  storage_options.directory = folder->database();
  storage_options.block_cache_bytes = options.block_cache_bytes;
  storage_options.memtable_bytes = options.memtable_bytes;
  storage_options.file_system = internal.file_system;
  MS_ASSIGN_OR_RETURN(auto storage, Storage::Open(storage_options));
  auto log = std::make_unique<EmbeddedLogImpl>(options, internal, std::move(folder), std::move(storage));
  MS_RETURN_IF_ERROR(log->Start());
  return log;
}

}  // namespace embedded

absl::StatusOr<std::unique_ptr<EmbeddedLog>> EmbeddedLog::Open(const EmbeddedLogOptions& options) {
  return embedded::OpenLog(options, {});
}

}  // namespace millstream::log
