#include "cli/tools/dead_letters.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "cli/tools/empty_group.h"
#include "cli/tools/read_range.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

constexpr std::string_view kPrefix = "millstream.error.";
constexpr int64_t kLettersPerTransaction = 1000;
constexpr size_t kMostListedBytes = 16u << 20;  // one answer over the control socket

std::string ReplayId(const std::string& group) { return StrCat(group, "-dead-letter-replay"); }

// Ends a reading that has what it wanted.
absl::Status Enough() { return absl::CancelledError("enough"); }

absl::StatusOr<std::vector<TopicPartition>> PartitionsOf(log::Log* log, const DeadLetterRequest& request) {
  const absl::StatusOr<log::TopicInfo> info = log->admin().DescribeTopic(request.topic);
  if (absl::IsNotFound(info.status())) {
    return absl::NotFoundError(StrCat("there is no dead-letter topic ", request.topic,
                                      "; it is made with errors.onFailure: DeadLetter when the processor starts"));
  }
  MS_RETURN_IF_ERROR(info.status());
  std::vector<TopicPartition> partitions;
  for (int32_t number = 0; number < info->partitions; ++number) {
    const bool wanted = request.partitions.empty() || std::find(request.partitions.begin(), request.partitions.end(),
                                                                number) != request.partitions.end();
    if (wanted) partitions.push_back({request.topic, Partition(number)});
  }
  return partitions;
}

// Where dead letters begin that were not replayed yet.
using Markers = std::map<TopicPartition, Offset>;

absl::StatusOr<Markers> ReadMarkers(log::Log* log, const DeadLetterRequest& request,
                                    const std::vector<TopicPartition>& partitions) {
  Markers markers;
  MS_ASSIGN_OR_RETURN(const auto committed, log->admin().StableGroupOffsets(ReplayGroup(request.group), partitions));
  for (const auto& [of, offset] : committed) markers[of] = offset.next;
  return markers;
}

Offset MarkerOf(const Markers& markers, const TopicPartition& of) {
  const auto found = markers.find(of);
  return found == markers.end() ? Offset(0) : found->second;
}

// Chooses the partition a letter goes back to.
class Destinations {
 public:
  Destinations(log::Log* log, const DeadLetterRequest& request) : log_(log), request_(request) {}

  absl::StatusOr<TopicPartition> Of(const DeadLetterOrigin& origin, const MaybeBytes& key) {
    auto counted = counts_.find(origin.topic);
    if (counted == counts_.end()) {
      MS_ASSIGN_OR_RETURN(const log::TopicInfo info, log_->admin().DescribeTopic(origin.topic));
      counted = counts_.emplace(origin.topic, info.partitions).first;
    }
    if (origin.partition >= 0 && origin.partition < counted->second)
      return TopicPartition{origin.topic, Partition(origin.partition)};
    const auto hash = request_.hashes.find(origin.topic);
    if (!key.has_value()) return TopicPartition{origin.topic, Partition(0)};
    return TopicPartition{
        origin.topic, log::PartitionOfKey(hash == request_.hashes.end() ? log::KeyHash::kMurmur2 : hash->second, *key,
                                          counted->second)};
  }

 private:
  log::Log* const log_;
  const DeadLetterRequest& request_;
  std::map<std::string, int> counts_;
};

// One replay: partition after partition, a transaction for every kLettersPerTransaction.
class Replay {
 public:
  Replay(log::Log* log, const DeadLetterRequest& request, EmptyGroupWriter* writer)
      : log_(log), request_(request), writer_(writer), destinations_(log, request) {}

  absl::Status ReplayPartition(const TopicPartition& of, Offset marker) {
    MS_ASSIGN_OR_RETURN(Range range, StableRange(log_, of));
    range.start = std::max(range.start, marker);
    const absl::Status read =
        ReadRange(log_, of, range, [&](std::vector<log::Record> records) { return Take(of, std::move(records)); });
    if (!read.ok() && !absl::IsCancelled(read)) return read;
    return Commit(of);
  }
  const ReplayReport& report() const { return report_; }

 private:
  absl::Status Take(const TopicPartition& of, std::vector<log::Record> records) {
    for (log::Record& record : records) {
      if (request_.limit > 0 && report_.records >= request_.limit) {
        report_.more = true;
        return Enough();
      }
      MS_RETURN_IF_ERROR(Add(of, std::move(record)));
      if (waiting_ >= kLettersPerTransaction) MS_RETURN_IF_ERROR(Commit(of));
    }
    return absl::OkStatus();
  }

  absl::Status Add(const TopicPartition& of, log::Record record) {
    const std::optional<DeadLetterOrigin> origin = OriginOf(record.headers);
    next_ = record.offset.Next();
    if (!origin.has_value()) {
      ++report_.foreign;
      ++waiting_;
      if (request_.skip_foreign) return absl::OkStatus();
      return absl::FailedPreconditionError(
          StrCat(of.ToString(), " offset ", record.offset.value(),
                 " has no millstream.error headers: it is no dead letter and nobody knows where it belongs; pass over "
                 "such records with --skip-foreign"));
    }
    MS_ASSIGN_OR_RETURN(const TopicPartition to, destinations_.Of(*origin, record.key));
    ++report_.to[to];
    ++report_.records;
    ++waiting_;
    if (writer_ == nullptr) return absl::OkStatus();
    log::OutgoingRecord out;
    out.to = to;
    out.timestamp_ms = record.timestamp_ms;
    out.key = std::move(record.key);
    out.value = std::move(record.value);
    out.headers = OriginalHeaders(record.headers);
    std::vector<log::OutgoingRecord> one;
    one.push_back(std::move(out));
    return writer_->Append(std::move(one));
  }

  absl::Status Commit(const TopicPartition& of) {
    if (std::exchange(waiting_, 0) == 0 || writer_ == nullptr) return absl::OkStatus();
    return writer_->Commit({{of, next_}});
  }

  log::Log* const log_;
  const DeadLetterRequest& request_;
  EmptyGroupWriter* const writer_;  // nullptr: only counts
  Destinations destinations_;
  ReplayReport report_;
  int64_t waiting_ = 0;  // letters in the open transaction
  Offset next_;
};

}  // namespace

std::string ReplayGroup(const std::string& group) { return StrCat(group, "-dead-letters"); }

std::optional<DeadLetterOrigin> OriginOf(const Headers& headers) {
  DeadLetterOrigin origin;
  std::string partition, offset;
  const std::map<std::string_view, std::string*> fields = {
      {"topic", &origin.topic},         {"partition", &partition},    {"offset", &offset},
      {"class", &origin.failure_class}, {"message", &origin.message}, {"attempts", &origin.attempts},
      {"processor", &origin.processor}};
  for (const Header& header : headers) {
    if (!header.name.starts_with(kPrefix) || !header.value.has_value()) continue;
    const auto field = fields.find(std::string_view(header.name).substr(kPrefix.size()));
    if (field != fields.end()) *field->second = *header.value;  // the last one: a letter may have died twice
  }
  const auto parse = [](const std::string& text, auto* number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
    return error == std::errc() && end == text.data() + text.size();
  };
  if (origin.topic.empty() || !parse(partition, &origin.partition) || !parse(offset, &origin.offset))
    return std::nullopt;
  return origin;
}

Headers OriginalHeaders(const Headers& headers) {
  Headers original;
  for (const Header& header : headers) {
    if (!header.name.starts_with(kPrefix)) original.push_back(header);
  }
  return original;
}

absl::StatusOr<DeadLetterList> ListDeadLetters(log::Log* log, const DeadLetterRequest& request) {
  MS_ASSIGN_OR_RETURN(const std::vector<TopicPartition> partitions, PartitionsOf(log, request));
  MS_ASSIGN_OR_RETURN(const Markers markers, ReadMarkers(log, request, partitions));
  DeadLetterList list;
  size_t bytes = 0;
  for (const TopicPartition& of : partitions) {
    const Offset marker = MarkerOf(markers, of);
    MS_ASSIGN_OR_RETURN(Range range, StableRange(log, of));
    if (!request.all) range.start = std::max(range.start, marker);
    const absl::Status read = ReadRange(log, of, range, [&](std::vector<log::Record> records) {
      for (log::Record& record : records) {
        list.more = static_cast<int64_t>(list.rows.size()) >= request.limit || bytes > kMostListedBytes;
        if (list.more) return Enough();
        bytes += (record.key ? record.key->size() : 0) + (record.value ? record.value->size() : 0) + 512;
        DeadLetterRow row{
            .of = of, .record = {}, .origin = OriginOf(record.headers), .replayed = record.offset < marker};
        row.record = std::move(record);
        list.rows.push_back(std::move(row));
      }
      return absl::OkStatus();
    });
    if (!read.ok() && !absl::IsCancelled(read)) return read;
    if (list.more) break;
  }
  return list;
}

absl::StatusOr<ReplayReport> ReplayDeadLetters(log::Log* log, const DeadLetterRequest& request, bool execute) {
  MS_ASSIGN_OR_RETURN(const std::vector<TopicPartition> partitions, PartitionsOf(log, request));
  std::unique_ptr<EmptyGroupWriter> writer;
  if (execute) {
    // Before the markers are read: from here on no other replay moves them.
    MS_ASSIGN_OR_RETURN(
        writer, EmptyGroupWriter::Open(log, ReplayGroup(request.group), ReplayId(request.group), request.owner));
  }
  MS_ASSIGN_OR_RETURN(const Markers markers, ReadMarkers(log, request, partitions));
  Replay replay(log, request, writer.get());
  for (const TopicPartition& of : partitions) MS_RETURN_IF_ERROR(replay.ReplayPartition(of, MarkerOf(markers, of)));
  return replay.report();
}

}  // namespace millstream::cli
