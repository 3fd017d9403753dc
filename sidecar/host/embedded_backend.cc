#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/embedded/embedded_log.h"
#include "sidecar/group/local_membership.h"
#include "sidecar/host/backend.h"

namespace millstream::host {
namespace {

class EmbeddedBackend : public Backend {
 public:
  explicit EmbeddedBackend(std::unique_ptr<log::EmbeddedLog> log) : log_(std::move(log)) {}

  log::Log* log() override { return log_.get(); }
  bool shared() const override { return false; }
  MembershipFactory Membership(const spec::StreamProcessorSpec& spec, const MemberIdentity& member,
                               MetricsRegistry* /*metrics*/) override {
    return [log = log_.get(), group = spec.group, tasks = spec.TasksOf(member.partitions),
            name = StrCat("local-", member.instance_id)](const group::ProcessState&, group::MembershipEvents* events) {
      group::LocalMembershipOptions local;
      local.tasks = tasks;
      local.join = [log, group, name] { return log->JoinGroup(group, name); };
      local.leave = [log](const log::GroupToken& token) { log->LeaveGroup(token); };
      return group::NewLocalMembership(std::move(local), events);
    };
  }

 private:
  const std::unique_ptr<log::EmbeddedLog> log_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenEmbeddedBackend(const std::string& directory, const MemoryShares& memory) {
  log::EmbeddedLogOptions options;
  options.directory = directory;
  options.block_cache_bytes = memory.log_cache;
  options.memtable_bytes = memory.log_memtables;
  MS_ASSIGN_OR_RETURN(std::unique_ptr<log::EmbeddedLog> log, log::EmbeddedLog::Open(options));
  return std::make_unique<EmbeddedBackend>(std::move(log));
}

}  // namespace millstream::host
