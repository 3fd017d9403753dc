#include "sidecar/engine/outputs.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/welcome.h"

namespace millstream::engine {
namespace {

MaybeBytes Owned(const protocol::MaybeView& view) { return view ? MaybeBytes(std::in_place, *view) : std::nullopt; }

}  // namespace

log::KeyHash KeyHashOf(spec::Partitioner partitioner) {
  switch (partitioner) {
    case spec::Partitioner::kMurmur2:
      return log::KeyHash::kMurmur2;
    case spec::Partitioner::kCrc32:
      return log::KeyHash::kCrc32;
    case spec::Partitioner::kFnv1a:
      return log::KeyHash::kFnv1a;
  }
  return log::KeyHash::kMurmur2;
}

OutputRouter::OutputRouter(const EngineOptions* options) : options_(options) {
  MS_CHECK(options->output_partitions.size() >= options->spec.outputs.size());
  for (size_t i = 0; i < options->spec.outputs.size(); ++i) {
    MS_CHECK(options->output_partitions[i] > 0);
    partitioners_.emplace_back(KeyHashOf(options->spec.outputs[i].partitioner), options->output_partitions[i]);
  }
}

int64_t OutputRouter::SizeOf(const protocol::OutputRecord& record) {
  int64_t size = (record.key ? record.key->size() : 0) + (record.value ? record.value->size() : 0);
  for (const auto& [name, value] : record.headers) size += name.size() + (value ? value->size() : 0);
  return size;
}

// What the topic says against that time, nothing if it takes it. Milliseconds.
struct OutputRouter::Beyond {
  int64_t by, most;
  const char* where;   // of the clock
  const char* config;  // of the topic
};

std::optional<OutputRouter::Beyond> OutputRouter::BeyondTopic(uint32_t output, int64_t time, int64_t wall_ms) const {
  if (output >= options_->output_timestamps.size()) return std::nullopt;
  const TimestampBounds& bounds = options_->output_timestamps[output];
  if (bounds.ahead_ms && time > wall_ms && time - wall_ms > *bounds.ahead_ms) {
    return Beyond{time - wall_ms, *bounds.ahead_ms, "ahead of", "message.timestamp.after.max.ms"};
  }
  if (bounds.behind_ms && time < wall_ms && wall_ms - time > *bounds.behind_ms) {
    return Beyond{wall_ms - time, *bounds.behind_ms, "behind", "message.timestamp.before.max.ms"};
  }
  return std::nullopt;
}

absl::Status OutputRouter::CheckTime(const protocol::OutputRecord& record, int64_t wall_ms,
                                     absl::FunctionRef<bool(int64_t)> of_item) const {
  if (!record.timestamp_ms) return absl::OkStatus();
  const std::string& name = options_->spec.outputs[record.output].name;
  const int64_t time = *record.timestamp_ms;
  if (time < options_->min_timestamp_ms || time > options_->max_timestamp_ms) {
    return absl::InvalidArgumentError(StrCat("timestamp ", time, " ms of a record for output '", name,
                                             "' is not within ", options_->min_timestamp_ms, " and ",
                                             options_->max_timestamp_ms));
  }
  const std::optional<Beyond> beyond = BeyondTopic(record.output, time, wall_ms);
  if (!beyond || of_item(time)) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat("timestamp ", time, " ms of a record for output '", name, "' is ",
                                           beyond->by, " ms ", beyond->where, " the clock; its topic takes at most ",
                                           beyond->most, " (", beyond->config, ")"));
}

absl::Status OutputRouter::Check(const protocol::OutputRecord& record, int64_t wall_ms,
                                 absl::FunctionRef<bool(int64_t)> of_item) const {
  const std::string& name = options_->spec.outputs[record.output].name;
  const int64_t size = SizeOf(record), most = OutputMaxBytes(*options_, record.output);
  if (size > most) {
    return absl::InvalidArgumentError(
        StrCat("a record of ", size, " bytes for output '", name, "', which takes at most ", most));
  }
  MS_RETURN_IF_ERROR(CheckTime(record, wall_ms, of_item));
  if (options_->spec.outputs[record.output].loop && (!record.key || record.partition)) {
    return absl::InvalidArgumentError(
        record.key ? "a record for the loop chooses a partition; its key does that"
                   : "a record for the loop has no key; its key decides which task it comes back to");
  }
  const int partitions = options_->output_partitions[record.output];
  if (record.partition && (*record.partition < 0 || *record.partition >= partitions)) {
    return absl::InvalidArgumentError(StrCat("partition ", *record.partition, " of output '", name,
                                             "', which has the partitions 0 to ", partitions - 1));
  }
  return absl::OkStatus();
}

log::OutgoingRecord OutputRouter::Route(const protocol::OutputRecord& record, int64_t wall_ms) {
  log::OutgoingRecord out;
  out.to.topic = options_->spec.outputs[record.output].topic;
  out.to.partition = record.partition ? Partition(*record.partition) : partitioners_[record.output].Choose(record.key);
  const bool taken = record.timestamp_ms && !BeyondTopic(record.output, *record.timestamp_ms, wall_ms);
  out.timestamp_ms = taken ? *record.timestamp_ms : wall_ms;
  out.key = Owned(record.key);
  out.value = Owned(record.value);
  out.headers.reserve(record.headers.size());
  for (const auto& [name, value] : record.headers) out.headers.push_back({std::string(name), Owned(value)});
  return out;
}

log::OutgoingRecord DeadLetter(const EngineOptions& options, TaskId task, const Item& item,
                               const Attempts::Entry& failed) {
  const spec::StreamProcessorSpec& spec = options.spec;
  log::OutgoingRecord out;
  out.to = {spec.errors.dead_letter_topic, Partition(task.value() % std::max(options.dead_letter_partitions, 1))};
  out.timestamp_ms = item.record.timestamp_ms;
  out.key = item.record.key;
  out.value = item.record.value;
  out.headers = item.record.headers;
  auto add = [&out](const char* name, std::string value) {
    out.headers.push_back({StrCat("millstream.error.", name), std::move(value)});
  };
  constexpr size_t kMostMessage = 4096;  // the record itself may be near the topic's limit already
  add("class", failed.last.failure_class);
  add("message", StrCat(failed.last.error, ": ", failed.last.message).substr(0, kMostMessage));
  if (item.due == nullptr) {
    add("topic", spec.inputs[item.input].topic);
    add("partition", StrCat(task.value()));
    add("offset", StrCat(item.record.offset.value()));
  } else if (item.due->what == DueItem::What::kTimer) {
    add("timer", item.due->name);
  } else if (item.due->what == DueItem::What::kVisit) {
    add("visit", spec.visits[item.due->visit].name);
  } else {
    add("window", StrCat(spec.stores[item.due->store].name, " ", item.due->bounds.start, " ", item.due->bounds.end));
  }
  add("timestamp", StrCat(item.record.timestamp_ms));
  add("attempts", StrCat(failed.count));
  add("processor", spec.QualifiedName());
  return out;
}

}  // namespace millstream::engine
