#include "sidecar/group/plan/roster.h"

#include "sidecar/group/plan/tagged_fields.h"

namespace millstream::group {

void WriteRoster(wire::Writer& writer, const Roster& roster) {
  writer.Int32(roster.generation.value());
  WriteStrings(writer, roster.transactional_ids);
}

Roster ReadRoster(wire::Reader& reader) {
  Roster roster;
  int32_t generation = -1;
  reader.Int32(generation);
  roster.generation = Generation(generation);
  roster.transactional_ids = ReadStrings(reader);
  return roster;
}

}  // namespace millstream::group
