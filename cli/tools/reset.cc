#include "cli/tools/reset.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "cli/tools/empty_group.h"
#include "cli/tools/read_range.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

absl::StatusOr<int> PartitionsOf(log::Log* log, const std::string& topic) {
  MS_ASSIGN_OR_RETURN(const log::TopicInfo info, log->admin().DescribeTopic(topic));
  return info.partitions;
}

absl::StatusOr<std::vector<int32_t>> TasksOf(log::Log* log, const ResetRequest& request) {
  int count = 0;
  for (const ResetRequest::Input& input : request.inputs) {
    MS_ASSIGN_OR_RETURN(const int partitions, PartitionsOf(log, input.topic));
    count = std::max(count, partitions);
  }
  std::set<int32_t> tasks(request.partitions.begin(), request.partitions.end());
  for (const int32_t task : tasks) {
    if (task < 0 || task >= count) {
      return absl::InvalidArgumentError(
          StrCat("there is no partition ", task, "; the inputs have the partitions 0 to ", count - 1));
    }
  }
  for (int32_t task = 0; request.partitions.empty() && task < count; ++task) tasks.insert(task);
  return std::vector<int32_t>(tasks.begin(), tasks.end());
}

absl::StatusOr<Offset> StartOf(log::Log* log, const TopicPartition& of, const spec::StartFrom& start) {
  switch (start.type) {
    case spec::StartFrom::Type::kEarliest:
      break;
    case spec::StartFrom::Type::kLatest:
      return log->admin().EndOffset(of, log::Isolation::kReadCommitted);
    case spec::StartFrom::Type::kTimestamp:
      return log->admin().OffsetForTime(of, absl::ToUnixMillis(start.time));
  }
  return log->admin().StartOffset(of);
}

absl::Status Resolve(log::Log* log, const ResetTarget& target, const spec::StartFrom& start_from, ResetRow* row) {
  switch (target.kind) {
    case ResetTarget::Kind::kStart: {
      MS_ASSIGN_OR_RETURN(row->to, StartOf(log, row->of, start_from));
      return absl::OkStatus();
    }
    case ResetTarget::Kind::kEarliest:
      row->to = row->start;
      return absl::OkStatus();
    case ResetTarget::Kind::kLatest:
      row->to = row->end;
      return absl::OkStatus();
    case ResetTarget::Kind::kTime: {
      MS_ASSIGN_OR_RETURN(row->to, log->admin().OffsetForTime(row->of, target.number));
      return absl::OkStatus();
    }
    case ResetTarget::Kind::kOffset:
      row->to = Offset(target.number);
      if (row->to >= row->start && row->to <= row->end) return absl::OkStatus();
      return absl::OutOfRangeError(StrCat(row->of.ToString(), " holds the offsets ", row->start.value(), " to ",
                                          row->end.value(), ", not ", target.number,
                                          "; choose partitions with --partition, or give a time"));
    case ResetTarget::Kind::kBy: {
      if (!row->from.has_value()) {
        return absl::FailedPreconditionError(
            StrCat(row->of.ToString(), " has no committed offset to count from; use --to"));
      }
      const Offset wanted(row->from->value() + target.number);
      row->to = std::clamp(wanted, row->start, row->end);
      row->clamped = row->to != wanted;
      return absl::OkStatus();
    }
  }
  return absl::InternalError("unknown target");
}

absl::Status CheckOwner(const ResetRequest& request, const TopicPartition& of, const std::string& metadata) {
  const std::string owner = OwnerOf(metadata);
  if (owner.empty() || owner == request.owner) return absl::OkStatus();
  return absl::FailedPreconditionError(StrCat(
      "GroupOwnedByAnother: the offsets of group ", request.group, " (", of.ToString(), ") belong to the processor ",
      owner, ", not to ", request.owner,
      "; if it is this one in another cluster pass --cluster NAME, if it is gone for good `millstream adopt` first"));
}

// Appends a tombstone for every key that has a value in the changelog up to its end.
class Emptying {
 public:
  Emptying(EmptyGroupWriter* writer, TopicPartition of) : writer_(writer), of_(std::move(of)) {}

  absl::Status Take(std::vector<log::Record> records) {
    std::vector<log::OutgoingRecord> tombstones;
    for (log::Record& record : records) {
      if (!record.value.has_value() || !record.key.has_value() || Seen(*record.key)) continue;
      log::OutgoingRecord tombstone;
      tombstone.to = of_;
      tombstone.timestamp_ms = SystemClock().WallMillis();
      tombstone.key = std::move(record.key);
      tombstones.push_back(std::move(tombstone));
    }
    count_ += static_cast<int64_t>(tombstones.size());
    return writer_->Append(std::move(tombstones));
  }
  int64_t count() const { return count_; }

 private:
  // A key that is forgotten here only gets a second tombstone.
  bool Seen(const Bytes& key) {
    constexpr size_t kMostBytes = 64u << 20;
    if (!seen_.insert(key).second) return true;
    bytes_ += key.size() + 64;
    if (bytes_ < kMostBytes) return false;
    seen_.clear();
    bytes_ = 0;
    return false;
  }

  EmptyGroupWriter* const writer_;
  const TopicPartition of_;
  std::set<Bytes> seen_;
  size_t bytes_ = 0;
  int64_t count_ = 0;
};

absl::StatusOr<int64_t> ResetTask(log::Log* log, const ResetRequest& request, const ResetPlan& plan, int32_t task,
                                  EmptyGroupWriter* writer) {
  int64_t tombstones = 0;
  for (const std::string& changelog : request.changelogs) {
    const TopicPartition of{changelog, Partition(task)};
    MS_ASSIGN_OR_RETURN(const Range range, SettledRange(log, of));
    Emptying emptying(writer, of);
    MS_RETURN_IF_ERROR(
        ReadRange(log, of, range, [&](std::vector<log::Record> records) { return emptying.Take(std::move(records)); }));
    tombstones += emptying.count();
  }
  std::vector<std::pair<TopicPartition, Offset>> positions;
  for (const ResetRow& row : plan.rows) {
    if (row.of.partition.value() == task) positions.push_back({row.of, row.to});
  }
  MS_RETURN_IF_ERROR(writer->Commit(positions));
  return tombstones;
}

}  // namespace

absl::StatusOr<ResetTarget> ParseResetTarget(const std::string& text) {
  using Kind = ResetTarget::Kind;
  if (text == "start") return ResetTarget{Kind::kStart, 0};
  if (text == "earliest") return ResetTarget{Kind::kEarliest, 0};
  if (text == "latest") return ResetTarget{Kind::kLatest, 0};
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= 0)
    return ResetTarget{Kind::kOffset, number};
  absl::Time time;
  std::string problem;
  if (absl::ParseTime(absl::RFC3339_full, text, &time, &problem))
    return ResetTarget{Kind::kTime, absl::ToUnixMillis(time)};
  return absl::InvalidArgumentError(StrCat(
      "--to ", text, ": give start, earliest, latest, an offset, or an RFC 3339 time like 2024-05-01T00:00:00Z"));
}

absl::StatusOr<ResetPlan> PlanReset(log::Log* log, const ResetRequest& request) {
  ResetPlan plan;
  MS_ASSIGN_OR_RETURN(plan.members, MembersOf(log, request.group));
  MS_ASSIGN_OR_RETURN(plan.tasks, TasksOf(log, request));
  for (const int32_t task : plan.tasks) {
    std::vector<TopicPartition> inputs;
    for (const ResetRequest::Input& input : request.inputs) inputs.push_back({input.topic, Partition(task)});
    MS_ASSIGN_OR_RETURN(const auto committed, log->admin().StableGroupOffsets(request.group, inputs));
    for (const ResetRequest::Input& input : request.inputs) {
      ResetRow row{.of = {input.topic, Partition(task)}, .from = {}, .to = {}, .start = {}, .end = {}};
      if (const auto found = committed.find(row.of); found != committed.end()) {
        MS_RETURN_IF_ERROR(CheckOwner(request, row.of, found->second.metadata));
        row.from = found->second.next;
      }
      MS_ASSIGN_OR_RETURN(row.start, log->admin().StartOffset(row.of));
      MS_ASSIGN_OR_RETURN(row.end, log->admin().EndOffset(row.of, log::Isolation::kReadCommitted));
      if (input.to_end) {
        row.to = row.end;
      } else {
        MS_RETURN_IF_ERROR(Resolve(log, request.target, input.start_from, &row));
      }
      plan.rows.push_back(std::move(row));
    }
    for (const std::string& changelog : request.changelogs) {
      const TopicPartition of{changelog, Partition(task)};
      MS_ASSIGN_OR_RETURN(const Offset start, log->admin().StartOffset(of));
      MS_ASSIGN_OR_RETURN(const Offset end, log->admin().EndOffset(of, log::Isolation::kReadUncommitted));
      plan.changelog_offsets += end - start;
    }
  }
  return plan;
}

absl::StatusOr<ResetOutcome> ExecuteReset(log::Log* log, const ResetRequest& request, const ResetPlan& plan) {
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<EmptyGroupWriter> writer,
                      EmptyGroupWriter::Open(log, request.group, StrCat(request.group, "-reset"), request.owner));
  ResetOutcome outcome;
  for (const int32_t task : plan.tasks) {
    const absl::StatusOr<int64_t> tombstones = ResetTask(log, request, plan, task, writer.get());
    if (!tombstones.ok()) {
      outcome.status = Annotate(tombstones.status(), StrCat("task ", task));
      return outcome;
    }
    outcome.tasks.push_back(task);
    outcome.tombstones += *tombstones;
  }
  return outcome;
}

}  // namespace millstream::cli
