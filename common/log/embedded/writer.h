#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_WRITER_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_WRITER_H_

#include <string>
#include <utility>
#include <vector>

#include "common/log/embedded/appender.h"
#include "common/log/embedded/coordinator.h"
#include "common/log/writer.h"

namespace millstream::log::embedded {

// Appends go to the log within the call, so that there is no queue to wait for.
class EmbeddedTransactionalWriter : public TransactionalWriter {
 public:
  EmbeddedTransactionalWriter(Core* core, const WriterOptions& options)
      : core_(core), options_(options), sorter_(core) {}

  absl::Status Init() override;
  absl::Status Begin() override;
  absl::Status Append(std::vector<OutgoingRecord> records) override;
  absl::StatusOr<AcknowledgedOffsets> Flush() override;
  absl::Status SendOffsets(const GroupToken& token,
                           absl::Span<const std::pair<TopicPartition, GroupOffset>> offsets) override;
  absl::Status Commit() override;
  absl::Status Abort() override;

 private:
  enum class State { kNew, kIdle, kOpen, kMustAbort, kUseless };
  absl::Status Expect(State wanted, std::string_view call) const;
  // Takes the state its Recovery asks for; returns the status with the call's name.
  absl::Status Note(absl::Status status, std::string_view call);
  absl::Status End(bool commit, std::string_view call);

  Core* const core_;
  const WriterOptions options_;
  RecordSorter sorter_;
  ProducerHandle handle_;
  State state_ = State::kNew;
  absl::Status last_error_;
  AcknowledgedOffsets acknowledged_;
};

class EmbeddedPlainWriter : public PlainWriter {
 public:
  explicit EmbeddedPlainWriter(Core* core) : core_(core), sorter_(core) {}

  absl::Status Append(std::vector<OutgoingRecord> records) override;
  absl::StatusOr<AcknowledgedOffsets> Flush() override;

 private:
  Core* const core_;
  RecordSorter sorter_;
  AcknowledgedOffsets acknowledged_;
};

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_WRITER_H_
