#include "sidecar/store/numbered_batches.h"

#include <random>

#include "common/base/strings.h"

namespace millstream::store {

TaskIdentity BatchIdentity() {
  const auto disk = [](const std::string& name) {
    return StoreDefinition{name, StoreDefinition::Backend::kDisk, name + "-changelog", "id-of-" + name};
  };
  return {"batches", TaskId(1), {disk("first"), disk("second")}};
}

std::vector<StoreWrite> BatchWrites(const BatchPlan& plan, int64_t number) {
  std::mt19937_64 random(plan.seed * 1'000'003 + static_cast<uint64_t>(number));
  std::vector<StoreWrite> writes;
  const int count = static_cast<int>(1 + random() % 12);
  for (int i = 0; i < count; ++i) {
    const Bytes key = StrCat("key-", random() % plan.keys);
    MaybeBytes value;
    if (random() % 8 != 0) {
      value = StrCat(number, ":", i, ":");
      while (value->size() < plan.value_bytes) value->push_back(static_cast<char>(random()));
    }
    writes.push_back({0, key, value});
    // The second store trails the first by a transformation, so that one of them alone on disk is noticed.
    if (random() % 2 == 0) writes.push_back({1, StrCat("copy of ", key), value});
  }
  return writes;
}

Positions BatchPositions(int64_t number) {
  Positions positions;
  positions.changelog[0] = Offset(number * 3);
  positions.changelog[1] = Offset(number * 2);
  positions.inputs["orders"] = Offset(number);
  positions.wall_ms = number + 1000;
  return positions;
}

int64_t BatchNumber(const Positions& positions) {
  if (positions.changelog.empty() && positions.inputs.empty()) return 0;
  const auto input = positions.inputs.find("orders");
  if (input == positions.inputs.end()) return -1;
  const int64_t number = input->second.value();
  const Positions expected = BatchPositions(number);
  const bool equal = positions.changelog == expected.changelog && positions.inputs == expected.inputs &&
                     positions.wall_ms == expected.wall_ms;
  return equal ? number : -1;
}

std::vector<std::map<Bytes, Bytes>> BatchModel(const BatchPlan& plan, int64_t number) {
  std::vector<std::map<Bytes, Bytes>> model(2);
  for (int64_t n = 1; n <= number; ++n) {
    for (StoreWrite& write : BatchWrites(plan, n)) {
      if (write.value) {
        model[write.store][write.key] = *std::move(write.value);
      } else {
        model[write.store].erase(write.key);
      }
    }
  }
  return model;
}

}  // namespace millstream::store
