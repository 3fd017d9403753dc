#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_BATCH_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_BATCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/log/embedded/packing.h"
#include "common/log/record.h"

namespace millstream::log::embedded {

// Records appended together to one partition are one batch: one entry on disk, 64 bytes of header and the payload.
//
//   byte 0 kind | 1 transactional | 2-3 zero | 4 CRC-32C of the payload, then of header bytes 8-63 | 8 producer id
//   16 number of records | 20 last offset - base | 24 base timestamp | 32 highest timestamp | 40 append time
//   48 delete horizon | 56 bytes of the partition in this segment before this batch       (little-endian; u8, u32, i64)
//
// Payload, per record: varint gap to the offset after the record before, zigzag varint timestamp - base timestamp,
// varint key length + 1 (0: null) and key, the same for the value, varint number of headers, then per header varint
// name length, name, varint value length + 1 (0: null), value. The base offset is in the entry's key.
enum class BatchKind : uint8_t { kRecords = 1, kCommitMarker = 2, kAbortMarker = 3 };

inline constexpr size_t kBatchHeaderBytes = 64;
// A batch is closed when its payload has reached this size: what reading one record costs at most, beside the record.
inline constexpr size_t kBatchTargetBytes = 128 << 10;
inline constexpr int64_t kNoProducer = -1;

struct BatchHeader {
  BatchKind kind = BatchKind::kRecords;
  bool transactional = false;
  int64_t producer_id = kNoProducer;
  uint32_t count = 0;
  uint32_t last_delta = 0;
  int64_t base_timestamp = 0;
  int64_t max_timestamp = INT64_MIN;
  int64_t append_ms = 0;
  int64_t delete_horizon_ms = 0;  // tombstones go after this time; 0: not set, the batch was not compacted yet
  int64_t segment_bytes_before = 0;

  bool control() const { return kind != BatchKind::kRecords; }
};

// Writes the 64 bytes, checksum included.
void EncodeBatchHeader(const BatchHeader& header, std::string_view payload, char (&out)[kBatchHeaderBytes]);

// One record inside a batch; views point into the batch.
struct RecordView {
  uint32_t delta = 0;  // offset - base
  int64_t timestamp_ms = 0;
  std::optional<std::string_view> key;
  std::optional<std::string_view> value;
  std::string_view headers;  // as encoded, number included
};

// Collects the records of one batch. Reusable after Clear, keeping its memory.
class BatchBuilder {
 public:
  // Adds the record behind those before it, without a gap.
  void Add(const OutgoingRecord& record);
  // `delta` is greater than those before.
  void Add(const RecordView& record, uint32_t delta);
  void Clear();

  bool empty() const { return header_.count == 0; }
  BatchHeader& header() { return header_; }
  const BatchHeader& header() const { return header_; }
  const std::string& payload() const { return payload_; }
  // What it takes on disk.
  int64_t bytes() const { return static_cast<int64_t>(kBatchHeaderBytes + payload_.size()); }

 private:
  void Note(uint32_t delta, int64_t timestamp_ms);

  BatchHeader header_;
  std::string payload_;
  uint32_t next_delta_ = 0;
};

// Reads a batch; views are valid as long as the bytes are.
class BatchReader {
 public:
  // DATA_LOSS if the checksum or the shape is wrong.
  static absl::StatusOr<BatchReader> Parse(std::string_view bytes);
  // The header alone; checks the size only.
  static absl::StatusOr<BatchHeader> ParseHeader(std::string_view bytes);

  const BatchHeader& header() const { return header_; }
  // False behind the last record or at a malformed one; status() tells which.
  bool Next(RecordView* record);
  absl::Status status() const;

 private:
  BatchReader(const BatchHeader& header, std::string_view payload) : header_(header), payload_(payload) {}

  BatchHeader header_;
  Unpacker payload_;
  uint32_t read_ = 0;
  uint32_t next_delta_ = 0;
};

// A record for callers. Precondition: the view came from BatchReader::Next.
Record MakeRecord(int64_t base_offset, const RecordView& view);

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_BATCH_H_
