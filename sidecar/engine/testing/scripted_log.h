#ifndef MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_LOG_H_
#define MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_LOG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/log/record.h"
#include "common/log/writer.h"

namespace millstream::engine::testing {

// A log in memory that behaves as Kafka does where it matters for exactly-once: appends take offsets at once, commits
// and aborts are markers with an offset of their own, readers of committed records stop at the first open transaction,
// producers are fenced by epoch, offsets of open transactions are pending, the offset appended last wins, and the
// group's generation is looked at when offsets are sent and never again. Nothing blocks: a caller asks first whether it
// would.
class ScriptedLog {
 public:
  // A producer as one process holds it.
  struct Handle {
    std::string id;
    int epoch = 0;
  };

  void CreateTopic(const std::string& topic, int partitions) { partitions_[topic] = partitions; }
  int Partitions(const std::string& topic) const { return partitions_.at(topic); }

  // Without a transaction.
  Offset Append(const log::OutgoingRecord& record);

  // Fences earlier handles of the id and aborts their transaction.
  Handle Init(const std::string& id);
  absl::Status Begin(const Handle& handle, absl::Duration now);
  absl::Status Append(const Handle& handle, const log::OutgoingRecord& record, Offset* offset);
  absl::Status SendOffsets(const Handle& handle, const log::GroupToken& token,
                           const std::vector<std::pair<TopicPartition, log::GroupOffset>>& offsets);
  absl::Status Commit(const Handle& handle);
  absl::Status Abort(const Handle& handle);
  // What the broker does to transactions that are open since before `then`: aborts them and fences their producers.
  // Those named "upstream..." are somebody else's and live as long as they like.
  void AbortOpenSince(absl::Duration then);

  struct ReadResult {
    std::vector<log::Record> records;
    Offset next;
    bool at_end = false;
  };
  ReadResult Read(const TopicPartition& from, Offset start, size_t most, log::Isolation isolation) const;
  // Every committed record there is, also behind open transactions: what no reader sees, for checking.
  std::vector<log::Record> CommittedRecords(const TopicPartition& of) const;
  Offset EndOffset(const TopicPartition& of, log::Isolation isolation) const;
  bool HasOpenTransaction(const TopicPartition& of) const;

  // The group. There is one.
  int NewGeneration(const std::set<std::string>& members);
  int generation() const { return generation_; }
  const std::set<std::string>& members() const { return members_; }
  bool HasPendingOffset(const TopicPartition& of) const;
  std::optional<log::GroupOffset> Committed(const TopicPartition& of) const;

 private:
  struct Transaction {
    enum class State { kOpen, kCommitted, kAborted } state = State::kOpen;
    absl::Duration begun{};
    std::set<TopicPartition> touched;
    std::vector<std::pair<TopicPartition, log::GroupOffset>> offsets;
    std::vector<int64_t> offset_order;
  };
  struct Entry {
    log::Record record;
    bool control = false;
    std::shared_ptr<Transaction> transaction;  // null: none
  };
  struct Producer {
    int epoch = 0;
    std::shared_ptr<Transaction> open;
  };
  struct GroupEntry {
    log::GroupOffset offset;
    int64_t order = 0;
  };

  absl::StatusOr<Producer*> Check(const Handle& handle, bool needs_open);
  void End(Producer* producer, bool commit);
  std::vector<Entry>& At(const TopicPartition& partition);
  const std::vector<Entry>* Find(const TopicPartition& partition) const;

  std::map<std::string, int> partitions_;
  std::map<TopicPartition, std::vector<Entry>> entries_;
  std::map<std::string, Producer> producers_;
  std::map<TopicPartition, GroupEntry> group_;
  int64_t next_order_ = 1;
  int generation_ = 0;
  std::set<std::string> members_;
};

}  // namespace millstream::engine::testing

#endif  // MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_LOG_H_
