#ifndef MILLSTREAM_COMMON_LOG_PARTITIONER_CHECK_H_
#define MILLSTREAM_COMMON_LOG_PARTITIONER_CHECK_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/log/partitioner.h"

namespace millstream::log {

// Whether the keys of a topic lie where the partitioner declared for it would have put them. If not, joins and queries
// look for keys in the wrong partitions, which no error would ever show: so a sample of what is read is compared.
//
// Pure and cheap: the first kFirst keys are looked at, then one of kStride. Old evidence fades, so that producers that
// were changed are noticed after some thousand records, either way. Thread-compatible.
class PartitionerCheck {
 public:
  // Precondition: partitions > 0. With one partition everything agrees.
  PartitionerCheck(KeyHash declared, int partitions) : declared_(declared), partitions_(partitions) {}

  // A record with a key was read from `partition`. Empty keys are passed over: some clients spread them.
  void Feed(std::string_view key, Partition partition);

  struct Disagreement {
    int64_t samples = 0, mismatches = 0;  // of the evidence that counts now
    std::optional<KeyHash> fits;          // the partitioner that would explain nearly all of it
    friend bool operator==(const Disagreement&, const Disagreement&) = default;
  };
  // Set once kMismatches of the samples disagree and they are more than a quarter (a wrong partitioner is right by
  // chance for one key in `partitions`); a few records that somebody placed by hand are none.
  std::optional<Disagreement> disagreement() const;

  // The disagreement as a sentence for a condition, with what to do; empty if there is none.
  std::string Describe(std::string_view topic) const;

  static constexpr int64_t kFirst = 256, kStride = 16, kMismatches = 32;

 private:
  static constexpr int64_t kFade = 1024;  // samples after which all counts are halved
  static constexpr std::array<KeyHash, 3> kAll = {KeyHash::kMurmur2, KeyHash::kCrc32, KeyHash::kFnv1a};

  int64_t MatchesOf(KeyHash hash) const { return matches_[static_cast<size_t>(hash)]; }

  const KeyHash declared_;
  const int partitions_;
  int64_t fed_ = 0;
  int64_t samples_ = 0;
  std::array<int64_t, 3> matches_{};  // by KeyHash
};

// "Murmur2", as the manifest writes it.
std::string_view ToString(KeyHash hash);

}  // namespace millstream::log

#endif  // MILLSTREAM_COMMON_LOG_PARTITIONER_CHECK_H_
