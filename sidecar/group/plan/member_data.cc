#include "sidecar/group/plan/member_data.h"

#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/group/plan/tagged_fields.h"

namespace millstream::group {
namespace {

// Never reuse a number. 10 and up: zone, capacity, standbys and warm-ups, once they exist.
enum Tag : uint8_t {
  kHost = 1,
  kTasks = 2,
  kDraining = 3,
  kManual = 4,
  kTransactionalIds = 5,
  kOwned = 6,
  kPositions = 7,
  kRoster = 8,
  kNonce = 9,
};

constexpr int32_t kMostTasks = 1'000'000;  // partitions of one topic: far above what Kafka carries

void WriteOwned(wire::Writer& writer, const std::vector<OwnedTask>& owned) {
  writer.Varint(owned.size());
  TaskId previous(-1);
  for (const OwnedTask& item : owned) {
    WriteTask(writer, item.task, std::exchange(previous, item.task));
    WriteNumber(writer, item.received.value());
  }
}

std::vector<OwnedTask> ReadOwned(wire::Reader& reader) {
  uint64_t count = 0;
  reader.Varint(count);
  if (count > reader.remaining()) reader.Fail("a list is longer than what is there");
  std::vector<OwnedTask> owned;
  TaskId previous(-1);
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    previous = ReadTask(reader, previous);
    const int64_t received = ReadNumber(reader);
    if (received > INT32_MAX) reader.Fail("a generation is too large");
    if (reader.ok()) owned.push_back({previous, Generation(static_cast<int32_t>(received))});
  }
  return owned;
}

// Wraps round instead of overflowing; added back, it gives `to` again.
int64_t Distance(int64_t from, int64_t to) {
  return static_cast<int64_t>(static_cast<uint64_t>(to) - static_cast<uint64_t>(from));
}
uint64_t ZigZag(int64_t number) { return static_cast<uint64_t>(number) << 1 ^ static_cast<uint64_t>(number >> 63); }
uint64_t UnZigZag(uint64_t number) { return number >> 1 ^ (~(number & 1) + 1); }

void WritePositions(wire::Writer& writer, const std::vector<RestoredPosition>& positions) {
  writer.Varint(positions.size());
  TaskId previous(-1);
  for (const RestoredPosition& item : positions) {
    WriteTask(writer, item.task, std::exchange(previous, item.task));
    WriteNumber(writer, item.position);
    writer.Varint(ZigZag(Distance(item.position, item.end)));  // small, usually
  }
}

std::vector<RestoredPosition> ReadPositions(wire::Reader& reader) {
  uint64_t count = 0;
  reader.Varint(count);
  if (count > reader.remaining()) reader.Fail("a list is longer than what is there");
  std::vector<RestoredPosition> positions;
  TaskId previous(-1);
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    previous = ReadTask(reader, previous);
    const int64_t position = ReadNumber(reader);
    uint64_t distance = 0;
    reader.Varint(distance);
    const auto end = static_cast<int64_t>(static_cast<uint64_t>(position) + UnZigZag(distance));
    if (end < -1) reader.Fail("a position is below zero");
    if (reader.ok()) positions.push_back({previous, position, end});
  }
  return positions;
}

std::string Encode(const MemberData& data, bool with_positions) {
  FieldWriter fields;
  fields.Field(kHost, [&](wire::Writer& writer) { writer.String(data.host); });
  fields.Field(kTasks, [&](wire::Writer& writer) { writer.Int32(data.tasks); });
  if (data.draining) fields.Field(kDraining, [](wire::Writer&) {});
  if (data.manual) fields.Field(kManual, [&](wire::Writer& writer) { WriteTasks(writer, *data.manual); });
  fields.Field(kTransactionalIds, [&](wire::Writer& writer) { WriteStrings(writer, data.transactional_ids); });
  fields.Field(kOwned, [&](wire::Writer& writer) { WriteOwned(writer, data.owned); });
  if (with_positions && !data.positions.empty()) {
    fields.Field(kPositions, [&](wire::Writer& writer) { WritePositions(writer, data.positions); });
  }
  if (!data.roster.empty()) {
    fields.Field(kRoster, [&](wire::Writer& writer) { WriteRoster(writer, data.roster); });
  }
  fields.Field(kNonce, [&](wire::Writer& writer) { writer.Varint(data.nonce); });
  return std::move(fields).Take();
}

absl::Status Read(const TaggedFields::Field& field, MemberData* data) {
  return ReadField(field, [&](wire::Reader& reader) {
    switch (field.tag) {
      case kHost:
        return reader.String(data->host);
      case kTasks:
        reader.Int32(data->tasks);
        if (data->tasks < 0 || data->tasks > kMostTasks) reader.Fail("a number of tasks out of range");
        return;
      case kDraining:
        data->draining = true;
        return;
      case kManual:
        data->manual = ReadTasks(reader);
        return;
      case kTransactionalIds:
        data->transactional_ids = ReadStrings(reader);
        return;
      case kOwned:
        data->owned = ReadOwned(reader);
        return;
      case kPositions:
        data->positions = ReadPositions(reader);
        return;
      case kNonce:
        return reader.Varint(data->nonce);
      case kRoster:
        data->roster = ReadRoster(reader);
        return;
      default:
        reader.Slice(reader.remaining());  // of a newer release
    }
  });
}

}  // namespace

std::string EncodeMemberData(const MemberData& data, size_t max_bytes) {
  std::string bytes = Encode(data, /*with_positions=*/true);
  if (bytes.size() > max_bytes) bytes = Encode(data, /*with_positions=*/false);
  return bytes;
}

absl::StatusOr<MemberData> DecodeMemberData(std::string_view bytes) {
  MS_ASSIGN_OR_RETURN(const TaggedFields fields, SplitFields(bytes));
  MemberData data;
  data.version = fields.version;
  for (const TaggedFields::Field& field : fields.fields) {
    MS_RETURN_IF_ERROR(Annotate(Read(field, &data), "malformed member data"));
  }
  return data;
}

}  // namespace millstream::group
