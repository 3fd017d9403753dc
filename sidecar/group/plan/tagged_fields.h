#ifndef MILLSTREAM_SIDECAR_GROUP_PLAN_TAGGED_FIELDS_H_
#define MILLSTREAM_SIDECAR_GROUP_PLAN_TAGGED_FIELDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "sidecar/group/wire/reader.h"
#include "sidecar/group/wire/writer.h"

namespace millstream::group {

// The user data of members and assignments: "MS", the version of who wrote it, the lowest version that may read it,
// then fields: tag (1 byte), length (varint), content. Readers skip tags they do not know, so that releases N-1 and N
// share a group; a change that an older reader must not miss raises `kReadableFrom`.
inline constexpr uint8_t kUserDataVersion = 1;
inline constexpr uint8_t kUserDataReadableFrom = 1;

class FieldWriter {
 public:
  FieldWriter();
  // Appends a field; `fill(writer)` writes its content.
  template <typename Fill>
  void Field(uint8_t tag, Fill fill) {
    std::string content;
    wire::Writer writer(&content);
    fill(writer);
    Add(tag, content);
  }
  std::string Take() && { return std::move(bytes_); }

 private:
  void Add(uint8_t tag, std::string_view content);
  std::string bytes_;
};

struct TaggedFields {
  int version = 0;  // of who wrote them
  struct Field {
    uint8_t tag = 0;
    std::string_view content;  // points into the bytes that were split
  };
  std::vector<Field> fields;
};

// INVALID_ARGUMENT: malformed. UNIMPLEMENTED: written by a release that this one does not understand.
absl::StatusOr<TaggedFields> SplitFields(std::string_view bytes);

// A field's content as a whole: `read(reader)`, and nothing may be left over.
template <typename Read>
absl::Status ReadField(const TaggedFields::Field& field, Read read) {
  wire::Reader reader(field.content);
  read(reader);
  if (reader.ok() && reader.remaining() > 0) reader.Fail("bytes are left over");
  if (reader.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError("field " + std::to_string(field.tag) + ": " + reader.error());
}

// Ascending task numbers as distances: a byte or two each. Precondition: ascending, no number twice.
void WriteTasks(wire::Writer& writer, const std::vector<TaskId>& tasks);
std::vector<TaskId> ReadTasks(wire::Reader& reader);
// One task number after `previous` (-1 at the start).
void WriteTask(wire::Writer& writer, TaskId task, TaskId previous);
TaskId ReadTask(wire::Reader& reader, TaskId previous);

// Ascending strings, each as what it shares with the one before and the rest. Precondition: ascending.
void WriteStrings(wire::Writer& writer, const std::vector<std::string>& strings);
std::vector<std::string> ReadStrings(wire::Reader& reader);

// Numbers that may be -1 (none): shifted by one.
void WriteNumber(wire::Writer& writer, int64_t number);
int64_t ReadNumber(wire::Reader& reader);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_PLAN_TAGGED_FIELDS_H_
