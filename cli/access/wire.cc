#include "cli/access/wire.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli::wire {
namespace {

// Little-endian integers and length-prefixed bytes; null has the length 2^32-1.
constexpr uint32_t kNull = 0xffffffffu;

void PutInteger(uint64_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}
void PutBytes(std::string_view value, std::string* out) {
  PutInteger(value.size(), 4, out);
  out->append(value);
}
void PutMaybe(const MaybeBytes& value, std::string* out) {
  if (value.has_value()) {
    PutBytes(*value, out);
  } else {
    PutInteger(kNull, 4, out);
  }
}
void PutHeaders(const Headers& headers, std::string* out) {
  PutInteger(headers.size(), 4, out);
  for (const Header& header : headers) {
    PutBytes(header.name, out);
    PutMaybe(header.value, out);
  }
}

// Reads what the functions above wrote. After the first thing that does not fit everything reads as empty; check ok().
class Decoder {
 public:
  explicit Decoder(std::string_view input) : input_(input) {}
  bool ok() const { return ok_; }
  bool done() const { return input_.empty(); }

  uint64_t Integer(int bytes) {
    if (input_.size() < static_cast<size_t>(bytes)) return Fail();
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= uint64_t{static_cast<uint8_t>(input_[i])} << (8 * i);
    input_.remove_prefix(bytes);
    return value;
  }
  // A number of elements of which each takes at least `element` bytes: checked before anything is allocated.
  size_t Count(size_t element) {
    const uint64_t count = Integer(4);
    if (count * element > input_.size()) return Fail();
    return count;
  }
  MaybeBytes Maybe() {
    const uint64_t length = Integer(4);
    if (length == kNull) return std::nullopt;
    if (length > input_.size()) {
      Fail();
      return std::nullopt;
    }
    Bytes value(input_.substr(0, length));
    input_.remove_prefix(length);
    return value;
  }
  Bytes Value() {
    MaybeBytes value = Maybe();
    if (!value.has_value()) Fail();
    return std::move(value).value_or(Bytes());
  }
  Headers ReadHeaders() {
    Headers headers(Count(8));
    for (Header& header : headers) {
      header.name = Value();
      header.value = Maybe();
    }
    return headers;
  }

 private:
  uint64_t Fail() {
    ok_ = false;
    input_ = {};
    return 0;
  }
  std::string_view input_;
  bool ok_ = true;
};

absl::Status Malformed() {
  return absl::DataLossError("control socket: malformed frame; both sides have to be the same version of millstream");
}

absl::Status Gone(std::string_view what) {
  return absl::UnavailableError(StrCat("control socket: ", what, "; the process that held the data folder has ended"));
}

// The address of the folder's socket, through an open descriptor of the folder.
absl::StatusOr<sockaddr_un> AddressIn(int folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = StrCat("/proc/self/fd/", folder, "/", kSocketName);
  MS_CHECK(path.size() < sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

absl::StatusOr<int> OpenFolder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return absl::NotFoundError(StrCat("folder ", folder, ": ", std::strerror(errno)));
  return descriptor;
}

}  // namespace

Connection::~Connection() { close(descriptor_); }

void Connection::Shutdown() { shutdown(descriptor_, SHUT_RDWR); }

absl::Status Connection::Send(FrameKind kind, std::string_view payload) {
  std::string head;
  PutInteger(payload.size() + 1, 4, &head);
  head.push_back(static_cast<char>(kind));
  if (payload.size() + 1 > kMaxFrame)
    return absl::InvalidArgumentError(
        StrCat("control socket: ", payload.size(), " bytes in one frame; the bound is ", kMaxFrame));
  iovec parts[2] = {{head.data(), head.size()}, {const_cast<char*>(payload.data()), payload.size()}};
  size_t part = 0;
  while (part < 2) {
    msghdr message{};
    message.msg_iov = parts + part;
    message.msg_iovlen = 2 - part;
    ssize_t sent = sendmsg(descriptor_, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Gone(std::strerror(errno));
    while (part < 2 && static_cast<size_t>(sent) >= parts[part].iov_len) sent -= parts[part++].iov_len;
    if (part < 2) {
      parts[part].iov_base = static_cast<char*>(parts[part].iov_base) + sent;
      parts[part].iov_len -= sent;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Frame> Connection::Receive() {
  const auto read_exactly = [this](char* to, size_t bytes) -> absl::Status {
    while (bytes > 0) {
      const ssize_t got = recv(descriptor_, to, bytes, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Gone(std::strerror(errno));
      if (got == 0) return Gone("end of stream");
      to += got;
      bytes -= got;
    }
    return absl::OkStatus();
  };
  char head[5];
  MS_RETURN_IF_ERROR(read_exactly(head, sizeof(head)));
  Decoder decoder(std::string_view(head, sizeof(head)));
  const uint64_t length = decoder.Integer(4);
  if (length == 0 || length > kMaxFrame) return Malformed();
  Frame frame;
  frame.kind = static_cast<FrameKind>(decoder.Integer(1));
  frame.payload.resize(length - 1);
  MS_RETURN_IF_ERROR(read_exactly(frame.payload.data(), frame.payload.size()));
  return frame;
}

absl::StatusOr<int> ConnectControlSocket(const std::string& folder) {
  MS_ASSIGN_OR_RETURN(const int folder_descriptor, OpenFolder(folder));
  absl::Cleanup close_folder = [folder_descriptor] { close(folder_descriptor); };
  MS_ASSIGN_OR_RETURN(const sockaddr_un address, AddressIn(folder_descriptor));
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return absl::ResourceExhaustedError(StrCat("control socket: ", std::strerror(errno)));
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
    close(descriptor);
    if (error == EACCES || error == EPERM) {
      return absl::PermissionDeniedError(
          StrCat("folder ", folder, " is held by a process of another user: ", std::strerror(error)));
    }
    return absl::NotFoundError(StrCat("nobody listens on ", folder, "/", kSocketName, ": ", std::strerror(error)));
  }
  return descriptor;
}

absl::StatusOr<int> ListenControlSocket(const std::string& folder) {
  MS_ASSIGN_OR_RETURN(const int folder_descriptor, OpenFolder(folder));
  absl::Cleanup close_folder = [folder_descriptor] { close(folder_descriptor); };
  MS_ASSIGN_OR_RETURN(const sockaddr_un address, AddressIn(folder_descriptor));
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return absl::ResourceExhaustedError(StrCat("control socket: ", std::strerror(errno)));
  struct stat existing;
  if (fstatat(folder_descriptor, kSocketName.data(), &existing, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISSOCK(existing.st_mode)) {
    unlink(address.sun_path);
  }
  if (bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(address.sun_path, 0600) != 0 || listen(descriptor, 64) != 0) {
    const int error = errno;
    close(descriptor);
    return absl::FailedPreconditionError(StrCat("cannot listen on ", folder, "/", kSocketName, ": ",
                                                std::strerror(error),
                                                "; put the data folder on a local file system (--data)"));
  }
  return descriptor;
}

std::string EncodeRecords(const std::vector<log::OutgoingRecord>& records) {
  // A batch is nearly always for one topic: the topic is written only where it changes.
  std::string out;
  PutInteger(records.size(), 4, &out);
  std::string_view topic;
  for (const log::OutgoingRecord& record : records) {
    const bool same = record.to.topic == topic;
    out.push_back(same ? 0 : 1);
    if (!same) PutBytes(record.to.topic, &out);
    topic = record.to.topic;
    PutInteger(static_cast<uint32_t>(record.to.partition.value()), 4, &out);
    PutInteger(static_cast<uint64_t>(record.timestamp_ms), 8, &out);
    PutMaybe(record.key, &out);
    PutMaybe(record.value, &out);
    PutHeaders(record.headers, &out);
  }
  return out;
}

absl::StatusOr<std::vector<log::OutgoingRecord>> DecodeRecords(std::string_view payload) {
  Decoder decoder(payload);
  std::vector<log::OutgoingRecord> records(decoder.Count(1 + 4 + 8 + 4 + 4 + 4));
  std::string topic;
  for (log::OutgoingRecord& record : records) {
    if (decoder.Integer(1) != 0) topic = decoder.Value();
    record.to = {topic, Partition(static_cast<int32_t>(decoder.Integer(4)))};
    record.timestamp_ms = static_cast<int64_t>(decoder.Integer(8));
    record.key = decoder.Maybe();
    record.value = decoder.Maybe();
    record.headers = decoder.ReadHeaders();
  }
  if (!decoder.ok() || !decoder.done()) return Malformed();
  return records;
}

std::string EncodeChunk(const ConsumedChunk& chunk) {
  std::string out;
  out.push_back(chunk.at_end ? 1 : 0);
  PutInteger(chunk.positions.size(), 4, &out);
  for (const auto& [partition, next] : chunk.positions) {
    PutInteger(static_cast<uint32_t>(partition.value()), 4, &out);
    PutInteger(static_cast<uint64_t>(next.value()), 8, &out);
  }
  PutInteger(chunk.records.size(), 4, &out);
  for (const ConsumedRecord& consumed : chunk.records) {
    PutInteger(static_cast<uint32_t>(consumed.partition.value()), 4, &out);
    PutInteger(static_cast<uint64_t>(consumed.record.offset.value()), 8, &out);
    PutInteger(static_cast<uint64_t>(consumed.record.timestamp_ms), 8, &out);
    PutMaybe(consumed.record.key, &out);
    PutMaybe(consumed.record.value, &out);
    PutHeaders(consumed.record.headers, &out);
  }
  return out;
}

absl::StatusOr<ConsumedChunk> DecodeChunk(std::string_view payload) {
  Decoder decoder(payload);
  ConsumedChunk chunk;
  chunk.at_end = decoder.Integer(1) != 0;
  chunk.positions.resize(decoder.Count(4 + 8));
  for (auto& [partition, next] : chunk.positions) {
    partition = Partition(static_cast<int32_t>(decoder.Integer(4)));
    next = Offset(static_cast<int64_t>(decoder.Integer(8)));
  }
  chunk.records.resize(decoder.Count(4 + 8 + 8 + 4 + 4 + 4));
  for (ConsumedRecord& consumed : chunk.records) {
    consumed.partition = Partition(static_cast<int32_t>(decoder.Integer(4)));
    consumed.record.offset = Offset(static_cast<int64_t>(decoder.Integer(8)));
    consumed.record.timestamp_ms = static_cast<int64_t>(decoder.Integer(8));
    consumed.record.key = decoder.Maybe();
    consumed.record.value = decoder.Maybe();
    consumed.record.headers = decoder.ReadHeaders();
  }
  if (!decoder.ok() || !decoder.done()) return Malformed();
  return chunk;
}

}  // namespace millstream::cli::wire
