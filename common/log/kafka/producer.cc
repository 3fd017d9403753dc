#include "common/log/kafka/producer.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "absl/strings/str_join.h"
#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/kafka/properties.h"

namespace millstream::kafka {
namespace {

// A topic that some broker has just made is unknown to others for a moment; longer than this it does not exist.
constexpr absl::Duration kTopicAppears = absl::Seconds(3);
constexpr absl::Duration kMetadataPause = absl::Milliseconds(50);
// How long a wait goes on before the probe is asked.
constexpr absl::Duration kSlice = absl::Milliseconds(200);
// Delivery reports are served once per so many records.
constexpr size_t kRecordsPerPoll = 512;
// Of a batch and of each record in it, at most (lengths, times and offsets are varints).
constexpr int64_t kBatchOverhead = 61, kRecordOverhead = 40;

int64_t SizeOf(const log::OutgoingRecord& record) {
  int64_t bytes = kRecordOverhead;
  if (record.key) bytes += static_cast<int64_t>(record.key->size());
  if (record.value) bytes += static_cast<int64_t>(record.value->size());
  for (const Header& header : record.headers) {
    bytes += static_cast<int64_t>(header.name.size() + (header.value ? header.value->size() : 0)) + 10;
  }
  return bytes;
}

std::string KeyOf(const rd_kafka_message_t& message) {
  if (message.key == nullptr) return "no key";
  return StrCat("key '", Readable({static_cast<const char*>(message.key), message.key_len}, 32), "'");
}

// Thrown away unsent, by an abort or because the producer was fenced.
bool IsPurged(rd_kafka_resp_err_t code) {
  return code == RD_KAFKA_RESP_ERR__PURGE_QUEUE || code == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT;
}

bool IsTooLarge(rd_kafka_resp_err_t code) {
  return code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE || code == RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE;
}

rd_kafka_vu_t Variant(rd_kafka_vtype_t type) {
  rd_kafka_vu_t variant;
  variant.vtype = type;
  return variant;
}

// Owned by the message once produce succeeds.
Owned<rd_kafka_headers_t> ToHeaders(const Headers& headers) {
  if (headers.empty()) return nullptr;
  Owned<rd_kafka_headers_t> out(rd_kafka_headers_new(headers.size()));
  for (const Header& header : headers) {
    rd_kafka_header_add(out.get(), header.name.data(), static_cast<ssize_t>(header.name.size()),
                        header.value ? header.value->data() : nullptr,
                        header.value ? static_cast<ssize_t>(header.value->size()) : 0);
  }
  return out;
}

}  // namespace

Producer::~Producer() {
  if (client_ == nullptr) return;
  // What is still queued will not be sent; nobody waits for it.
  rd_kafka_purge(get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
  topics_.clear();
}

absl::Status Producer::Open(std::shared_ptr<const ClientContext> context, ClientSpec spec) {
  spec.type = RD_KAFKA_PRODUCER;
  spec.sink = this;
  batch_bytes_ = kDefaultBatchBytes;
  const std::shared_ptr<const AccessInForce> access = context->access->Now();
  if (const auto set = access->access.config.find("batch.size"); set != access->access.config.end()) {
    batch_bytes_ = std::atoll(set->second.c_str());
  }
  MS_ASSIGN_OR_RETURN(client_, Client::New(std::move(context), std::move(spec)));
  return absl::OkStatus();
}

void Producer::WarmUp(absl::Duration wait) {
  const absl::Duration until = clock_.Monotonic() + wait;
  for (const std::string& topic : admin_->WrittenTopics()) {
    if (clock_.Monotonic() >= until) return;
    // A topic that is gone by now is found out by who appends to it.
    SlotOf({topic, Partition(0)}, until).IgnoreError();
  }
}

absl::Status Producer::Learn(Topic* topic, absl::Duration deadline) {
  const absl::Duration appears_until = clock_.Monotonic() + kTopicAppears;
  while (true) {
    const absl::Duration left = deadline - clock_.Monotonic();
    const rd_kafka_metadata_t* raw = nullptr;
    rd_kafka_resp_err_t error = rd_kafka_metadata(get(), /*all_topics=*/0, topic->handle.get(), &raw, Millis(left));
    const OwnedMetadata metadata(raw);
    if (!error && metadata->topic_cnt == 1) {
      error = metadata->topics[0].err;
      topic->partitions = metadata->topics[0].partition_cnt;
      for (int p = 0; p < topic->partitions; ++p) {
        if (!error) error = metadata->topics[0].partitions[p].err;
      }
      // A replica is away: no matter for writing.
      if (error == RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE) error = RD_KAFKA_RESP_ERR_NO_ERROR;
      if (!error) {
        topic->max_batch_bytes = admin_->MaxMessageBytes(topic->name);
        return absl::OkStatus();
      }
    }
    if (!error) error = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    const absl::Status status =
        ToStatus(error, StrCat("topic ", topic->name),
                 absl::IsNotFound(ToStatus(error, "")) ? "there is no such topic" : rd_kafka_err2str(error));
    const bool waits = absl::IsNotFound(status) ? clock_.Monotonic() < appears_until : absl::IsUnavailable(status);
    if (!waits || clock_.Monotonic() + kMetadataPause >= deadline) return status;
    absl::SleepFor(kMetadataPause);
  }
}

absl::StatusOr<Producer::Slot*> Producer::SlotOf(const TopicPartition& to, absl::Duration deadline) {
  if (last_slot_ != nullptr && last_slot_->to == to) return last_slot_;
  if (const auto known = slots_.find(to); known != slots_.end()) return last_slot_ = known->second.get();
  std::unique_ptr<Topic>& topic = topics_[to.topic];
  if (topic == nullptr) {
    topic = std::make_unique<Topic>();
    topic->name = to.topic;
    topic->handle.reset(rd_kafka_topic_new(get(), to.topic.c_str(), nullptr));
    if (!topic->handle) {
      topics_.erase(to.topic);
      return absl::InvalidArgumentError(StrCat("'", to.topic, "' cannot be a topic"));
    }
  }
  if (to.partition.value() >= topic->partitions) {
    if (absl::Status learnt = Learn(topic.get(), deadline); !learnt.ok()) {
      topics_.erase(to.topic);
      return learnt;
    }
    admin_->NoteWritten(to.topic);
  }
  if (to.partition.value() < 0 || to.partition.value() >= topic->partitions) {
    return absl::NotFoundError(
        StrCat("there is no partition ", to.ToString(), ": the topic has ", topic->partitions, " partitions"));
  }
  auto slot = std::make_unique<Slot>();
  slot->to = to;
  slot->topic = topic.get();
  last_slot_ = slot.get();
  slots_[to] = std::move(slot);
  return last_slot_;
}

rd_kafka_resp_err_t Producer::Produce(const log::OutgoingRecord& record, Slot* slot) {
  Owned<rd_kafka_headers_t> headers = ToHeaders(record.headers);
  std::array<rd_kafka_vu_t, 8> parts;
  size_t count = 0;
  (parts[count++] = Variant(RD_KAFKA_VTYPE_RKT)).u.rkt = slot->topic->handle.get();
  (parts[count++] = Variant(RD_KAFKA_VTYPE_PARTITION)).u.i32 = record.to.partition.value();
  parts[count] = Variant(RD_KAFKA_VTYPE_VALUE);
  // A null value (a tombstone) has no address; an empty one has.
  parts[count].u.mem.ptr = record.value ? const_cast<char*>(record.value->data()) : nullptr;
  parts[count++].u.mem.size = record.value ? record.value->size() : 0;
  parts[count] = Variant(RD_KAFKA_VTYPE_KEY);
  parts[count].u.mem.ptr = record.key ? const_cast<char*>(record.key->data()) : nullptr;
  parts[count++].u.mem.size = record.key ? record.key->size() : 0;
  // librdkafka takes 0 for "now": the first millisecond of 1970 is written as the second one.
  (parts[count++] = Variant(RD_KAFKA_VTYPE_TIMESTAMP)).u.i64 = record.timestamp_ms == 0 ? 1 : record.timestamp_ms;
  (parts[count++] = Variant(RD_KAFKA_VTYPE_MSGFLAGS)).u.i = RD_KAFKA_MSG_F_COPY;
  (parts[count++] = Variant(RD_KAFKA_VTYPE_OPAQUE)).u.ptr = slot;
  if (headers) (parts[count++] = Variant(RD_KAFKA_VTYPE_HEADERS)).u.headers = headers.get();
  const Owned<rd_kafka_error_t> error(rd_kafka_produceva(get(), parts.data(), count));
  if (error) return rd_kafka_error_code(error.get());
  headers.release();
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

std::optional<TransactionError> Producer::AppendOne(const log::OutgoingRecord& record, absl::Duration deadline,
                                                    const Probe& probe) {
  const auto found = SlotOf(record.to, deadline);
  if (!found.ok()) {
    const rd_kafka_resp_err_t code = absl::IsNotFound(found.status()) ? RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
                                     : absl::IsPermissionDenied(found.status())
                                         ? RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED
                                     : absl::IsInvalidArgument(found.status()) ? RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION
                                                                               : RD_KAFKA_RESP_ERR__TIMED_OUT;
    return Classify(code, std::string(found.status().message()), ErrorClass::kRequiresAbort);
  }
  Slot* const slot = *found;
  const int64_t bytes = SizeOf(record);
  // librdkafka makes batches of batch.size, whatever the topic takes, and does not split one that is refused. Where the
  // topic takes less, what is under way for the partition never makes up a larger one.
  const std::optional<int64_t> limit = slot->topic->max_batch_bytes;
  if (limit && *limit < batch_bytes_ + kBatchOverhead && slot->bytes_under_way > 0 &&
      slot->bytes_under_way + bytes + kBatchOverhead > *limit) {
    if (auto error = Flush(deadline, probe)) return error;
  }
  while (true) {
    const rd_kafka_resp_err_t code = Produce(record, slot);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) break;
    if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
      if (auto cause = probe ? probe() : std::nullopt) return cause;
      return Classify(code, StrCat("record for ", record.to.ToString(), ": ", rd_kafka_err2str(code)),
                      ErrorClass::kRequiresAbort);
    }
    rd_kafka_poll(get(), Millis(kSlice));
    if (failure_) return FailureAsError(probe);
    if (auto cause = probe ? probe() : std::nullopt) return cause;
    if (clock_.Monotonic() >= deadline) {
      return Classify(RD_KAFKA_RESP_ERR__TIMED_OUT,
                      StrCat("the queue of records to send stays full", client_->ConnectionTrouble()),
                      ErrorClass::kTimedOut);
    }
  }
  slot->bytes_under_way += bytes;
  ++slot->records_under_way;
  return std::nullopt;
}

std::optional<TransactionError> Producer::Append(const std::vector<log::OutgoingRecord>& records,
                                                 absl::Duration deadline, const Probe& probe) {
  size_t appended = 0;
  for (const log::OutgoingRecord& record : records) {
    if (failure_) return FailureAsError(probe);
    if (auto error = AppendOne(record, deadline, probe)) return error;
    if (++appended % kRecordsPerPoll == 0) rd_kafka_poll(get(), 0);
  }
  rd_kafka_poll(get(), 0);
  return failure_ ? std::optional(FailureAsError(probe)) : std::nullopt;
}

std::optional<TransactionError> Producer::Flush(absl::Duration deadline, const Probe& probe) {
  while (true) {
    const absl::Duration left = deadline - clock_.Monotonic();
    const rd_kafka_resp_err_t code = rd_kafka_flush(get(), Millis(std::min(left, kSlice)));
    if (failure_) return FailureAsError(probe);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) return std::nullopt;
    if (code != RD_KAFKA_RESP_ERR__TIMED_OUT) return Classify(code, rd_kafka_err2str(code), ErrorClass::kRequiresAbort);
    if (auto cause = probe ? probe() : std::nullopt) return cause;
    if (clock_.Monotonic() >= deadline) {
      return Classify(
          code, StrCat(rd_kafka_outq_len(get()), " records are not acknowledged in time", client_->ConnectionTrouble()),
          ErrorClass::kTimedOut);
    }
  }
}

void Producer::Delivered(const rd_kafka_message_t& message) {
  Slot& slot = *static_cast<Slot*>(message._private);
  const size_t bytes = message.len + message.key_len;
  // Headers are not counted here: the sum is an upper bound until nothing is under way.
  slot.bytes_under_way -= static_cast<int64_t>(bytes) + kRecordOverhead;
  if (--slot.records_under_way == 0) slot.bytes_under_way = 0;
  if (message.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    slot.acknowledged = std::max(slot.acknowledged, Offset(message.offset));
    return;
  }
  const bool larger = failure_ && IsTooLarge(message.err) && IsTooLarge(failure_->code) && bytes > failure_->bytes;
  if (failure_ && !larger) return;
  failure_ = Failure{message.err,
                     StrCat("record for ", slot.to.ToString(), " (", KeyOf(message), ", ", bytes,
                            " bytes): ", rd_kafka_err2str(message.err)),
                     bytes};
  if (IsTooLarge(message.err)) {
    admin_->ForgetLimit(slot.to.topic);
    if (slot.topic->max_batch_bytes) {
      StrAppend(&failure_->detail, "; topic ", slot.to.topic, " takes at most ", *slot.topic->max_batch_bytes,
                " bytes (max.message.bytes)");
    }
  }
}

TransactionError Producer::FailureAsError(const Probe& probe) {
  // Records are thrown away when a transaction becomes void; why it did, the probe knows.
  if (IsPurged(failure_->code) && probe) {
    if (auto cause = probe()) return *std::move(cause);
  }
  std::string detail = failure_->detail;
  if (failure_->code == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT) detail += client_->ConnectionTrouble();
  return Classify(failure_->code, std::move(detail), ErrorClass::kRequiresAbort);
}

TransactionError Producer::Classify(rd_kafka_resp_err_t code, std::string detail, ErrorClass otherwise) {
  char reason[512];
  const rd_kafka_resp_err_t fatal = rd_kafka_fatal_error(get(), reason, sizeof(reason));
  if (!fatal) return {code, otherwise, std::move(detail)};
  return {fatal, ErrorClass::kFatal, StrCat(detail, ": ", reason)};
}

log::AcknowledgedOffsets Producer::Acknowledged() const {
  log::AcknowledgedOffsets offsets;
  for (const auto& [to, slot] : slots_) {
    if (slot->acknowledged != kNoOffset) offsets[to] = slot->acknowledged;
  }
  return offsets;
}

std::string Producer::TopicNames() const {
  std::set<std::string> names;
  for (const auto& [name, topic] : topics_) names.insert(name);
  return absl::StrJoin(names, ", ");
}

bool Producer::refused() const { return failure_ && !IsPurged(failure_->code); }

void Producer::Forget() {
  failure_.reset();
  for (const auto& [to, slot] : slots_) slot->acknowledged = kNoOffset;
}

}  // namespace millstream::kafka
