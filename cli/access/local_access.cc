#include "cli/access/local_access.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "cli/tools/tool.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

class LocalSink : public RecordSink {
 public:
  explicit LocalSink(std::unique_ptr<log::PlainWriter> writer) : writer_(std::move(writer)) {}
  absl::Status Append(std::vector<log::OutgoingRecord> records) override { return writer_->Append(std::move(records)); }
  absl::Status Flush() override { return writer_->Flush().status(); }

 private:
  std::unique_ptr<log::PlainWriter> writer_;
};

class LocalSource : public RecordSource {
 public:
  LocalSource(std::unique_ptr<log::Reader> reader, std::map<Partition, Offset> positions)
      : reader_(std::move(reader)), positions_(std::move(positions)) {}

  absl::StatusOr<ConsumedChunk> Next(absl::Duration wait) override {
    MS_ASSIGN_OR_RETURN(std::vector<log::ReaderEvent> events, reader_->Poll(wait));
    ConsumedChunk chunk;
    for (log::ReaderEvent& event : events) {
      if (auto* read = std::get_if<log::RecordsRead>(&event)) {
        at_end_.erase(read->from.partition);
        positions_[read->from.partition] = read->next;
        for (log::Record& record : read->records) chunk.records.push_back({read->from.partition, std::move(record)});
      } else if (auto* end = std::get_if<log::EndOfPartition>(&event)) {
        at_end_.insert(end->from.partition);
        positions_[end->from.partition] = end->position;
      } else if (auto* failed = std::get_if<log::PartitionFailed>(&event)) {
        return Annotate(failed->status, failed->from.ToString());
      }
    }
    chunk.at_end = at_end_.size() == positions_.size();
    chunk.positions.assign(positions_.begin(), positions_.end());
    return chunk;
  }

 private:
  std::unique_ptr<log::Reader> reader_;
  std::map<Partition, Offset> positions_;
  std::set<Partition> at_end_;
};

}  // namespace

absl::StatusOr<std::vector<log::TopicInfo>> LocalAccess::ListTopics() { return log_->admin().ListTopics(); }

absl::StatusOr<TopicDetail> LocalAccess::DescribeTopic(const std::string& topic) {
  TopicDetail detail;
  MS_ASSIGN_OR_RETURN(detail.info, log_->admin().DescribeTopic(topic));
  for (int number = 0; number < detail.info.partitions; ++number) {
    const TopicPartition of{topic, Partition(number)};
    PartitionExtent extent{.partition = of.partition, .start = {}, .stable_end = {}, .end = {}};
    MS_ASSIGN_OR_RETURN(extent.start, log_->admin().StartOffset(of));
    MS_ASSIGN_OR_RETURN(extent.stable_end, log_->admin().EndOffset(of, log::Isolation::kReadCommitted));
    MS_ASSIGN_OR_RETURN(extent.end, log_->admin().EndOffset(of, log::Isolation::kReadUncommitted));
    detail.partitions.push_back(extent);
  }
  return detail;
}

absl::Status LocalAccess::CreateTopic(const log::TopicSpec& spec) { return log_->admin().CreateTopic(spec); }
absl::Status LocalAccess::DeleteTopic(const std::string& topic) { return log_->admin().DeleteTopic(topic); }

absl::StatusOr<std::unique_ptr<RecordSink>> LocalAccess::OpenSink() {
  return std::make_unique<LocalSink>(log_->NewPlainWriter());
}

absl::StatusOr<Offset> LocalAccess::ResolveStart(const TopicPartition& of, const StartAt& start,
                                                 log::Isolation isolation) {
  MS_ASSIGN_OR_RETURN(const Offset first, log_->admin().StartOffset(of));
  if (start.where == StartAt::Where::kBeginning) return first;
  if (start.where == StartAt::Where::kTime) return log_->admin().OffsetForTime(of, start.number);
  MS_ASSIGN_OR_RETURN(const Offset end, log_->admin().EndOffset(of, isolation));
  if (start.where == StartAt::Where::kEnd) return end;
  if (start.where == StartAt::Where::kLast) return std::max(first, Offset(end.value() - start.number));
  const Offset wanted(start.number);
  if (wanted < first || wanted > end) {
    return absl::OutOfRangeError(StrCat(of.ToString(), ": offset ", start.number, " is outside of what is there, ",
                                        first.value(), " to ", end.value()));
  }
  return wanted;
}

absl::StatusOr<std::unique_ptr<RecordSource>> LocalAccess::OpenSource(const ConsumeRequest& request) {
  MS_ASSIGN_OR_RETURN(const log::TopicInfo info, log_->admin().DescribeTopic(request.topic));
  std::vector<Partition> partitions = request.partitions;
  for (int number = 0; request.partitions.empty() && number < info.partitions; ++number)
    partitions.push_back(Partition(number));

  std::unique_ptr<log::Reader> reader = log_->NewReader({.isolation = request.isolation});
  std::map<Partition, Offset> positions;
  for (const Partition partition : partitions) {
    if (partition.value() < 0 || partition.value() >= info.partitions) {
      return absl::InvalidArgumentError(StrCat("topic ", request.topic, " has the partitions 0 to ",
                                               info.partitions - 1, ", not ", partition.value()));
    }
    const TopicPartition of{request.topic, partition};
    MS_ASSIGN_OR_RETURN(const Offset start, ResolveStart(of, request.start, request.isolation));
    MS_RETURN_IF_ERROR(reader->Add(of, start));
    positions[partition] = start;
  }
  return std::make_unique<LocalSource>(std::move(reader), std::move(positions));
}

absl::StatusOr<std::string> LocalAccess::RunTool(const std::string& tool, const std::string& request) {
  return cli::RunTool(log_, tool, request);
}

}  // namespace millstream::cli
