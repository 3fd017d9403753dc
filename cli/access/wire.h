#ifndef MILLSTREAM_CLI_ACCESS_WIRE_H_
#define MILLSTREAM_CLI_ACCESS_WIRE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/access/log_access.h"

// The control protocol between `millstream` commands and the process that holds a data folder: frames over a Unix
// stream socket, private to one version of the program (both sides are the same binary, else the greeting says so).
//
//   frame = u32 little-endian length of the rest | u8 kind | payload
//
// kCall is answered by one kReply. kProduce is not answered: a failure of it is the answer to the next kFlush.
namespace millstream::cli::wire {

inline constexpr uint32_t kMaxFrame = 64u
                                      << 20;  // a batch is about 1 MiB; one record may be as large as its topic allows
inline constexpr int kVersion = 1;

enum class FrameKind : uint8_t {
  kCall = 1,     // JSON {"method": str, "params": {...}}
  kReply = 2,    // JSON {"ok": value} or {"error": {"code": int, "message": str}}
  kProduce = 3,  // records, see EncodeRecords
  kFlush = 4,    // empty; answered by kReply once everything is durable
  kConsume = 5,  // JSON, a ConsumeRequest; answered by kReply; from then on the connection serves kNext
  kNext = 6,     // u32 milliseconds to wait; answered by kChunk or, on error, kReply
  kChunk = 7,    // see EncodeChunk
};

struct Frame {
  FrameKind kind = FrameKind::kCall;
  std::string payload;
};

// A connected stream socket. Blocking; one thread writes, one reads (they may be two).
class Connection {
 public:
  explicit Connection(int descriptor) : descriptor_(descriptor) {}
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // UNAVAILABLE when the other side is gone.
  absl::Status Send(FrameKind kind, std::string_view payload);
  absl::StatusOr<Frame> Receive();
  // Wakes a thread blocked in Send or Receive; both fail from now on. Any thread.
  void Shutdown();

 private:
  const int descriptor_;
};

// The socket of a data folder. Works for folders of any path length: the folder is opened and the socket addressed
// through /proc/self/fd (a socket address has 107 bytes).
inline constexpr std::string_view kSocketName = "control.sock";
absl::StatusOr<int> ConnectControlSocket(const std::string& folder);  // NOT_FOUND: nobody listens there
absl::StatusOr<int> ListenControlSocket(
    const std::string& folder);  // replaces a stale socket: call only while holding the folder

std::string EncodeRecords(const std::vector<log::OutgoingRecord>& records);
absl::StatusOr<std::vector<log::OutgoingRecord>> DecodeRecords(std::string_view payload);

std::string EncodeChunk(const ConsumedChunk& chunk);
absl::StatusOr<ConsumedChunk> DecodeChunk(std::string_view payload);

}  // namespace millstream::cli::wire

#endif  // MILLSTREAM_CLI_ACCESS_WIRE_H_
