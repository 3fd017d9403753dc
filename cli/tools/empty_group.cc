#include "cli/tools/empty_group.h"

#include <chrono>
#include <thread>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "nlohmann/json.hpp"

namespace millstream::cli {
namespace {

// A large store is one transaction per task; the broker's own bound is 15 minutes unless it was changed.
constexpr absl::Duration kTransactionTimeout = absl::Minutes(5);
// The log asks for a repetition while it ends an earlier transaction or looks for a coordinator: seconds, not minutes.
constexpr int kRepetitions = 100;
constexpr std::chrono::milliseconds kPause{100};

template <typename Call>
absl::Status Repeat(const Call& call) {
  absl::Status status = call();
  for (int i = 0; i < kRepetitions && RecoveryOf(status) == Recovery::kRetry; ++i) {
    std::this_thread::sleep_for(kPause);
    status = call();
  }
  return status;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> MembersOf(log::Log* log, const std::string& group) {
  MS_ASSIGN_OR_RETURN(const log::GroupInfo info, log->admin().DescribeGroup(group));
  std::vector<std::string> members;
  for (const log::GroupMember& member : info.members) {
    const std::string& name = member.instance_id.empty() ? member.member_id : member.instance_id;
    members.push_back(member.host.empty() ? name : StrCat(name, " (", member.host, ")"));
  }
  return members;
}

absl::Status CheckNoMembers(log::Log* log, const std::string& group) {
  MS_ASSIGN_OR_RETURN(const std::vector<std::string> members, MembersOf(log, group));
  if (members.empty()) return absl::OkStatus();
  std::string list;
  for (const std::string& member : members) StrAppend(&list, list.empty() ? "" : ", ", member);
  return absl::FailedPreconditionError(
      StrCat("group ", group, " has members: ", list,
             "; stop them first (Ctrl-C of `millstream run`, replicas: 0 in a cluster). One that was killed is a "
             "member until its session timeout"));
}

std::string OwnerOf(std::string_view metadata) {
  const nlohmann::json parsed = nlohmann::json::parse(metadata, nullptr, false);
  if (!parsed.is_object()) return "";
  const auto owner = parsed.find("owner");
  return owner != parsed.end() && owner->is_string() ? owner->get<std::string>() : "";
}

std::string OffsetMetadata(std::string_view owner, std::string_view tag) {
  const nlohmann::ordered_json metadata = {{"v", 1}, {"owner", owner}, {"tag", tag}};
  return metadata.dump();
}

EmptyGroupWriter::EmptyGroupWriter(log::Log* log, std::string group, std::string transactional_id, std::string owner)
    : log_(log),
      group_(std::move(group)),
      transactional_id_(std::move(transactional_id)),
      owner_(std::move(owner)),
      process_start_(SystemClock().WallMillis()) {}

EmptyGroupWriter::~EmptyGroupWriter() {
  if (open_ && writer_ != nullptr) writer_->Abort().IgnoreError();
}

absl::StatusOr<std::unique_ptr<EmptyGroupWriter>> EmptyGroupWriter::Open(log::Log* log, std::string group,
                                                                         std::string transactional_id,
                                                                         std::string owner) {
  std::unique_ptr<EmptyGroupWriter> writer(
      new EmptyGroupWriter(log, std::move(group), std::move(transactional_id), std::move(owner)));
  MS_RETURN_IF_ERROR(CheckNoMembers(log, writer->group_));
  MS_RETURN_IF_ERROR(writer->MakeWriter());
  return writer;
}

absl::Status EmptyGroupWriter::MakeWriter() {
  writer_.reset();
  open_ = false;
  log::WriterOptions options;
  options.transactional_id = transactional_id_;
  options.transaction_timeout = kTransactionTimeout;
  writer_ = log_->NewTransactionalWriter(options);
  return Annotate(Repeat([this] { return writer_->Init(); }), StrCat("transactional id ", transactional_id_));
}

absl::Status EmptyGroupWriter::BeginIfNeeded() {
  if (open_) return absl::OkStatus();
  if (writer_ == nullptr) MS_RETURN_IF_ERROR(MakeWriter());
  MS_RETURN_IF_ERROR(Repeat([this] { return writer_->Begin(); }));
  open_ = true;
  ++transactions_;
  return absl::OkStatus();
}

absl::Status EmptyGroupWriter::GiveUp(absl::Status failure) {
  const bool usable = RecoveryOf(failure) != Recovery::kRecreate;
  if (!usable || !Repeat([this] { return writer_->Abort(); }).ok()) writer_.reset();
  open_ = false;
  return failure;
}

absl::Status EmptyGroupWriter::Append(std::vector<log::OutgoingRecord> records) {
  if (records.empty()) return absl::OkStatus();
  MS_RETURN_IF_ERROR(BeginIfNeeded());
  const absl::Status appended = writer_->Append(std::move(records));
  return appended.ok() ? appended : GiveUp(appended);
}

absl::Status EmptyGroupWriter::TryCommit(const std::vector<std::pair<TopicPartition, log::GroupOffset>>& offsets) {
  MS_RETURN_IF_ERROR(Repeat([this] { return writer_->Flush().status(); }));
  const log::GroupToken nobody{.group = group_, .member_id = "", .instance_id = "", .generation = Generation(-1)};
  MS_RETURN_IF_ERROR(Repeat([&] { return writer_->SendOffsets(nobody, offsets); }));
  // Whoever joined before now is seen here; whoever joins from now on waits for our outcome.
  MS_RETURN_IF_ERROR(CheckNoMembers(log_, group_));
  return Repeat([this] { return writer_->Commit(); });
}

absl::Status EmptyGroupWriter::Settle(const std::vector<std::pair<TopicPartition, log::GroupOffset>>& offsets,
                                      const absl::Status& failure) {
  MS_RETURN_IF_ERROR(MakeWriter());  // from here on the transaction has ended, one way or the other
  std::vector<TopicPartition> partitions;
  for (const auto& [of, offset] : offsets) partitions.push_back(of);
  MS_ASSIGN_OR_RETURN(const auto committed, log_->admin().StableGroupOffsets(group_, partitions));
  const auto found = committed.find(offsets.front().first);
  const bool ours = found != committed.end() && found->second.metadata == offsets.front().second.metadata;
  return ours ? absl::OkStatus() : failure;
}

absl::Status EmptyGroupWriter::Commit(const std::vector<std::pair<TopicPartition, Offset>>& positions) {
  MS_RETURN_IF_ERROR(BeginIfNeeded());
  const std::string metadata =
      OffsetMetadata(owner_, StrCat(transactional_id_, "/", process_start_, "/", transactions_));
  std::vector<std::pair<TopicPartition, log::GroupOffset>> offsets;
  for (const auto& [of, next] : positions) offsets.push_back({of, {.next = next, .metadata = metadata}});
  const absl::Status committed = TryCommit(offsets);
  if (committed.ok()) {
    open_ = false;
    return committed;
  }
  if (IsOutcomeUnknown(committed)) return Settle(offsets, committed);
  return GiveUp(committed);
}

}  // namespace millstream::cli
