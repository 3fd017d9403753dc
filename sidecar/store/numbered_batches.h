#ifndef MILLSTREAM_SIDECAR_STORE_NUMBERED_BATCHES_H_
#define MILLSTREAM_SIDECAR_STORE_NUMBERED_BATCHES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sidecar/store/task_store.h"

// For the tests of this folder: batches that are a function of their number, so that a state can be checked against the
// number in its positions, whoever wrote it and however it died.
namespace millstream::store {

struct BatchPlan {
  uint64_t seed = 0;
  int keys = 300;
  size_t value_bytes = 200;
};

// Two disk stores.
TaskIdentity BatchIdentity();
std::vector<StoreWrite> BatchWrites(const BatchPlan& plan, int64_t number);
Positions BatchPositions(int64_t number);
// The batch that `positions` are of; -1 if its parts contradict each other. 0: none yet.
int64_t BatchNumber(const Positions& positions);
// Rows of both stores after batches 1 to `number`.
std::vector<std::map<Bytes, Bytes>> BatchModel(const BatchPlan& plan, int64_t number);

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_NUMBERED_BATCHES_H_
