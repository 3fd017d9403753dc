#include "sidecar/host/key_check.h"

#include "common/base/log_line.h"
#include "sidecar/engine/outputs.h"

namespace millstream::host {

log::KeyHash HashOf(spec::Partitioner partitioner) { return engine::KeyHashOf(partitioner); }

KeyCheck::KeyCheck(const std::vector<spec::InputSpec>& inputs, int partitions) : said_(inputs.size()) {
  for (const spec::InputSpec& input : inputs)
    inputs_.push_back({.topic = input.topic, .check = log::PartitionerCheck(HashOf(input.partitioner), partitions)});
}

void KeyCheck::Look(size_t input, Partition partition, const std::vector<log::Record>& records) {
  Input& of = inputs_[input];
  for (const log::Record& record : records) {
    if (record.key.has_value()) of.check.Feed(*record.key, partition);
  }
  const bool disagrees = of.check.disagreement().has_value();
  if (disagrees == of.disagrees) return;
  of.disagrees = disagrees;
  std::string text = disagrees ? of.check.Describe(of.topic) : std::string();
  if (disagrees) LogWarning("PartitionerMismatch", {{"detail", text}});
  absl::MutexLock lock(&mutex_);
  said_[input] = std::move(text);
}

std::vector<Condition> KeyCheck::Conditions() const {
  std::vector<Condition> conditions;
  absl::MutexLock lock(&mutex_);
  for (const std::string& text : said_) {
    if (!text.empty()) conditions.push_back({"PartitionerMismatch", text});
  }
  return conditions;
}

}  // namespace millstream::host
