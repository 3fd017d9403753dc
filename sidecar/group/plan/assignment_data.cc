#include "sidecar/group/plan/assignment_data.h"

#include <utility>

#include "common/base/status.h"
#include "sidecar/group/plan/tagged_fields.h"

namespace millstream::group {
namespace {

// Never reuse a number. 10 and up: standbys and warm-ups, once they exist.
enum Tag : uint8_t { kActive = 1, kMembers = 2, kPlanHash = 3, kLeaderHost = 4, kRoster = 5, kGiveUp = 6 };

absl::Status Read(const TaggedFields::Field& field, AssignmentData* data) {
  return ReadField(field, [&](wire::Reader& reader) {
    switch (field.tag) {
      case kActive:
        data->active = ReadTasks(reader);
        return;
      case kGiveUp:
        data->give_up = ReadTasks(reader);
        return;
      case kMembers:
        return reader.Int32(data->members);
      case kPlanHash: {
        int64_t hash = 0;
        reader.Int64(hash);
        data->plan_hash = static_cast<uint64_t>(hash);
        return;
      }
      case kLeaderHost:
        return reader.String(data->leader_host);
      case kRoster:
        data->roster = ReadRoster(reader);
        return;
      default:
        reader.Slice(reader.remaining());  // of a newer release
    }
  });
}

}  // namespace

std::string EncodeAssignmentData(const AssignmentData& data) {
  FieldWriter fields;
  fields.Field(kActive, [&](wire::Writer& writer) { WriteTasks(writer, data.active); });
  fields.Field(kGiveUp, [&](wire::Writer& writer) { WriteTasks(writer, data.give_up); });
  fields.Field(kMembers, [&](wire::Writer& writer) { writer.Int32(data.members); });
  fields.Field(kPlanHash, [&](wire::Writer& writer) { writer.Int64(static_cast<int64_t>(data.plan_hash)); });
  fields.Field(kLeaderHost, [&](wire::Writer& writer) { writer.String(data.leader_host); });
  if (!data.roster.empty()) {
    fields.Field(kRoster, [&](wire::Writer& writer) { WriteRoster(writer, data.roster); });
  }
  return std::move(fields).Take();
}

absl::StatusOr<AssignmentData> DecodeAssignmentData(std::string_view bytes) {
  MS_ASSIGN_OR_RETURN(const TaggedFields fields, SplitFields(bytes));
  AssignmentData data;
  data.version = fields.version;
  for (const TaggedFields::Field& field : fields.fields) {
    MS_RETURN_IF_ERROR(Annotate(Read(field, &data), "malformed assignment data"));
  }
  return data;
}

}  // namespace millstream::group
