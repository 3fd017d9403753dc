#include "sidecar/group/plan/tagged_fields.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::group {
namespace {

constexpr std::string_view kMagic = "MS";
constexpr size_t kMostFields = 256;        // tags are one byte
constexpr size_t kLongestString = 32'767;  // of one string with what it shares: what the wire's strings can carry

}  // namespace

FieldWriter::FieldWriter() : bytes_(kMagic) {
  bytes_.push_back(static_cast<char>(kUserDataVersion));
  bytes_.push_back(static_cast<char>(kUserDataReadableFrom));
}

void FieldWriter::Add(uint8_t tag, std::string_view content) {
  wire::Writer writer(&bytes_);
  writer.Int8(static_cast<int8_t>(tag));
  writer.Varint(content.size());
  bytes_ += content;
}

absl::StatusOr<TaggedFields> SplitFields(std::string_view bytes) {
  wire::Reader reader(bytes);
  if (reader.Slice(kMagic.size()) != kMagic) return absl::InvalidArgumentError("not Millstream's user data");
  int8_t version = 0, readable_from = 0;
  reader.Int8(version);
  reader.Int8(readable_from);
  TaggedFields result;
  result.version = static_cast<uint8_t>(version);
  if (reader.ok() && static_cast<uint8_t>(readable_from) > kUserDataVersion) {
    return absl::UnimplementedError(StrCat("user data of version ", result.version, ", readable from version ",
                                           static_cast<uint8_t>(readable_from), " on; this release reads version ",
                                           kUserDataVersion, ": upgrade it, in steps of one release"));
  }
  while (reader.ok() && reader.remaining() > 0 && result.fields.size() < kMostFields) {
    int8_t tag = 0;
    uint64_t size = 0;
    reader.Int8(tag);
    reader.Varint(size);
    const std::string_view content = reader.Slice(size);
    result.fields.push_back({static_cast<uint8_t>(tag), content});
  }
  if (reader.ok() && reader.remaining() > 0) reader.Fail("too many fields");
  if (!reader.ok()) return absl::InvalidArgumentError(StrCat("malformed user data: ", reader.error()));
  return result;
}

void WriteTask(wire::Writer& writer, TaskId task, TaskId previous) {
  MS_CHECK(task > previous);
  writer.Varint(static_cast<uint64_t>(int64_t{task.value()} - previous.value() - 1));
}

TaskId ReadTask(wire::Reader& reader, TaskId previous) {
  uint64_t distance = 0;
  reader.Varint(distance);
  const int64_t next = int64_t{previous.value()} + 1 + static_cast<int64_t>(std::min<uint64_t>(distance, INT32_MAX));
  if (reader.ok() && next > INT32_MAX) reader.Fail("a task number is too large");
  return reader.ok() ? TaskId(static_cast<int32_t>(next)) : previous;
}

void WriteTasks(wire::Writer& writer, const std::vector<TaskId>& tasks) {
  writer.Varint(tasks.size());
  TaskId previous(-1);
  for (const TaskId task : tasks) {
    WriteTask(writer, task, previous);
    previous = task;
  }
}

std::vector<TaskId> ReadTasks(wire::Reader& reader) {
  uint64_t count = 0;
  reader.Varint(count);
  if (count > reader.remaining()) reader.Fail("a list is longer than what is there");
  std::vector<TaskId> tasks;
  TaskId previous(-1);
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    previous = ReadTask(reader, previous);
    if (reader.ok()) tasks.push_back(previous);
  }
  return tasks;
}

void WriteStrings(wire::Writer& writer, const std::vector<std::string>& strings) {
  writer.Varint(strings.size());
  std::string_view previous;
  for (const std::string& text : strings) {
    const auto [mine, theirs] = std::mismatch(text.begin(), text.end(), previous.begin(), previous.end());
    const auto shared = static_cast<size_t>(mine - text.begin());
    writer.Varint(shared);
    writer.String(std::string_view(text).substr(shared));
    previous = text;
  }
}

std::vector<std::string> ReadStrings(wire::Reader& reader) {
  uint64_t count = 0;
  reader.Varint(count);
  if (count > reader.remaining()) reader.Fail("a list is longer than what is there");
  std::vector<std::string> strings;
  size_t total = 0;
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    uint64_t shared = 0;
    std::string rest;
    reader.Varint(shared);
    reader.String(rest);
    const std::string_view previous = strings.empty() ? std::string_view() : std::string_view(strings.back());
    if (shared > previous.size()) reader.Fail("a string shares more than there was");
    if (!reader.ok()) break;
    std::string text = std::string(previous.substr(0, shared)) + rest;
    total += text.size();
    // What is shared costs nothing to claim: bounded here.
    if (text.size() > kLongestString || total > (size_t{8} << 20)) reader.Fail("strings are too long");
    strings.push_back(std::move(text));
  }
  return strings;
}

void WriteNumber(wire::Writer& writer, int64_t number) {
  MS_CHECK(number >= -1);
  writer.Varint(static_cast<uint64_t>(number + 1));
}

int64_t ReadNumber(wire::Reader& reader) {
  uint64_t number = 0;
  reader.Varint(number);
  if (number > static_cast<uint64_t>(INT64_MAX)) reader.Fail("a number is too large");
  return reader.ok() ? static_cast<int64_t>(number) - 1 : -1;
}

}  // namespace millstream::group
