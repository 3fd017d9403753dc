#ifndef MILLSTREAM_COMMON_LOG_TESTING_FAULTY_READER_H_
#define MILLSTREAM_COMMON_LOG_TESTING_FAULTY_READER_H_

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/log/testing/fault_script.h"

namespace millstream::log {

// The reader of a FaultyLog.
class FaultyReader : public Reader {
 public:
  FaultyReader(std::unique_ptr<Reader> under, std::shared_ptr<FaultyLog::Script> script);
  ~FaultyReader() override;

  absl::Status Add(const TopicPartition& from, Offset start) override;
  void Remove(const TopicPartition& from) override;
  absl::Status Seek(const TopicPartition& from, Offset to) override;
  void Pause(const TopicPartition& from) override;
  void Resume(const TopicPartition& from) override;
  absl::StatusOr<std::vector<ReaderEvent>> Poll(absl::Duration wait) override;
  void Wake() override { under_->Wake(); }

  // Any thread.
  void FailPartition(const TopicPartition& partition, const absl::Status& status);

 private:
  void TakeFailures(std::vector<ReaderEvent>* events);

  const std::unique_ptr<Reader> under_;
  const std::shared_ptr<FaultyLog::Script> script_;
  std::set<TopicPartition> added_, paused_, failed_;  // the calling thread's

  absl::Mutex mutex_;
  std::map<TopicPartition, absl::Status> to_fail_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millstream::log

#endif  // MILLSTREAM_COMMON_LOG_TESTING_FAULTY_READER_H_
