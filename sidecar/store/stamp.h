#ifndef MILLSTREAM_SIDECAR_STORE_STAMP_H_
#define MILLSTREAM_SIDECAR_STORE_STAMP_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "sidecar/store/task_store.h"

// Internal to sidecar/store: what the default column family of a task's database holds, beside the state.
namespace millstream::store {

// Raised whenever an older build could misread what a newer one wrote. See docs/internals/state-on-disk.md.
inline constexpr int kFormatVersion = 1;

inline constexpr std::string_view kStampKey = "stamp";          // whose state it is; written once
inline constexpr std::string_view kPositionsKey = "positions";  // how far it has come; in every batch

// The identity as JSON. Only disk stores are in it: memory stores leave nothing on disk. Independent of their order.
std::string EncodeStamp(const TaskIdentity& identity);
// Empty if `found` is the stamp of `identity`, else one sentence that says what differs.
std::string DifferenceFromStamp(std::string_view found, const TaskIdentity& identity);

// Positions of disk stores that have a changelog; by name, since indices follow the order in the manifest.
std::string EncodePositions(const Positions& positions, const TaskIdentity& identity);
// DATA_LOSS if it cannot be read.
absl::StatusOr<Positions> DecodePositions(std::string_view text, const TaskIdentity& identity);

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_STAMP_H_
