#include "sidecar/host/topic_watch.h"

#include <utility>

#include "common/base/log_line.h"
#include "common/base/strings.h"

namespace millstream::host {
namespace {

// Looks in a row at which a topic is not there, before that is believed.
constexpr int kMissingLooks = 2;

const char* NameOf(KnownTopic::Role role) {
  switch (role) {
    case KnownTopic::Role::kInput:
      return "input topic ";
    case KnownTopic::Role::kJoin:
      return "join topic ";
    case KnownTopic::Role::kLookup:
      return "lookup topic ";
    case KnownTopic::Role::kOutput:
      return "output topic ";
    case KnownTopic::Role::kLoop:
      return "loop topic ";
    case KnownTopic::Role::kChangelog:
      return "changelog topic ";
    case KnownTopic::Role::kDeadLetter:
      return "dead-letter topic ";
  }
  return "topic ";
}

}  // namespace

TopicWatch::TopicWatch(const TopicWatchOptions& options, log::Admin* admin, const Clock* clock, OnBroken on_broken)
    : options_(options),
      admin_(admin),
      clock_(clock),
      on_broken_(std::move(on_broken)),
      answered_at_(clock->Monotonic()),
      thread_([this] { Run(); }) {}

TopicWatch::~TopicWatch() { Stop(); }

void TopicWatch::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

std::vector<Condition> TopicWatch::Conditions() const {
  absl::MutexLock lock(&mutex_);
  return conditions_;
}

void TopicWatch::Run() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), options_.interval)) return;
    }
    Look();
  }
}

void TopicWatch::Look() {
  std::vector<Condition> conditions;
  absl::Status broken, unreachable;
  for (const KnownTopic& known : options_.topics) {
    const absl::StatusOr<log::TopicInfo> found = admin_->DescribeTopic(known.topic);
    if (absl::IsUnavailable(found.status()) || absl::IsDeadlineExceeded(found.status())) {
      unreachable = found.status();
      break;  // every further question would wait as long
    }
    const std::optional<Finding> finding = Judge(known, found);
    if (!finding.has_value()) continue;
    conditions.push_back(finding->condition);
    if (finding->broken && broken.ok()) {
      broken = absl::FailedPreconditionError(StrCat(finding->condition.reason, ": ", finding->condition.message));
    }
  }
  const absl::Duration now = clock_->Monotonic();
  if (unreachable.ok()) answered_at_ = now;
  if (now - answered_at_ > options_.patience) {
    conditions.push_back(
        {"BrokersUnreachable",
         StrCat("no answer for ", absl::FormatDuration(absl::Trunc(now - answered_at_, absl::Seconds(1))), ": ",
                std::string(unreachable.message()))});
  }
  {
    absl::MutexLock lock(&mutex_);
    if (unreachable.ok() || !conditions.empty()) {
      for (const Condition& condition : conditions) {
        bool said = false;
        for (const Condition& before : conditions_) said = said || before.reason == condition.reason;
        if (!said) LogWarning(StrCat(condition.reason, ": ", condition.message));
      }
      conditions_ = std::move(conditions);
    }
  }
  if (!broken.ok()) on_broken_(broken);
}

std::optional<TopicWatch::Finding> TopicWatch::Judge(const KnownTopic& known,
                                                     const absl::StatusOr<log::TopicInfo>& found) {
  const std::string name = StrCat(NameOf(known.role), known.topic);
  const bool table = known.role == KnownTopic::Role::kJoin || known.role == KnownTopic::Role::kLookup;
  const bool input = known.role == KnownTopic::Role::kInput || known.role == KnownTopic::Role::kLoop;
  if (absl::IsNotFound(found.status())) {
    if (++missing_[known.topic] < kMissingLooks) return std::nullopt;
    return Finding{{"TopicDeleted", StrCat(name, " does not exist any more; make it again and restart the processor")},
                   known.role == KnownTopic::Role::kChangelog};
  }
  missing_[known.topic] = 0;
  if (absl::IsPermissionDenied(found.status()))
    return Finding{{"AccessDenied", StrCat(name, ": ", std::string(found.status().message()))}, false};
  if (!found.ok()) return std::nullopt;
  const bool recreated = !known.id.empty() && !found->id.empty() && known.id != found->id;
  if (recreated && table) {
    return Finding{
        {"TopicRecreated",
         StrCat(name, " was deleted and made anew while the processor ran (id ", found->id, ", was ", known.id,
                "): what is known of it is the old one's; restart the processor, which reads it anew")},
        true};
  }
  if (recreated) {
    return Finding{{"TopicRecreated", StrCat(name, " was deleted and made anew while the processor ran (id ", found->id,
                                             ", was ", known.id,
                                             "): positions and state belong to the old one; stop the processor, "
                                             "`millstream reset --to start`, and start it again")},
                   input || known.role == KnownTopic::Role::kChangelog};
  }
  if (found->partitions != known.partitions && known.role == KnownTopic::Role::kLookup) {
    return Finding{{"PartitionsChanged", StrCat(name, " has ", found->partitions, " partitions now, ", known.partitions,
                                                " of them are read; restart the processor to read all")},
                   false};
  }
  if (found->partitions != known.partitions && (input || table)) {
    return Finding{{"PartitionsChanged",
                    StrCat(name, " has ", found->partitions, " partitions now, this processor was started with ",
                           known.partitions, " and has ", options_.tasks,
                           " tasks: keys are spread anew and would miss their state. A processor with stores cannot "
                           "follow: write to a topic of the new size and use another group for it; one without stores "
                           "follows when it is restarted")},
                   true};
  }
  if (found->partitions != known.partitions && known.role == KnownTopic::Role::kOutput) {
    return Finding{
        {"PartitionsChanged", StrCat(name, " has ", found->partitions, " partitions now, records are spread over ",
                                     known.partitions, "; restart the processor to use all of them")},
        false};
  }
  return std::nullopt;
}

}  // namespace millstream::host
