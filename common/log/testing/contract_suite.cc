#include "common/log/testing/contract_suite.h"

#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::log {
namespace {

// Different in every run, so that a log that keeps its topics can be used again.
const std::string& RunName() {
  static const std::string* const name = new std::string(StrCat(getpid(), "-", std::random_device()() % 1'000'000));
  return *name;
}

}  // namespace

void LogContract::SetUp() { backend_ = GetParam()(); }

std::string LogContract::Unique(const std::string& stem) const {
  static std::atomic<int> count{0};
  return StrCat(stem, "-", RunName(), "-", ++count);
}

bool LogContract::Eventually(const std::function<bool()>& condition, absl::Duration extra) {
  const absl::Duration until = SystemClock().Monotonic() + backend_->patience() + extra;
  while (!condition()) {
    if (SystemClock().Monotonic() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

std::string LogContract::MakeTopic(int partitions, std::map<std::string, std::string> config) {
  const std::string name = Unique("topic");
  // Many tests write times of 1970, which Kafka would delete as older than a week at its next look.
  config.emplace("retention.ms", "-1");
  const absl::Status status = admin().CreateTopic({name, partitions, -1, std::move(config)});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(Eventually([&] {
    return admin().EndOffset({name, Partition(partitions - 1)}, Isolation::kReadCommitted).ok();
  })) << name
      << " does not become ready";
  return name;
}

std::unique_ptr<TransactionalWriter> LogContract::MakeWriter(const std::string& transactional_id,
                                                             absl::Duration timeout) {
  WriterOptions options;
  options.transactional_id = transactional_id;
  options.transaction_timeout = timeout;
  options.call_deadline = backend_->patience();
  auto writer = log().NewTransactionalWriter(options);
  absl::Status status;
  EXPECT_TRUE(Eventually([&] {
    status = writer->Init();
    return status.ok() || RecoveryOf(status) != Recovery::kRetry;
  }));
  EXPECT_TRUE(status.ok()) << status;
  return writer;
}

GroupToken LogContract::Join(const std::string& group, const std::string& member) {
  auto token = backend_->JoinGroup(group, member);
  EXPECT_TRUE(token.ok()) << token.status();
  return token.ok() ? *token : GroupToken{};
}

Offset LogContract::Append(TransactionalWriter& writer, const std::vector<OutgoingRecord>& records) {
  const absl::Status status = writer.Append(records);
  EXPECT_TRUE(status.ok()) << status;
  const auto acknowledged = writer.Flush();
  EXPECT_TRUE(acknowledged.ok()) << acknowledged.status();
  if (!acknowledged.ok()) return kNoOffset;
  const auto last = acknowledged->find(records.back().to);
  return last == acknowledged->end() ? kNoOffset : last->second;
}

void LogContract::CommitRecords(TransactionalWriter& writer, const std::vector<OutgoingRecord>& records) {
  const absl::Status begun = writer.Begin();
  ASSERT_TRUE(begun.ok()) << begun;
  Append(writer, records);
  const absl::Status status = writer.Commit();
  ASSERT_TRUE(status.ok()) << status;
}

void LogContract::WritePlain(const std::vector<OutgoingRecord>& records) {
  const auto writer = log().NewPlainWriter();
  const absl::Status status = writer->Append(records);
  ASSERT_TRUE(status.ok()) << status;
  const auto acknowledged = writer->Flush();
  ASSERT_TRUE(acknowledged.ok()) << acknowledged.status();
}

std::vector<ReaderEvent> LogContract::PollUntil(Reader& reader, const std::function<bool(const ReaderEvent&)>& stop) {
  std::vector<ReaderEvent> all;
  const absl::Duration until = SystemClock().Monotonic() + backend_->patience();
  while (SystemClock().Monotonic() < until) {
    auto events = reader.Poll(absl::Milliseconds(50));
    if (!events.ok()) {
      ADD_FAILURE() << events.status();
      return all;
    }
    bool stopped = false;
    for (ReaderEvent& event : *events) {
      stopped = stop(event) || stopped;
      all.push_back(std::move(event));
    }
    if (stopped) return all;
  }
  ADD_FAILURE() << "the event waited for did not come; " << all.size() << " others did";
  return all;
}

std::vector<Record> LogContract::ReadTo(Reader& reader, const TopicPartition& from, Offset until) {
  std::vector<Record> records;
  const auto events = PollUntil(reader, [&](const ReaderEvent& event) {
    const auto* end = std::get_if<EndOfPartition>(&event);
    return end != nullptr && end->from == from && end->position >= until;
  });
  for (const ReaderEvent& event : events) {
    if (const auto* read = std::get_if<RecordsRead>(&event); read != nullptr && read->from == from) {
      records.insert(records.end(), read->records.begin(), read->records.end());
    } else if (const auto* failed = std::get_if<PartitionFailed>(&event)) {
      ADD_FAILURE() << failed->status;
    }
  }
  return records;
}

std::vector<Record> LogContract::ReadAll(const TopicPartition& from, Isolation isolation) {
  ReaderOptions options;
  options.isolation = isolation;
  const auto reader = log().NewReader(options);
  const auto start = admin().StartOffset(from);
  const auto end = admin().EndOffset(from, isolation);
  if (!start.ok() || !end.ok()) {
    ADD_FAILURE() << start.status() << end.status();
    return {};
  }
  const absl::Status added = reader->Add(from, *start);
  EXPECT_TRUE(added.ok()) << added;
  return ReadTo(*reader, from, *end);
}

void LogContract::ExpectQuiet(Reader& reader) {
  const auto events = reader.Poll(backend_->quiet());
  ASSERT_TRUE(events.ok()) << events.status();
  EXPECT_TRUE(events->empty()) << events->size() << " events, the first of kind " << events->front().index();
}

void LogContract::ExpectEnd(const TopicPartition& of, Isolation isolation, int64_t expected) {
  absl::StatusOr<Offset> end = kNoOffset;
  EXPECT_TRUE(Eventually([&] {
    end = admin().EndOffset(of, isolation);
    return end.ok() && *end == Offset(expected);
  })) << "end of "
      << of << ": expected " << expected << ", is " << (end.ok() ? StrCat(end->value()) : end.status().ToString());
}

OutgoingRecord To(const TopicPartition& to, MaybeBytes key, MaybeBytes value, int64_t timestamp_ms) {
  OutgoingRecord record;
  record.to = to;
  record.key = std::move(key);
  record.value = std::move(value);
  record.timestamp_ms = timestamp_ms;
  return record;
}

std::vector<OutgoingRecord> Numbered(const TopicPartition& to, int from, int count) {
  std::vector<OutgoingRecord> records;
  for (int i = from; i < from + count; ++i) records.push_back(To(to, StrCat("k", i), StrCat("v", i), 1000 + i));
  return records;
}

std::vector<std::string> Values(const std::vector<Record>& records) {
  std::vector<std::string> values;
  for (const Record& record : records) values.push_back(record.value.value_or("(null)"));
  return values;
}

}  // namespace millstream::log
