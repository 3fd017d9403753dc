#include "common/log/partitioner_check.h"

#include "common/base/strings.h"

namespace millstream::log {

std::string_view ToString(KeyHash hash) {
  switch (hash) {
    case KeyHash::kMurmur2:
      return "Murmur2";
    case KeyHash::kCrc32:
      return "Crc32";
    case KeyHash::kFnv1a:
      return "Fnv1a";
  }
  return "?";
}

void PartitionerCheck::Feed(std::string_view key, Partition partition) {
  if (key.empty() || partitions_ == 1) return;
  if (++fed_ > kFirst && fed_ % kStride != 0) return;
  ++samples_;
  for (const KeyHash hash : kAll) {
    if (PartitionOfKey(hash, key, partitions_) == partition) ++matches_[static_cast<size_t>(hash)];
  }
  if (samples_ < kFade) return;
  samples_ /= 2;
  for (int64_t& matches : matches_) matches /= 2;
}

std::optional<PartitionerCheck::Disagreement> PartitionerCheck::disagreement() const {
  Disagreement found{.samples = samples_, .mismatches = samples_ - MatchesOf(declared_), .fits = std::nullopt};
  if (found.mismatches < kMismatches || found.mismatches * 4 <= samples_) return std::nullopt;
  for (const KeyHash hash : kAll) {
    // Nearly all: 19 of 20.
    if (hash != declared_ && MatchesOf(hash) * 20 >= samples_ * 19) found.fits = hash;
  }
  return found;
}

std::string PartitionerCheck::Describe(std::string_view topic) const {
  const auto found = disagreement();
  if (!found) return "";
  std::string text = StrCat("topic ", topic, ": ", found->mismatches, " of ", found->samples,
                            " sampled keys do not lie in the partition that its declared partitioner ",
                            ToString(declared_), " gives for ", partitions_, " partitions. ");
  if (found->fits) {
    StrAppend(&text, ToString(*found->fits), " explains them: declare partitioner: ", ToString(*found->fits),
              " for this topic");
  } else {
    StrAppend(&text,
              "None that Millstream knows explains them: its producers choose partitions in another way, or the topic "
              "once had fewer partitions. Write it anew to a topic of its own");
  }
  return text;
}

}  // namespace millstream::log
