#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_READER_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_READER_H_

#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/log/embedded/batch.h"
#include "common/log/embedded/core.h"
#include "common/log/reader.h"

namespace millstream::log::embedded {

// Reads straight from the database when polled: nothing is fetched ahead, so nothing of an old position can arrive
// after a Seek. Appends put a partition into the queue of those worth looking at, so a poll costs nothing for the idle
// ones.
class EmbeddedReader : public Reader {
 public:
  EmbeddedReader(Core* core, const ReaderOptions& options);
  ~EmbeddedReader() override;

  absl::Status Add(const TopicPartition& from, Offset start) override;
  void Remove(const TopicPartition& from) override;
  absl::Status Seek(const TopicPartition& from, Offset to) override;
  void Pause(const TopicPartition& from) override;
  void Resume(const TopicPartition& from) override;
  absl::StatusOr<std::vector<ReaderEvent>> Poll(absl::Duration wait) override;
  void Wake() override;

 private:
  struct Source;
  struct View;

  void MarkReady(Source* source) ABSL_LOCKS_EXCLUDED(mutex_);
  Source* NextReady(absl::Duration wait) ABSL_LOCKS_EXCLUDED(mutex_);
  size_t ReadyCount() ABSL_LOCKS_EXCLUDED(mutex_);
  bool TakeWake() ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(Source* source);

  View Look(const Source& source);
  // Adds the source's next events, if it has any, stopping behind `limit` bytes of records; returns their bytes.
  int64_t Serve(Source* source, int64_t limit, std::vector<ReaderEvent>* events);
  absl::Status ReadRecords(Source* source, const View& view, int64_t limit, RecordsRead* read, int64_t* bytes);
  // Takes the records of one batch; false when the limit was reached within it.
  bool TakeBatch(Source* source, int64_t base, int64_t limit, BatchReader* batch, RecordsRead* read, int64_t* bytes);
  void RetryLater(Source* source, int64_t position, const absl::Status& status);
  void Fail(Source* source, absl::Status status, std::vector<ReaderEvent>* events);

  Core* const core_;
  const ReaderOptions options_;
  absl::flat_hash_map<TopicPartition, std::unique_ptr<Source>> sources_;

  absl::Mutex mutex_;
  absl::CondVar ready_or_woken_;
  std::deque<Source*> ready_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_READER_H_
