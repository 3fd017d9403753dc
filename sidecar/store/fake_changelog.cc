#include "sidecar/store/fake_changelog.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::store {
namespace {
absl::Status NotBuilt() { return absl::UnimplementedError("not part of the fake"); }
absl::Status NoTopic(const std::string& topic) {
  return absl::NotFoundError(StrCat("topic ", topic, " does not exist"));
}
}  // namespace

int64_t FakeChangelog::Topic::StableEnd() const {
  for (const Entry& entry : entries) {
    if (entry.transaction == Transaction::kOpen) return entry.offset;
  }
  return end;
}

// ---------------------------------------------------------------- admin

class FakeChangelog::FakeAdmin : public log::Admin {
 public:
  explicit FakeAdmin(FakeChangelog* log) : log_(log) {}

  absl::StatusOr<log::TopicInfo> DescribeTopic(const std::string& topic) override {
    absl::MutexLock lock(&log_->mutex_);
    const Topic* found = log_->Find(topic);
    if (found == nullptr) return NoTopic(topic);
    return log::TopicInfo{topic, found->id, found->partitions, found->config};
  }
  absl::StatusOr<Offset> StartOffset(const TopicPartition& of) override {
    absl::MutexLock lock(&log_->mutex_);
    const Topic* found = log_->Find(of.topic);
    return found == nullptr ? absl::StatusOr<Offset>(NoTopic(of.topic)) : Offset(found->start);
  }
  absl::StatusOr<Offset> EndOffset(const TopicPartition& of, log::Isolation isolation) override {
    absl::MutexLock lock(&log_->mutex_);
    const Topic* found = log_->Find(of.topic);
    if (found == nullptr) return NoTopic(of.topic);
    return Offset(isolation == log::Isolation::kReadCommitted ? found->StableEnd() : found->end);
  }

  absl::StatusOr<std::vector<log::TopicInfo>> ListTopics() override { return NotBuilt(); }
  absl::Status CreateTopic(const log::TopicSpec&) override { return NotBuilt(); }
  absl::Status DeleteTopic(const std::string&) override { return NotBuilt(); }
  absl::StatusOr<Offset> OffsetForTime(const TopicPartition&, int64_t) override { return NotBuilt(); }
  absl::StatusOr<std::map<TopicPartition, log::GroupOffset>> StableGroupOffsets(
      const std::string&, absl::Span<const TopicPartition>) override {
    return NotBuilt();
  }
  absl::Status SetGroupOffsets(const std::string&,
                               absl::Span<const std::pair<TopicPartition, log::GroupOffset>>) override {
    return NotBuilt();
  }
  absl::StatusOr<std::vector<log::GroupInfo>> ListGroups() override { return NotBuilt(); }
  absl::Status DeleteGroup(const std::string&) override { return NotBuilt(); }

 private:
  FakeChangelog* const log_;
};

// ---------------------------------------------------------------- reader

class FakeChangelog::FakeReader : public log::Reader {
 public:
  explicit FakeReader(FakeChangelog* log) : log_(log) {}

  absl::Status Add(const TopicPartition& from, Offset start) override {
    partitions_[from] = {start.value(), -1, false};
    return absl::OkStatus();
  }
  void Remove(const TopicPartition& from) override { partitions_.erase(from); }
  absl::Status Seek(const TopicPartition&, Offset) override { return NotBuilt(); }
  void Pause(const TopicPartition&) override {}
  void Resume(const TopicPartition&) override {}
  void Wake() override {}

  absl::StatusOr<std::vector<log::ReaderEvent>> Poll(absl::Duration wait) override {
    const absl::Time deadline = absl::Now() + wait;
    while (true) {
      std::vector<log::ReaderEvent> events;
      std::function<void(int64_t)> on_read;
      int64_t read_so_far = 0;
      {
        absl::MutexLock lock(&log_->mutex_);
        const int64_t before = log_->records_read_;
        for (auto& [from, state] : partitions_) Step(from, &state, &events);
        if (log_->records_read_ > before) on_read = log_->on_read_;
        read_so_far = log_->records_read_;
      }
      if (on_read) on_read(read_so_far);
      if (!events.empty() || absl::Now() >= deadline) return events;
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

 private:
  struct State {
    int64_t position = 0;
    int64_t announced_end = -1;
    bool failed = false;
  };

  void Step(const TopicPartition& from, State* state, std::vector<log::ReaderEvent>* events)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(log_->mutex_) {
    if (state->failed) return;
    const Topic* topic = log_->Find(from.topic);
    absl::Status failure = topic == nullptr ? NoTopic(from.topic) : topic->failure;
    if (failure.ok() && (state->position < topic->start || state->position > topic->end)) {
      failure = absl::OutOfRangeError(StrCat("offset ", state->position, " is out of range"));
    }
    if (!failure.ok()) {
      state->failed = true;
      events->push_back(log::PartitionFailed{from, failure});
      return;
    }
    const int64_t end = topic->StableEnd();
    log::RecordsRead read{from, {}, Offset(end)};
    for (const Entry& entry : topic->entries) {
      if (entry.offset < state->position || entry.offset >= end) continue;
      if (entry.marker || entry.transaction == Transaction::kAborted) continue;
      if (read.records.size() == log_->read_records_) {
        read.next = Offset(read.records.back().offset.value() + 1);
        break;
      }
      log::Record record;
      record.offset = Offset(entry.offset);
      record.timestamp_ms = TimeOf(entry.offset);
      record.key = entry.key;
      record.value = entry.value;
      read.records.push_back(std::move(record));
    }
    if (!read.records.empty()) {
      log_->records_read_ += static_cast<int64_t>(read.records.size());
      state->position = read.next.value();
      events->push_back(std::move(read));
    } else if (state->announced_end != end) {
      state->position = state->announced_end = end;
      events->push_back(log::EndOfPartition{from, Offset(end)});
    }
  }

  FakeChangelog* const log_;
  std::map<TopicPartition, State> partitions_;
};

// ---------------------------------------------------------------- the log

FakeChangelog::FakeChangelog() : admin_(std::make_unique<FakeAdmin>(this)) {}
FakeChangelog::~FakeChangelog() = default;

FakeChangelog::Topic* FakeChangelog::Find(const std::string& topic) {
  const auto found = topics_.find(topic);
  return found == topics_.end() ? nullptr : &found->second;
}

void FakeChangelog::CreateTopic(const std::string& topic, const std::string& id, int partitions) {
  absl::MutexLock lock(&mutex_);
  topics_[topic] = Topic();
  topics_[topic].id = id;
  topics_[topic].partitions = partitions;
}

void FakeChangelog::SetConfig(const std::string& topic, const std::string& name, const std::string& value) {
  absl::MutexLock lock(&mutex_);
  topics_.at(topic).config[name] = value;
}

int64_t FakeChangelog::Append(const std::string& topic, MaybeBytes key, MaybeBytes value, Transaction transaction) {
  absl::MutexLock lock(&mutex_);
  Topic& to = topics_.at(topic);
  to.entries.push_back({to.end, std::move(key), std::move(value), transaction, false});
  return to.end++;
}

void FakeChangelog::AppendMarker(const std::string& topic) {
  absl::MutexLock lock(&mutex_);
  Topic& to = topics_.at(topic);
  Entry marker;
  marker.offset = to.end++;
  marker.marker = true;
  to.entries.push_back(marker);
}

void FakeChangelog::EndOpen(const std::string& topic, Transaction outcome) {
  {
    absl::MutexLock lock(&mutex_);
    for (Entry& entry : topics_.at(topic).entries) {
      if (entry.transaction == Transaction::kOpen) entry.transaction = outcome;
    }
  }
  AppendMarker(topic);
}

void FakeChangelog::Compact(const std::string& topic, const std::set<int64_t>& remove) {
  absl::MutexLock lock(&mutex_);
  auto& entries = topics_.at(topic).entries;
  entries.erase(
      std::remove_if(entries.begin(), entries.end(), [&](const Entry& e) { return remove.count(e.offset) > 0; }),
      entries.end());
}

void FakeChangelog::SetStart(const std::string& topic, int64_t start) {
  absl::MutexLock lock(&mutex_);
  topics_.at(topic).start = start;
}

void FakeChangelog::SkipTo(const std::string& topic, int64_t end) {
  absl::MutexLock lock(&mutex_);
  topics_.at(topic).end = end;
}

void FakeChangelog::Fail(const std::string& topic, absl::Status status) {
  absl::MutexLock lock(&mutex_);
  topics_.at(topic).failure = std::move(status);
}

void FakeChangelog::DeleteTopic(const std::string& topic) {
  absl::MutexLock lock(&mutex_);
  topics_.erase(topic);
}

void FakeChangelog::set_read_records(size_t records) {
  absl::MutexLock lock(&mutex_);
  read_records_ = records;
}

int64_t FakeChangelog::records_read() const {
  absl::MutexLock lock(&mutex_);
  return records_read_;
}

void FakeChangelog::set_on_read(std::function<void(int64_t)> on_read) {
  absl::MutexLock lock(&mutex_);
  on_read_ = std::move(on_read);
}

std::unique_ptr<log::Reader> FakeChangelog::NewReader(const log::ReaderOptions& options) {
  MS_CHECK(options.isolation == log::Isolation::kReadCommitted);
  return std::make_unique<FakeReader>(this);
}

}  // namespace millstream::store
