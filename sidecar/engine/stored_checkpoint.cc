#include "sidecar/engine/stored_checkpoint.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "common/base/strings.h"
#include "sidecar/protocol/msgpack_cursor.h"
#include "sidecar/protocol/msgpack_writer.h"

namespace millstream::engine {
namespace {

constexpr uint64_t kFormat = 1;
constexpr size_t kLengthBytes = 4;  // that MsgpackWriter puts in front

using protocol::MsgpackCursor;
using protocol::MsgpackWriter;

class TopicTable {
 public:
  size_t IndexOf(const std::string& topic) {
    auto [it, added] = index_.try_emplace(topic, topics_.size());
    if (added) topics_.push_back(topic);
    return it->second;
  }
  const std::vector<std::string>& topics() const { return topics_; }

 private:
  std::map<std::string, size_t> index_;
  std::vector<std::string> topics_;
};

// Numbers and lengths of one record, at their longest.
constexpr int64_t kRecordOverhead = 48, kHeaderOverhead = 11;

protocol::MaybeView View(const MaybeBytes& bytes) {
  return bytes ? protocol::MaybeView(std::string_view(*bytes)) : std::nullopt;
}

MaybeBytes Owned(protocol::MaybeView bytes) { return bytes ? MaybeBytes(std::string(*bytes)) : std::nullopt; }

void WriteOutput(MsgpackWriter& writer, const log::OutgoingRecord& record, size_t topic) {
  writer.Array(6);
  writer.Uint(topic);
  writer.Uint(static_cast<uint64_t>(record.to.partition.value()));
  writer.Int(record.timestamp_ms);
  writer.MaybeBin(View(record.key));
  writer.MaybeBin(View(record.value));
  writer.Array(record.headers.size());
  for (const Header& header : record.headers) {
    writer.Array(2);
    writer.Bin(header.name);
    writer.MaybeBin(View(header.value));
  }
}

TopicPartition ReadPartition(MsgpackCursor& in, const std::vector<std::string>& topics) {
  const uint32_t topic = in.Uint32("topic");
  const auto partition = static_cast<int32_t>(in.Uint("partition", INT32_MAX));
  if (in.ok() && topic >= topics.size()) in.Fail("topic", StrCat("no topic ", topic, " of ", topics.size()));
  return in.ok() ? TopicPartition{topics[topic], Partition(partition)} : TopicPartition{};
}

StoredCheckpoint::Input ReadInput(MsgpackCursor& in, const std::vector<std::string>& topics) {
  StoredCheckpoint::Input input;
  const uint32_t fields = in.Fields("input", 4);
  input.of = ReadPartition(in, topics);
  input.next = Offset(in.Int("next", 0));
  input.previous = std::string(in.Bytes("previous"));
  if (fields > 4) in.SkipFields(fields - 4);
  return input;
}

log::OutgoingRecord ReadOutput(MsgpackCursor& in, const std::vector<std::string>& topics) {
  log::OutgoingRecord record;
  const uint32_t fields = in.Fields("output", 6);
  record.to = ReadPartition(in, topics);
  record.timestamp_ms = in.Int("timestamp");
  record.key = Owned(in.MaybeBytes("key"));
  record.value = Owned(in.MaybeBytes("value"));
  const uint32_t headers = in.List("headers", 3);
  for (uint32_t i = 0; i < headers && in.ok(); ++i) {
    const uint32_t parts = in.Fields("header", 2);
    Header& header = record.headers.emplace_back();
    header.name = std::string(in.Bytes("header name"));
    header.value = Owned(in.MaybeBytes("header value"));
    if (parts > 2) in.SkipFields(parts - 2);
  }
  if (fields > 6) in.SkipFields(fields - 6);
  return record;
}

}  // namespace

std::string EncodeCheckpoint(const StoredCheckpoint& checkpoint) {
  TopicTable topics;
  std::vector<size_t> of_input, of_output;
  for (const StoredCheckpoint::Input& input : checkpoint.inputs) of_input.push_back(topics.IndexOf(input.of.topic));
  for (const log::OutgoingRecord& record : checkpoint.outputs) of_output.push_back(topics.IndexOf(record.to.topic));

  std::string out;
  MsgpackWriter writer(&out, checkpoint.metadata.size());
  writer.Array(6);
  writer.Uint(kFormat);
  writer.Str(checkpoint.metadata);
  writer.Array(topics.topics().size());
  for (const std::string& topic : topics.topics()) writer.Str(topic);
  writer.Array(checkpoint.inputs.size());
  for (size_t i = 0; i < checkpoint.inputs.size(); ++i) {
    const StoredCheckpoint::Input& input = checkpoint.inputs[i];
    writer.Array(4);
    writer.Uint(of_input[i]);
    writer.Uint(static_cast<uint64_t>(input.of.partition.value()));
    writer.Int(input.next.value());
    writer.Str(input.previous);
  }
  writer.Array(checkpoint.outputs.size());
  for (size_t i = 0; i < checkpoint.outputs.size(); ++i) WriteOutput(writer, checkpoint.outputs[i], of_output[i]);
  writer.Array(checkpoint.also.size());
  for (const std::string& name : checkpoint.also) writer.Str(name);
  writer.Finish();
  return out.substr(kLengthBytes);
}

int64_t CheckpointBytes(const log::OutgoingRecord& record) {
  int64_t bytes = kRecordOverhead;
  bytes += static_cast<int64_t>((record.key ? record.key->size() : 0) + (record.value ? record.value->size() : 0));
  for (const Header& header : record.headers) {
    bytes += kHeaderOverhead + static_cast<int64_t>(header.name.size() + (header.value ? header.value->size() : 0));
  }
  return bytes;
}

size_t CheckpointElements(const StoredCheckpoint& checkpoint) {
  size_t elements = checkpoint.also.size();
  elements += 2 * checkpoint.inputs.size() + 2 * checkpoint.outputs.size();  // and at most a topic for each
  for (const log::OutgoingRecord& record : checkpoint.outputs) elements += record.headers.size();
  return elements;
}

absl::StatusOr<StoredCheckpoint> DecodeCheckpoint(std::string_view bytes) {
  MsgpackCursor in(bytes);
  const uint32_t fields = in.Fields("checkpoint", 1);
  const uint64_t format = in.Uint("format");
  if (in.ok() && format != kFormat) {
    return absl::UnimplementedError(
        StrCat("a checkpoint of format ", format, "; this sidecar reads format ", kFormat, ": use the later one"));
  }
  if (in.ok() && fields < 6) in.Fail("checkpoint", StrCat("expected 6 fields, found ", fields));
  StoredCheckpoint checkpoint;
  checkpoint.metadata = std::string(in.Bytes("metadata"));
  std::vector<std::string> topics;
  const uint32_t topic_count = in.List("topics", 1);
  for (uint32_t i = 0; i < topic_count && in.ok(); ++i) topics.emplace_back(in.Bytes("topic"));
  const uint32_t input_count = in.List("inputs", 5);
  for (uint32_t i = 0; i < input_count && in.ok(); ++i) checkpoint.inputs.push_back(ReadInput(in, topics));
  const uint32_t output_count = in.List("outputs", 7);
  for (uint32_t i = 0; i < output_count && in.ok(); ++i) checkpoint.outputs.push_back(ReadOutput(in, topics));
  const uint32_t name_count = in.List("names", 1);
  for (uint32_t i = 0; i < name_count && in.ok(); ++i) checkpoint.also.emplace_back(in.Bytes("name"));
  if (in.ok() && fields > 6) in.SkipFields(fields - 6);
  in.ExpectEnd();
  if (!in.ok()) return in.status();
  return checkpoint;
}

CheckpointAge AgeOf(const StoredCheckpoint& checkpoint, absl::Span<const CommittedInput> committed) {
  bool same = false, newer = false;
  for (const CommittedInput& input : committed) {
    const auto stored = std::find_if(checkpoint.inputs.begin(), checkpoint.inputs.end(),
                                     [&](const StoredCheckpoint::Input& of) { return of.of == input.of; });
    if (stored == checkpoint.inputs.end()) continue;
    const bool named =
        input.metadata == checkpoint.metadata ||
        std::find(checkpoint.also.begin(), checkpoint.also.end(), input.metadata) != checkpoint.also.end();
    if (named && input.next == stored->next) {
      same = true;
    } else if (input.metadata == stored->previous && (input.next == kNoOffset || input.next <= stored->next)) {
      newer = true;
    } else {
      return CheckpointAge::kForeign;
    }
  }
  if (same == newer) return CheckpointAge::kForeign;  // a transaction commits all of its inputs or none
  return same ? CheckpointAge::kSame : CheckpointAge::kNewer;
}

}  // namespace millstream::engine
