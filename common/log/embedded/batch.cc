#include "common/log/embedded/batch.h"

#include <algorithm>
#include <cstring>

#include "common/base/strings.h"
#include "common/log/embedded/crc32c.h"

namespace millstream::log::embedded {
namespace {

template <typename T>
void Store(T value, char* to) {
  std::memcpy(to, &value, sizeof value);
}

template <typename T>
T Load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Timestamps may be anything: their difference wraps, and wraps back when it is read.
int64_t Difference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t Sum(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }

template <typename Maybe>
void PackMaybe(const Maybe& bytes, std::string* out) {
  if (!bytes) {
    out->push_back('\0');
    return;
  }
  Packer(out).Varint(bytes->size() + 1);
  out->append(*bytes);
}

std::optional<std::string_view> UnpackMaybe(Unpacker* in) {
  const uint64_t size_plus_one = in->Varint();
  if (size_plus_one == 0) return std::nullopt;
  return in->Raw(size_plus_one - 1);
}

// Passes the headers of one record; false if they are malformed.
bool SkipHeaders(Unpacker* in) {
  for (uint64_t left = in->Varint(); left > 0 && in->ok(); --left) {
    in->Text();
    UnpackMaybe(in);
  }
  return in->ok();
}

}  // namespace

void EncodeBatchHeader(const BatchHeader& header, std::string_view payload, char (&out)[kBatchHeaderBytes]) {
  std::memset(out, 0, kBatchHeaderBytes);
  out[0] = static_cast<char>(header.kind);
  out[1] = header.transactional ? 1 : 0;
  Store(header.producer_id, out + 8);
  Store(header.count, out + 16);
  Store(header.last_delta, out + 20);
  Store(header.base_timestamp, out + 24);
  Store(header.max_timestamp, out + 32);
  Store(header.append_ms, out + 40);
  Store(header.delete_horizon_ms, out + 48);
  Store(header.segment_bytes_before, out + 56);
  Store(Crc32c({out + 8, kBatchHeaderBytes - 8}, Crc32c(payload)), out + 4);
}

void BatchBuilder::Note(uint32_t delta, int64_t timestamp_ms) {
  if (header_.count++ == 0) header_.base_timestamp = timestamp_ms;
  header_.max_timestamp = std::max(header_.max_timestamp, timestamp_ms);
  header_.last_delta = delta;
  char start[2 * kMaxVarintBytes];
  char* end = PutVarint(delta - next_delta_, start);
  end = PutVarint(ZigZag(Difference(timestamp_ms, header_.base_timestamp)), end);
  payload_.append(start, end - start);
  next_delta_ = delta + 1;
}

void BatchBuilder::Add(const OutgoingRecord& record) {
  Note(next_delta_, record.timestamp_ms);
  PackMaybe(record.key, &payload_);
  PackMaybe(record.value, &payload_);
  Packer pack(&payload_);
  pack.Varint(record.headers.size());
  for (const Header& header : record.headers) {
    pack.Text(header.name);
    PackMaybe(header.value, &payload_);
  }
}

void BatchBuilder::Add(const RecordView& record, uint32_t delta) {
  Note(delta, record.timestamp_ms);
  PackMaybe(record.key, &payload_);
  PackMaybe(record.value, &payload_);
  payload_.append(record.headers);
}

void BatchBuilder::Clear() {
  header_ = {};
  payload_.clear();
  next_delta_ = 0;
}

absl::StatusOr<BatchHeader> BatchReader::ParseHeader(std::string_view bytes) {
  if (bytes.size() < kBatchHeaderBytes) {
    return absl::DataLossError(StrCat("batch of ", bytes.size(), " bytes is shorter than its header"));
  }
  BatchHeader header;
  const char* at = bytes.data();
  const auto kind = static_cast<unsigned char>(at[0]);
  if (kind < 1 || kind > 3) return absl::DataLossError(StrCat("batch of unknown kind ", static_cast<int>(kind)));
  header.kind = static_cast<BatchKind>(kind);
  header.transactional = at[1] != 0;
  header.producer_id = Load<int64_t>(at + 8);
  header.count = Load<uint32_t>(at + 16);
  header.last_delta = Load<uint32_t>(at + 20);
  header.base_timestamp = Load<int64_t>(at + 24);
  header.max_timestamp = Load<int64_t>(at + 32);
  header.append_ms = Load<int64_t>(at + 40);
  header.delete_horizon_ms = Load<int64_t>(at + 48);
  header.segment_bytes_before = Load<int64_t>(at + 56);
  return header;
}

absl::StatusOr<BatchReader> BatchReader::Parse(std::string_view bytes) {
  auto header = ParseHeader(bytes);
  if (!header.ok()) return header.status();
  const std::string_view payload = bytes.substr(kBatchHeaderBytes);
  const uint32_t computed = Crc32c(bytes.substr(8, kBatchHeaderBytes - 8), Crc32c(payload));
  if (computed != Load<uint32_t>(bytes.data() + 4)) return absl::DataLossError("checksum of a batch does not match");
  return BatchReader(*header, payload);
}

bool BatchReader::Next(RecordView* record) {
  if (read_ == header_.count || !payload_.ok()) return false;
  record->delta = next_delta_ + static_cast<uint32_t>(payload_.Varint());
  record->timestamp_ms = Sum(header_.base_timestamp, payload_.Signed());
  record->key = UnpackMaybe(&payload_);
  record->value = UnpackMaybe(&payload_);
  const char* headers = payload_.position();
  if (!SkipHeaders(&payload_)) return false;
  record->headers = {headers, static_cast<size_t>(payload_.position() - headers)};
  next_delta_ = record->delta + 1;
  ++read_;
  return true;
}

absl::Status BatchReader::status() const {
  if (payload_.ok() && (read_ < header_.count || payload_.done())) return absl::OkStatus();
  return absl::DataLossError(StrCat("batch is malformed after record ", read_, " of ", header_.count));
}

Record MakeRecord(int64_t base_offset, const RecordView& view) {
  Record record;
  record.offset = Offset(base_offset + view.delta);
  record.timestamp_ms = view.timestamp_ms;
  if (view.key) record.key.emplace(*view.key);
  if (view.value) record.value.emplace(*view.value);
  Unpacker headers(view.headers);
  const uint64_t count = headers.Varint();
  if (count == 0) return record;
  record.headers.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    Header& header = record.headers.emplace_back();
    header.name = headers.Text();
    if (const auto value = UnpackMaybe(&headers)) header.value.emplace(*value);
  }
  return record;
}

}  // namespace millstream::log::embedded
