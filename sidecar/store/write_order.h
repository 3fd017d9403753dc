#ifndef MILLSTREAM_SIDECAR_STORE_WRITE_ORDER_H_
#define MILLSTREAM_SIDECAR_STORE_WRITE_ORDER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "sidecar/store/task_store.h"

// Internal to sidecar/store.
namespace millstream::store {

// The numbers of the writes by store and key; of one key in the order they came.
std::vector<uint32_t> OrderOf(absl::Span<const StoreWrite> writes);

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_WRITE_ORDER_H_
