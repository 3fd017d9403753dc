#include "sidecar/pod/topics_job.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "common/base/clock.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/manifest.h"
#include "sidecar/host/backend.h"
#include "sidecar/host/cluster_access.h"
#include "sidecar/host/task_opener.h"
#include "sidecar/host/topics.h"

namespace millstream::pod {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(200), kLongestPause = absl::Seconds(3);
constexpr char kGroupInUse[] = "GroupInUse: ", kGroupOwned[] = "GroupOwnedByAnother: ";

// Without anybody changing the manifest, within the patience of one Job.
bool MayPassSoon(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::StartsWith(status.message(), kGroupInUse);
}

std::string ReasonOf(const absl::Status& status) {
  for (const char* word : {kGroupInUse, kGroupOwned}) {
    const size_t at = status.message().find(word);
    if (at != absl::string_view::npos) return std::string(word, std::string_view(word).find(':'));
  }
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return "TopicMissing";
    case absl::StatusCode::kFailedPrecondition:
      return "TopicMismatch";
    case absl::StatusCode::kPermissionDenied:
      return "AccessDenied";
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return "BrokersUnreachable";
    default:
      return "TopicRefused";
  }
}

Verdict Failure(std::string reason, const absl::Status& status, bool retry) {
  Verdict verdict;
  verdict.reason = std::move(reason);
  verdict.message = std::string(status.message());
  verdict.retry = retry;
  return verdict;
}

std::string Count(size_t count, std::string_view noun) { return StrCat(count, " ", noun, count == 1 ? "" : "s"); }

absl::Status MakeTopics(log::Log* log, const spec::StreamProcessorSpec& processor, const std::string& cluster,
                        Verdict* verdict) {
  host::TopicPreparation preparation;
  preparation.create_inputs = false;
  MS_ASSIGN_OR_RETURN(host::PreparationReport report, host::PrepareTopics(&log->admin(), {&processor}, preparation));
  // What an earlier attempt of this Job made, too.
  verdict->created.insert(verdict->created.end(), report.created.begin(), report.created.end());
  verdict->warnings = std::move(report.warnings);
  verdict->tasks = report.processors.front().tasks;
  const size_t topics = report.processors.front().known.size();
  host::TaskStateOptions owner;
  owner.log = log;
  owner.spec = &processor;
  owner.topics = std::move(report.processors.front());
  owner.owner_stamp = processor.OwnerStamp(cluster);
  MS_RETURN_IF_ERROR(host::CheckGroupOwner(owner));
  verdict->reason = "TopicsReady";
  verdict->message = StrCat(Count(topics, "topic"), ", ", verdict->created.size(), " created");
  return absl::OkStatus();
}

absl::Status DeleteTopic(log::Admin* admin, const std::string& topic, Verdict* verdict) {
  const absl::Status deleted = admin->DeleteTopic(topic);
  if (absl::IsNotFound(deleted)) return absl::OkStatus();
  if (deleted.ok()) verdict->deleted.push_back(topic);
  return deleted;
}

absl::Status DeleteGroup(log::Admin* admin, const std::string& group) {
  MS_ASSIGN_OR_RETURN(const log::GroupInfo info, admin->DescribeGroup(group));
  if (!info.members.empty()) {
    const log::GroupMember& first = info.members.front();
    return absl::FailedPreconditionError(
        StrCat(kGroupInUse, "group ", group, " still has ", Count(info.members.size(), "member"), ", ",
               first.instance_id.empty() ? first.member_id : first.instance_id,
               " among them; scale the processor to zero, or wait until the session of a killed one has ended"));
  }
  if (info.state == "Dead") return absl::OkStatus();
  const absl::Status deleted = admin->DeleteGroup(group);
  return absl::IsNotFound(deleted) ? absl::OkStatus() : deleted;
}

// Until it is done, cannot be done, or patience is over.
absl::Status WithPatience(const TopicsJobOptions& options, const std::function<absl::Status()>& attempt) {
  const absl::Duration end = SystemClock().Monotonic() + options.patience;
  std::string told;
  absl::Duration pause = kFirstPause;
  while (true) {
    const absl::Status status = attempt();
    if (status.ok() || !MayPassSoon(status) || SystemClock().Monotonic() + pause > end) return status;
    const std::string message(status.message());
    if (message != told) LogWarning("waiting", {{"cause", message}});
    told = message;
    for (const absl::Duration next = SystemClock().Monotonic() + pause; SystemClock().Monotonic() < next;) {
      if (options.interrupted && options.interrupted()) return status;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace

absl::Status DeleteInternals(log::Log* log, const spec::StreamProcessorSpec& processor, Verdict* verdict) {
  log::Admin* const admin = &log->admin();
  // Nothing is deleted under a member. The offsets go last: as long as they are there, it is not done.
  MS_ASSIGN_OR_RETURN(const log::GroupInfo info, admin->DescribeGroup(processor.group));
  if (!info.members.empty()) return DeleteGroup(admin, processor.group);
  const std::string default_dead_letters = StrCat(processor.group, "-dead-letter");
  for (const spec::InternalTopic& internal : spec::InternalTopicsOf(processor)) {
    if (internal.kind == spec::InternalTopic::Kind::kDeadLetter && internal.topic != default_dead_letters) {
      const std::string kept = StrCat("dead-letter topic ", internal.topic, " has a name of its own and is kept");
      if (verdict->warnings.empty()) verdict->warnings.push_back(kept);
      continue;
    }
    MS_RETURN_IF_ERROR(Annotate(DeleteTopic(admin, internal.topic, verdict), StrCat("delete topic ", internal.topic)));
  }
  MS_RETURN_IF_ERROR(DeleteGroup(admin, StrCat(processor.group, "-dead-letters")));
  MS_RETURN_IF_ERROR(DeleteGroup(admin, processor.group));
  verdict->reason = "TopicsDeleted";
  verdict->message = StrCat(Count(verdict->deleted.size(), "internal topic"), " and group ", processor.group,
                            " deleted; inputs and outputs are kept");
  return absl::OkStatus();
}

Verdict RunTopicsJob(const TopicsJobOptions& options) {
  const absl::StatusOr<spec::Manifest> manifest = spec::LoadOneManifest(options.manifest);
  if (!manifest.ok()) return Failure("InvalidManifest", manifest.status(), false);
  const spec::StreamProcessorSpec& processor = manifest->processor;
  const absl::StatusOr<kafka::ClusterAccess> access =
      host::ResolveClusterAccess(processor.kafka, {options.bootstrap_servers, options.secrets_folder});
  if (!access.ok()) return Failure("SecretUnreadable", access.status(), true);
  const std::unique_ptr<MetricsRegistry> metrics = NewMetricsRegistry();
  const auto backend = host::OpenKafkaBackend(std::make_shared<kafka::LiveAccess>(*access),
                                              StrCat(processor.group, "-topics"), metrics.get());
  if (!backend.ok()) return Failure("InvalidManifest", backend.status(), false);

  Verdict verdict;
  const absl::Status done = WithPatience(options, [&] {
    log::Log* const log = (*backend)->log();
    return options.remove ? DeleteInternals(log, processor, &verdict)
                          : MakeTopics(log, processor, options.cluster, &verdict);
  });
  verdict.ok = done.ok();
  if (!done.ok()) {
    verdict.reason = ReasonOf(done);
    verdict.message = std::string(done.message());
    verdict.retry = MayPassSoon(done) || absl::IsPermissionDenied(done);
  }
  return verdict;
}

}  // namespace millstream::pod
