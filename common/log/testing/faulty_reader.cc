#include "common/log/testing/faulty_reader.h"

#include <utility>

#include "common/base/status.h"

namespace millstream::log {

FaultyReader::FaultyReader(std::unique_ptr<Reader> under, std::shared_ptr<FaultyLog::Script> script)
    : under_(std::move(under)), script_(std::move(script)) {
  script_->AddReader(this);
}

FaultyReader::~FaultyReader() { script_->RemoveReader(this); }

absl::Status FaultyReader::Add(const TopicPartition& from, Offset start) {
  return Strike(*script_, Call::kAdd, from.topic, [&] {
    absl::Status status = under_->Add(from, start);
    if (status.ok()) added_.insert(from);
    return status;
  });
}

void FaultyReader::Remove(const TopicPartition& from) {
  for (auto* set : {&added_, &paused_, &failed_}) set->erase(from);
  under_->Remove(from);
}

absl::Status FaultyReader::Seek(const TopicPartition& from, Offset to) {
  if (failed_.erase(from) > 0 && !paused_.contains(from)) under_->Resume(from);
  return under_->Seek(from, to);
}

void FaultyReader::Pause(const TopicPartition& from) {
  paused_.insert(from);
  under_->Pause(from);
}

void FaultyReader::Resume(const TopicPartition& from) {
  paused_.erase(from);
  if (!failed_.contains(from)) under_->Resume(from);
}

void FaultyReader::FailPartition(const TopicPartition& partition, const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    to_fail_[partition] = status;
  }
  under_->Wake();
}

void FaultyReader::TakeFailures(std::vector<ReaderEvent>* events) {
  std::map<TopicPartition, absl::Status> failures;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [partition, status] : to_fail_) {
      if (added_.contains(partition) && !paused_.contains(partition)) failures[partition] = status;
    }
    for (const auto& [partition, status] : failures) to_fail_.erase(partition);
  }
  for (auto& [partition, status] : failures) {
    failed_.insert(partition);
    under_->Pause(partition);
    events->push_back(PartitionFailed{partition, std::move(status)});
  }
}

absl::StatusOr<std::vector<ReaderEvent>> FaultyReader::Poll(absl::Duration wait) {
  return Strike(*script_, Call::kPoll, "", [&]() -> absl::StatusOr<std::vector<ReaderEvent>> {
    std::vector<ReaderEvent> events;
    TakeFailures(&events);
    if (!events.empty()) return events;
    MS_ASSIGN_OR_RETURN(events, under_->Poll(wait));
    if (events.empty()) TakeFailures(&events);
    return events;
  });
}

}  // namespace millstream::log
