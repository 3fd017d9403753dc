#ifndef MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_STATE_H_
#define MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_STATE_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// What a handler reads and writes, as bytes: stores, joins, lookups, windows, sessions. A Context gives these out;
/// they are valid while its handler runs, on its thread, and so is all that they give.
///
/// Errors of all of them: InvalidArgument for a name that the manifest does not declare (the message lists those it
/// does) or a record without key; Unavailable when the sidecar could not read; Cancelled when the batch is void. Return
/// them.
namespace millstream::worker {

/// Bytes, or null (nullopt), which differs from empty.
using MaybeView = std::optional<std::string_view>;

class BatchRun;  // private

/// What Table::Scan gives.
struct ScanOptions {
  /// Keys from here on, by the order of their bytes; nullopt: from the beginning.
  MaybeView from = {};
  /// Keys before this one; nullopt: to the end.
  MaybeView to = {};
  /// Rows at most; 0: all.
  uint32_t limit = 0;
  /// From the end.
  bool reverse = false;
};

/// Keys and values to read: a join (a topic as a table, partitioned like the inputs), a lookup (a whole topic, the same
/// for every task), or a store. Without a key the methods mean the key of the record being handled, and fail for a
/// record without one. Of a join that value came with the batch and is as old as the batch; others, and lookups, are
/// asked for. Reads of a store see the writes made before in the same batch.
class Table {
 public:
  /// The value, nullopt where there is none.
  absl::StatusOr<MaybeView> Get();
  /// The same of another key of this task.
  absl::StatusOr<MaybeView> Get(std::string_view key);
  /// The values of several keys, in their order, in as few round trips as possible.
  absl::StatusOr<std::vector<MaybeView>> GetMany(const std::vector<std::string_view>& keys);
  /// Keys and values of a range, the batch's own writes included.
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Scan(const ScanOptions& options = {});

 protected:
  friend class Context;
  /// By Context.
  Table(BatchRun* run, int id) : run_(run), id_(id) {}
  BatchRun* run_;  ///< not owned
  int id_;         ///< -1: not declared; the run knows the name asked for
};

/// A store of type KeyValue.
class Store : public Table {
 public:
  /// Writes; the bytes are copied.
  absl::Status Put(std::string_view value);
  /// Writes the value of another key of this task.
  absl::Status Put(std::string_view key, std::string_view value);
  /// Deletes; fine where there is nothing.
  absl::Status Delete();
  /// Deletes another key of this task.
  absl::Status Delete(std::string_view key);

 private:
  friend class Context;
  using Table::Table;
};

/// A window or a session, in milliseconds since 1970. A window is from `start_ms` up to before `end_ms`; a session has
/// its first and its last record there.
struct Window {
  int64_t start_ms = 0;  ///< the beginning
  int64_t end_ms = 0;    ///< the end
  /// By the beginning, then the end.
  friend auto operator<=>(const Window&, const Window&) = default;
};

/// A store of type Window: a value per key and window.
class WindowStore {
 public:
  /// The open windows of the record: one, or several if they overlap, in the order of their beginnings; none where the
  /// record is late for all of them, or has no key. In a handler of closing windows the one that closes.
  absl::StatusOr<std::span<const Window>> Windows();
  /// The value of a window of the record's own key, nullopt where there is none. One that is not among Windows() is
  /// asked for.
  absl::StatusOr<MaybeView> Get(const Window& window);
  /// The value of the window of any key of this task that begins at `start_ms`.
  absl::StatusOr<MaybeView> Get(std::string_view key, int64_t start_ms);
  /// Writes the value of a window of the record's own key; the bytes are copied.
  absl::Status Put(const Window& window, std::string_view value);
  /// Forgets it. A window without a value is not told when it closes.
  absl::Status Delete(const Window& window);

 private:
  friend class Context;
  WindowStore(BatchRun* run, int id) : run_(run), id_(id) {}
  BatchRun* run_;
  int id_;
};

/// A store of type Session: a value per key and session. A record belongs to one session, merged with all that it
/// connects. A session that the handler does not write keeps its value; what becomes of several values
/// App::MergeSessions says, else the record fails.
class SessionStore {
 public:
  /// The bounds of the record's session, the record included; nullopt where it is late, or has no key.
  absl::StatusOr<std::optional<Window>> Session();
  /// The values of the sessions that the record's is made of, oldest first: none for a new one, several where the
  /// record connects some. After Put the one that was written. A session whose value is empty has none.
  absl::StatusOr<std::vector<std::string_view>> Values();
  /// Writes the value of the record's session; the bytes are copied. InvalidArgument where the record has no session.
  absl::Status Put(std::string_view value);
  /// Forgets what the session had: it goes on without a value.
  absl::Status Delete() { return Put({}); }

 private:
  friend class Context;
  SessionStore(BatchRun* run, int id) : run_(run), id_(id) {}
  BatchRun* run_;
  int id_;
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_STATE_H_
