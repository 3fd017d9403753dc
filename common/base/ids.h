#ifndef MILLSTREAM_COMMON_BASE_IDS_H_
#define MILLSTREAM_COMMON_BASE_IDS_H_

#include <compare>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

namespace millstream {

// An integer with a meaning: an Offset never becomes a Partition by accident. Costs what the integer costs.
// `value()` is the way out; arithmetic exists only where it makes sense (an id plus a distance).
template <typename Tag, typename Int>
class StrongInt {
 public:
  constexpr StrongInt() = default;
  constexpr explicit StrongInt(Int value) : value_(value) {}
  constexpr Int value() const { return value_; }
  constexpr StrongInt Next() const { return StrongInt(value_ + 1); }
  constexpr StrongInt operator+(Int distance) const { return StrongInt(value_ + distance); }
  constexpr Int operator-(StrongInt other) const { return value_ - other.value_; }
  friend constexpr auto operator<=>(StrongInt, StrongInt) = default;
  friend std::ostream& operator<<(std::ostream& out, StrongInt id) { return out << id.value_; }
  template <typename H>
  friend H AbslHashValue(H state, StrongInt id) {
    return H::combine(std::move(state), id.value_);
  }

 private:
  Int value_ = 0;
};

// Position of a record in a partition. A "next" offset is the one after the last record consumed.
using Offset = StrongInt<struct OffsetTag, int64_t>;
// Partition number, from 0.
using Partition = StrongInt<struct PartitionTag, int32_t>;
// Generation of a consumer group: the fencing token of offset commits.
using Generation = StrongInt<struct GenerationTag, int32_t>;
// A task: one partition number across the co-partitioned inputs of a processor.
using TaskId = StrongInt<struct TaskTag, int32_t>;
// Raised whenever a task's work in flight becomes void (engine.md, R10).
using Epoch = StrongInt<struct EpochTag, int64_t>;

inline constexpr Offset kNoOffset{-1};

struct TopicPartition {
  std::string topic;
  Partition partition;

  friend auto operator<=>(const TopicPartition&, const TopicPartition&) = default;
  friend std::ostream& operator<<(std::ostream& out, const TopicPartition& tp) {
    return out << tp.topic << "-" << tp.partition;
  }
  // "orders-3", as Kafka's own tools write it.
  std::string ToString() const { return topic + "-" + std::to_string(partition.value()); }
  template <typename H>
  friend H AbslHashValue(H state, const TopicPartition& tp) {
    return H::combine(std::move(state), tp.topic, tp.partition);
  }
};

}  // namespace millstream

#endif  // MILLSTREAM_COMMON_BASE_IDS_H_
