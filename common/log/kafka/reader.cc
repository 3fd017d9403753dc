#include "common/log/kafka/reader.h"

#include <algorithm>
#include <utility>

#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/kafka/errors.h"
#include "common/log/kafka/properties.h"

namespace millstream::kafka {
namespace {

using log::EndOfPartition;
using log::PartitionFailed;
using log::ReaderEvent;
using log::Record;
using log::RecordsRead;

// How long one wait of Poll is, so that topics are checked in between.
constexpr absl::Duration kLongestWait = absl::Seconds(1);
constexpr absl::Duration kWaitWhileAsking = absl::Milliseconds(50);
// A seek is an order to the library's main thread, which waits for nothing.
constexpr absl::Duration kSeekWait = absl::Seconds(2);
// How long a broker waits for records before it answers that there are none. The end of a partition comes with that
// answer (a restore of eight tasks, three at a time, waited 1.5 s for it with the library's 500 ms), and so does the
// turn of a partition that is added while others are idle, because one fetch at a time is on its way to a broker. Ten
// requests a second are what an idle process costs a broker.
constexpr char kIdleAnswerMs[] = "100";
// Between attempts to make a client with the access that is in force.
constexpr absl::Duration kRenewPause = absl::Seconds(10);
// Bookkeeping of a record beside its bytes.
constexpr int64_t kRecordBytes = 64;

MaybeBytes ToBytes(const void* data, size_t size) {
  if (data == nullptr) return std::nullopt;
  return Bytes(static_cast<const char*>(data), size);
}

Record ToRecord(const rd_kafka_message_t& message, int64_t* bytes) {
  Record record;
  record.offset = Offset(message.offset);
  rd_kafka_timestamp_type_t type;
  record.timestamp_ms = rd_kafka_message_timestamp(&message, &type);
  record.key = ToBytes(message.key, message.key_len);
  record.value = ToBytes(message.payload, message.len);
  *bytes = kRecordBytes + static_cast<int64_t>(message.key_len + message.len);
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR) return record;
  const size_t count = rd_kafka_header_cnt(headers);
  record.headers.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    const void* value = nullptr;
    size_t size = 0;
    if (rd_kafka_header_get_all(headers, i, &name, &value, &size) != RD_KAFKA_RESP_ERR_NO_ERROR) break;
    record.headers.push_back({name, ToBytes(value, size)});
    *bytes += kRecordBytes + static_cast<int64_t>(record.headers.back().name.size() + size);
  }
  return record;
}

}  // namespace

KafkaReader::KafkaReader(std::shared_ptr<const ClientContext> context, AdminClient* admin,
                         const log::ReaderOptions& options)
    : context_(std::move(context)),
      admin_(admin),
      options_(options),
      stash_bytes_(std::max<int64_t>(options.max_buffered_bytes / 16, 64 << 10)) {
  auto client = NewClient();
  if (!client.ok()) {
    broken_ = client.status();
    return;
  }
  watch_ = std::make_unique<TopicWatch>((*client)->get(), admin_);
  Use(*std::move(client));
}

absl::StatusOr<std::unique_ptr<Client>> KafkaReader::NewClient() const {
  ClientSpec spec;
  spec.type = RD_KAFKA_CONSUMER;
  spec.what = "reader";
  spec.defaults = {{"check.crcs", "true"}, {"fetch.wait.max.ms", kIdleAnswerMs}, {"fetch.queue.backoff.ms", "5"}};
  spec.fixed = ReaderProperties(options_.isolation == log::Isolation::kReadCommitted, options_.max_buffered_bytes);
  return Client::New(context_, std::move(spec));
}

void KafkaReader::Use(std::unique_ptr<Client> client) {
  rd_kafka_poll_set_consumer(client->get());
  absl::MutexLock lock(&queue_mutex_);
  queue_.reset(rd_kafka_queue_get_consumer(client->get()));
  client_.swap(client);
}

// ---------------------------------------------------------------- the caller's orders

absl::Status KafkaReader::Add(const TopicPartition& from, Offset start) {
  MS_RETURN_IF_ERROR(broken_);
  if (sources_.contains(from)) return absl::AlreadyExistsError(StrCat(from.ToString(), " is read already"));
  if (start.value() < 0) return absl::InvalidArgumentError(StrCat(from.ToString(), ": offset ", start.value()));
  MS_RETURN_IF_ERROR(watch_->Learn(from));
  if (absl::Status assigned = Assign(from, start); !assigned.ok()) {
    watch_->Forget(from.topic);
    return assigned;
  }
  auto source = std::make_unique<Source>();
  source->from = from;
  source->position = start;
  sources_[from] = std::move(source);
  last_source_ = nullptr;
  return absl::OkStatus();
}

void KafkaReader::Remove(const TopicPartition& from) {
  const auto found = sources_.find(from);
  if (found == sources_.end()) return;
  Unassign(from);
  sources_.erase(found);
  std::erase(stashed_, from);
  watch_->Forget(from.topic);
  last_source_ = nullptr;
}

absl::Status KafkaReader::Seek(const TopicPartition& from, Offset to) {
  const auto found = sources_.find(from);
  if (found == sources_.end()) return absl::NotFoundError(StrCat(from.ToString(), " is not read"));
  if (to.value() < 0) return absl::InvalidArgumentError(StrCat(from.ToString(), ": offset ", to.value()));
  Source& source = *found->second;
  bool moved = false;
  if (!source.failed) {
    if (source.held) Hold(source, false);
    const auto list = PartitionList(from.topic, from.partition.value(), to.value());
    const Owned<rd_kafka_error_t> error(rd_kafka_seek_partitions(client_->get(), list.get(), Millis(kSeekWait)));
    moved = !error && list->elems[0].err == RD_KAFKA_RESP_ERR_NO_ERROR;
  }
  if (!moved) {
    // Not being fetched (it failed, or its leader is not known yet): begin anew.
    if (source.failed) {
      watch_->Forget(from.topic);
      MS_RETURN_IF_ERROR(watch_->Learn(from));
    }
    Unassign(from);
    MS_RETURN_IF_ERROR(Assign(from, to));
  }
  const bool paused = source.paused;
  source = Source{.from = from, .position = to, .paused = paused, .stash = {}};
  std::erase(stashed_, from);
  return absl::OkStatus();
}

void KafkaReader::Pause(const TopicPartition& from) {
  const auto found = sources_.find(from);
  if (found == sources_.end()) return;
  found->second->paused = true;
  std::erase(stashed_, from);
}

void KafkaReader::Resume(const TopicPartition& from) {
  const auto found = sources_.find(from);
  if (found == sources_.end() || !found->second->paused) return;
  Source& source = *found->second;
  source.paused = false;
  if (!source.stash.empty()) stashed_.push_back(from);
  if (source.held) Hold(source, false);
}

void KafkaReader::Wake() {
  woken_ = true;
  absl::MutexLock lock(&queue_mutex_);
  if (queue_) rd_kafka_queue_yield(queue_.get());
}

// ---------------------------------------------------------------- the library's side

absl::Status KafkaReader::Assign(const TopicPartition& from, Offset at) {
  const auto list = PartitionList(from.topic, from.partition.value(), at.value());
  const Owned<rd_kafka_error_t> error(rd_kafka_incremental_assign(client_->get(), list.get()));
  if (error) {
    return ToStatus(rd_kafka_error_code(error.get()), StrCat("read ", from.ToString()),
                    rd_kafka_error_string(error.get()));
  }
  rd_kafka_resume_partitions(client_->get(), list.get());  // Unassign has left it paused, if it was there before
  return absl::OkStatus();
}

void KafkaReader::Unassign(const TopicPartition& from) {
  const auto list = PartitionList(from.topic, from.partition.value(), RD_KAFKA_OFFSET_INVALID);
  // Pausing alone makes what is queued void in this very call, before the assignment has changed.
  rd_kafka_pause_partitions(client_->get(), list.get());
  const Owned<rd_kafka_error_t> error(rd_kafka_incremental_unassign(client_->get(), list.get()));
}

void KafkaReader::Hold(Source& source, bool hold) {
  const auto list = PartitionList(source.from.topic, source.from.partition.value(), RD_KAFKA_OFFSET_INVALID);
  hold ? rd_kafka_pause_partitions(client_->get(), list.get()) : rd_kafka_resume_partitions(client_->get(), list.get());
  source.held = hold;
}

// What the one before had fetched and not given away is fetched again: positions are ours, not the library's.
void KafkaReader::RenewIfOutdated(Gathering* to) {
  if (!client_->outdated() || clock_.Monotonic() < renew_after_) return;
  auto client = NewClient();
  if (!client.ok()) {
    renew_after_ = clock_.Monotonic() + kRenewPause;
    LogWarning("a reader goes on with the secrets before", {{"error", std::string(client.status().message())}});
    return;
  }
  watch_->Use((*client)->get());
  Use(*std::move(client));
  context_->CountRenewed("reader");
  last_source_ = nullptr;
  for (auto& [from, source] : sources_) {
    if (source->failed) continue;
    source->asked_again = false;
    if (absl::Status assigned = Assign(from, source->position); !assigned.ok()) {
      Failed(*source, std::move(assigned), to);
    } else if (source->held) {
      Hold(*source, true);
    }
  }
}

// ---------------------------------------------------------------- polling

absl::StatusOr<std::vector<ReaderEvent>> KafkaReader::Poll(absl::Duration wait) {
  MS_RETURN_IF_ERROR(broken_);
  const absl::Duration deadline = clock_.Monotonic() + wait;
  Gathering gathered;
  while (true) {
    RenewIfOutdated(&gathered);
    GiveStashes(&gathered);
    CheckTopics(&gathered);
    absl::Duration pause = std::min(deadline - clock_.Monotonic(), watch_->asking() ? kWaitWhileAsking : kLongestWait);
    if (!gathered.events.empty() || woken_ || pause < absl::ZeroDuration()) pause = absl::ZeroDuration();
    while (gathered.bytes < options_.max_read_bytes) {
      const int timeout = static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(pause, absl::Milliseconds(1))));
      const Owned<rd_kafka_message_t> message(rd_kafka_consumer_poll(client_->get(), timeout));
      if (!message) break;
      Take(*message, &gathered);
      pause = absl::ZeroDuration();
    }
    if (woken_.exchange(false) || !gathered.events.empty() || clock_.Monotonic() >= deadline) break;
  }
  return std::move(gathered.events);
}

KafkaReader::Source* KafkaReader::SourceOf(const rd_kafka_message_t& message) {
  if (message.rkt == nullptr) return nullptr;
  if (last_source_ != nullptr && last_topic_ == message.rkt && last_partition_ == message.partition) {
    return last_source_;
  }
  const auto found = sources_.find(TopicPartition{rd_kafka_topic_name(message.rkt), Partition(message.partition)});
  if (found == sources_.end()) return nullptr;
  last_topic_ = message.rkt;
  last_partition_ = message.partition;
  return last_source_ = found->second.get();
}

void KafkaReader::Take(const rd_kafka_message_t& message, Gathering* to) {
  Source* const source = SourceOf(message);
  if (source == nullptr || source->failed) return;
  if (message.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    TakeRecord(*source, message, to);
  } else if (message.err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
    TakeEnd(*source, Offset(message.offset), to);
  } else {
    TakeError(*source, message, to);
  }
}

void KafkaReader::TakeRecord(Source& source, const rd_kafka_message_t& message, Gathering* to) {
  if (Offset(message.offset) < source.position) return;  // fetched again
  int64_t bytes = 0;
  Record record = ToRecord(message, &bytes);
  source.position = record.offset.Next();
  source.asked_again = false;
  if (!source.paused && source.stash.empty()) return Give(source, std::move(record), bytes, to);
  source.stash.records.push_back(std::move(record));
  source.stash.bytes += bytes;
  if (source.stash.bytes >= stash_bytes_ && !source.held) Hold(source, true);
}

void KafkaReader::TakeEnd(Source& source, Offset end, Gathering* to) {
  if (end < source.position || end == source.reported_end) return;
  source.position = source.reported_end = end;
  source.asked_again = false;
  if (!source.paused && source.stash.empty()) {
    to->events.push_back(EndOfPartition{source.from, end});
  } else {
    source.stash.end = end;
  }
}

void KafkaReader::TakeError(Source& source, const rd_kafka_message_t& message, Gathering* to) {
  const std::string detail = rd_kafka_message_errstr(&message) == nullptr ? "" : rd_kafka_message_errstr(&message);
  switch (message.err) {
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR__LOG_TRUNCATION:
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE: {
      const Offset at = source.position;
      // The library does not void these on a seek, so this one may be about an earlier position: ask for ours again.
      if (!source.asked_again) {
        source.asked_again = true;
        Unassign(source.from);
        if (Assign(source.from, at).ok()) return;
      }
      watch_->Suspect();  // or is it another topic by now?
      return Failed(
          source,
          absl::OutOfRangeError(StrCat("offset ", at.value(), ": ", detail, " (asked for ", message.offset, ")")), to);
    }
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR__BAD_MSG:
    case RD_KAFKA_RESP_ERR__BAD_COMPRESSION:
    case RD_KAFKA_RESP_ERR_INVALID_MSG:
      return Failed(source, ToStatus(message.err, StrCat("offset ", source.position.value()), detail), to);
    default:
      // Gone, or a broker that is not up to date? Everything else is retried by the library.
      watch_->Suspect();
  }
}

void KafkaReader::Failed(Source& source, absl::Status status, Gathering* to) {
  source.failed = true;
  Unassign(source.from);
  if (source.paused || !source.stash.empty()) {
    source.stash.failure = std::move(status);
  } else {
    to->events.push_back(PartitionFailed{source.from, std::move(status)});
  }
}

void KafkaReader::Give(Source& source, Record record, int64_t bytes, Gathering* to) {
  RecordsRead* read = to->events.empty() ? nullptr : std::get_if<RecordsRead>(&to->events.back());
  if (read == nullptr || read->from != source.from || to->last_bytes + bytes > options_.max_read_bytes) {
    to->events.push_back(RecordsRead{.from = source.from, .records = {}, .next = source.position});
    read = &std::get<RecordsRead>(to->events.back());
    to->last_bytes = 0;
  }
  read->next = record.offset.Next();
  read->records.push_back(std::move(record));
  to->last_bytes += bytes;
  to->bytes += bytes;
}

void KafkaReader::GiveStashes(Gathering* to) {
  while (!stashed_.empty() && to->bytes < options_.max_read_bytes) {
    Source& source = *sources_.at(stashed_.front());
    Stash& stash = source.stash;
    size_t given = 0;
    while (given < stash.records.size() && to->bytes < options_.max_read_bytes) {
      Record& record = stash.records[given++];
      const int64_t bytes = kRecordBytes + static_cast<int64_t>((record.key ? record.key->size() : 0) +
                                                                (record.value ? record.value->size() : 0));
      Give(source, std::move(record), bytes, to);
    }
    stash.records.erase(stash.records.begin(), stash.records.begin() + static_cast<ptrdiff_t>(given));
    if (!stash.records.empty()) return;  // more at the next Poll
    if (stash.end) to->events.push_back(EndOfPartition{source.from, *stash.end});
    if (!stash.failure.ok()) to->events.push_back(PartitionFailed{source.from, stash.failure});
    stash = Stash{};
    stashed_.pop_front();
  }
}

void KafkaReader::CheckTopics(Gathering* to) {
  for (auto& [topic, status] : watch_->Check()) {
    for (auto& [from, source] : sources_) {
      if (from.topic == topic && !source->failed) Failed(*source, status, to);
    }
  }
}

}  // namespace millstream::kafka
