#ifndef MILLSTREAM_COMMON_LOG_RECORD_H_
#define MILLSTREAM_COMMON_LOG_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/header.h"
#include "common/base/ids.h"

namespace millstream::log {

// A record as it lies in a partition.
struct Record {
  Offset offset;
  int64_t timestamp_ms = 0;  // since 1970; whatever the producer wrote, negative and far future included
  MaybeBytes key;
  MaybeBytes value;
  Headers headers;
};

// A record on its way to a partition. The partition is always explicit: partitioners live above this interface.
struct OutgoingRecord {
  TopicPartition to;
  int64_t timestamp_ms = 0;
  MaybeBytes key;
  MaybeBytes value;
  Headers headers;
};

// What a consumer sees of the log's transactions.
enum class Isolation {
  kReadCommitted,    // records of committed transactions only, up to the last stable offset
  kReadUncommitted,  // everything up to the high watermark
};

// A group's offset of one partition: the next one to process.
struct GroupOffset {
  Offset next;
  std::string metadata;  // at most 4,096 bytes; Millstream writes one JSON object (engine.md, R6)
};

// Proof of membership sent with offsets: the log refuses them if the generation is not the group's (engine.md, R7).
// Generation -1 without a member id is nobody's token: it sets offsets of a group that has no members. While it has
// any, the embedded log refuses it and Kafka does not fence it at all: for tools that look for members, never for one.
struct GroupToken {
  std::string group;
  std::string member_id;
  std::string instance_id;  // static membership; empty if none
  Generation generation{-1};

  friend bool operator==(const GroupToken&, const GroupToken&) = default;
};

}  // namespace millstream::log

#endif  // MILLSTREAM_COMMON_LOG_RECORD_H_
