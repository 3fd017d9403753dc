#include "cli/access/remote_access.h"

#include <utility>

#include "cli/access/call_json.h"
#include "cli/access/wire.h"
#include "common/base/status.h"

namespace millstream::cli {
namespace {

using call_json::Json;
using wire::FrameKind;

absl::StatusOr<Json> ReadReply(wire::Connection* connection) {
  MS_ASSIGN_OR_RETURN(const wire::Frame frame, connection->Receive());
  if (frame.kind != FrameKind::kReply) return absl::InternalError("control socket: reply expected");
  try {
    return call_json::ParseReply(frame.payload);
  } catch (const Json::exception& error) {
    return absl::InternalError(StrCat("control socket: unreadable reply: ", error.what()));
  }
}

class RemoteSink : public RecordSink {
 public:
  explicit RemoteSink(int descriptor) : connection_(descriptor) {}
  absl::Status Append(std::vector<log::OutgoingRecord> records) override {
    return connection_.Send(FrameKind::kProduce, wire::EncodeRecords(records));
  }
  absl::Status Flush() override {
    MS_RETURN_IF_ERROR(connection_.Send(FrameKind::kFlush, ""));
    return ReadReply(&connection_).status();
  }

 private:
  wire::Connection connection_;
};

class RemoteSource : public RecordSource {
 public:
  explicit RemoteSource(int descriptor) : connection_(descriptor) {}

  absl::Status Open(const ConsumeRequest& request) {
    MS_RETURN_IF_ERROR(connection_.Send(FrameKind::kConsume, call_json::Dump(call_json::FromConsumeRequest(request))));
    return ReadReply(&connection_).status();
  }

  absl::StatusOr<ConsumedChunk> Next(absl::Duration wait) override {
    const auto wait_ms = static_cast<uint32_t>(absl::ToInt64Milliseconds(wait));
    std::string payload;
    for (int i = 0; i < 4; ++i) payload.push_back(static_cast<char>(wait_ms >> (8 * i)));
    MS_RETURN_IF_ERROR(connection_.Send(FrameKind::kNext, payload));
    MS_ASSIGN_OR_RETURN(const wire::Frame frame, connection_.Receive());
    if (frame.kind == FrameKind::kChunk) return wire::DecodeChunk(frame.payload);
    try {
      const absl::StatusOr<Json> reply = call_json::ParseReply(frame.payload);
      return reply.ok() ? absl::InternalError("control socket: records expected") : reply.status();
    } catch (const Json::exception& error) {
      return absl::InternalError(StrCat("control socket: unreadable reply: ", error.what()));
    }
  }

 private:
  wire::Connection connection_;
};

class RemoteAccess : public LogAccess {
 public:
  RemoteAccess(std::string folder, int descriptor) : folder_(std::move(folder)), connection_(descriptor) {}

  absl::Status Greet() {
    MS_ASSIGN_OR_RETURN(const Json hello, Call("hello", Json::object()));
    try {
      const int version = hello.at("version");
      holder_ = StrCat(hello.at("program").get<std::string>(), " (pid ", hello.at("pid").get<int>(), ")");
      if (version == wire::kVersion) return absl::OkStatus();
    } catch (const Json::exception&) {
    }
    return absl::FailedPreconditionError(
        StrCat("folder ", folder_, " is held by ", holder_.empty() ? "a process" : holder_,
               " of another version of millstream; use the same version in both terminals"));
  }

  std::string Holder() const override { return holder_; }

  absl::StatusOr<std::vector<log::TopicInfo>> ListTopics() override {
    MS_ASSIGN_OR_RETURN(const Json list, Call("topics.list", Json::object()));
    return Convert<std::vector<log::TopicInfo>>([&] {
      std::vector<log::TopicInfo> topics;
      for (const Json& topic : list) topics.push_back(call_json::ToTopicInfo(topic));
      return topics;
    });
  }
  absl::StatusOr<TopicDetail> DescribeTopic(const std::string& topic) override {
    MS_ASSIGN_OR_RETURN(const Json detail, Call("topics.describe", {{"topic", topic}}));
    return Convert<TopicDetail>([&] { return call_json::ToTopicDetail(detail); });
  }
  absl::Status CreateTopic(const log::TopicSpec& spec) override {
    return Call("topics.create", call_json::FromTopicSpec(spec)).status();
  }
  absl::Status DeleteTopic(const std::string& topic) override {
    return Call("topics.delete", {{"topic", topic}}).status();
  }

  absl::StatusOr<std::unique_ptr<RecordSink>> OpenSink() override {
    MS_ASSIGN_OR_RETURN(const int descriptor, wire::ConnectControlSocket(folder_));
    return std::make_unique<RemoteSink>(descriptor);
  }
  absl::StatusOr<std::unique_ptr<RecordSource>> OpenSource(const ConsumeRequest& request) override {
    MS_ASSIGN_OR_RETURN(const int descriptor, wire::ConnectControlSocket(folder_));
    auto source = std::make_unique<RemoteSource>(descriptor);
    MS_RETURN_IF_ERROR(source->Open(request));
    return source;
  }

  absl::StatusOr<std::vector<StateRow>> GetState(const StateQuery& query) override {
    MS_ASSIGN_OR_RETURN(const Json list, Call("state.get", call_json::FromStateQuery(query)));
    return Convert<std::vector<StateRow>>([&] { return call_json::ToStateRows(list); });
  }
  absl::StatusOr<std::vector<StateRow>> ScanState(const StateQuery& query) override {
    MS_ASSIGN_OR_RETURN(const Json list, Call("state.scan", call_json::FromStateQuery(query)));
    return Convert<std::vector<StateRow>>([&] { return call_json::ToStateRows(list); });
  }

  absl::StatusOr<std::vector<TaskRow>> ListTasks(const std::string& processor) override {
    MS_ASSIGN_OR_RETURN(const Json list, Call("tasks.list", {{"processor", processor}}));
    return Convert<std::vector<TaskRow>>([&] {
      std::vector<TaskRow> rows;
      for (const Json& row : list) rows.push_back(call_json::ToTaskRow(row));
      return rows;
    });
  }
  absl::StatusOr<std::vector<int32_t>> RestartTasks(const std::string& processor,
                                                    const std::vector<int32_t>& tasks) override {
    MS_ASSIGN_OR_RETURN(const Json list, Call("tasks.restart", {{"processor", processor}, {"tasks", tasks}}));
    return Convert<std::vector<int32_t>>([&] { return list.get<std::vector<int32_t>>(); });
  }
  absl::Status SetPaused(const std::string& processor, bool paused) override {
    return Call("tasks.pause", {{"processor", processor}, {"paused", paused}}).status();
  }

  absl::StatusOr<std::string> RunTool(const std::string& tool, const std::string& request) override {
    MS_ASSIGN_OR_RETURN(const Json answer, Call("tool", {{"tool", tool}, {"request", request}}));
    return Convert<std::string>([&] { return answer.get<std::string>(); });
  }

 private:
  absl::StatusOr<Json> Call(const std::string& method, const Json& params) {
    MS_RETURN_IF_ERROR(connection_.Send(FrameKind::kCall, call_json::Dump({{"method", method}, {"params", params}})));
    return ReadReply(&connection_);
  }

  template <typename T, typename F>
  static absl::StatusOr<T> Convert(F convert) {
    try {
      return convert();
    } catch (const Json::exception& error) {
      return absl::InternalError(StrCat("control socket: unreadable reply: ", error.what()));
    }
  }

  const std::string folder_;
  wire::Connection connection_;
  std::string holder_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LogAccess>> ConnectRemoteAccess(const std::string& folder) {
  MS_ASSIGN_OR_RETURN(const int descriptor, wire::ConnectControlSocket(folder));
  auto access = std::make_unique<RemoteAccess>(folder, descriptor);
  MS_RETURN_IF_ERROR(access->Greet());
  return access;
}

}  // namespace millstream::cli
