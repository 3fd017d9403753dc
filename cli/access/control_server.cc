#include "cli/access/control_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "cli/access/call_json.h"
#include "cli/access/wire.h"
#include "common/base/log_line.h"
#include "common/base/status.h"

namespace millstream::cli {
namespace {

using call_json::Json;
using wire::FrameKind;

// One client: a loop over its frames until it hangs up or the connection is shut down.
class Session {
 public:
  Session(int descriptor, std::string program, LogAccess* access)
      : connection_(descriptor), program_(std::move(program)), access_(access) {}

  void Shutdown() { connection_.Shutdown(); }

  void Refuse(const absl::Status& status) { (void)connection_.Send(FrameKind::kReply, call_json::ErrorReply(status)); }

  void Serve() {
    while (true) {
      absl::StatusOr<wire::Frame> frame = connection_.Receive();
      if (!frame.ok()) return;
      absl::Status sent;
      try {
        sent = Answer(*frame);
      } catch (const Json::exception& error) {
        sent = connection_.Send(
            FrameKind::kReply,
            call_json::ErrorReply(absl::InvalidArgumentError(StrCat(
                "control socket: unreadable request: ", error.what(), "; both sides have to be the same version"))));
      }
      if (!sent.ok()) return;
    }
  }

 private:
  absl::Status Reply(const absl::StatusOr<Json>& result) {
    return connection_.Send(FrameKind::kReply,
                            result.ok() ? call_json::OkReply(*result) : call_json::ErrorReply(result.status()));
  }

  absl::Status Answer(const wire::Frame& frame) {
    switch (frame.kind) {
      case FrameKind::kCall: {
        const Json call = Json::parse(frame.payload);
        return Reply(Call(call.at("method").get<std::string>(), call.at("params")));
      }
      case FrameKind::kProduce:
        Produce(frame.payload);
        return absl::OkStatus();
      case FrameKind::kFlush:
        return Reply(Flush());
      case FrameKind::kConsume:
        return Reply(Consume(call_json::ToConsumeRequest(Json::parse(frame.payload))));
      case FrameKind::kNext:
        return Next(frame.payload);
      default:
        return Reply(absl::UnimplementedError(StrCat("control socket: frame kind ", static_cast<int>(frame.kind),
                                                     "; both sides have to be the same version of millstream")));
    }
  }

  absl::StatusOr<Json> Call(const std::string& method, const Json& params) {
    if (method == "hello") return Json{{"version", wire::kVersion}, {"program", program_}, {"pid", getpid()}};
    if (method == "topics.list") {
      MS_ASSIGN_OR_RETURN(const std::vector<log::TopicInfo> topics, access_->ListTopics());
      Json list = Json::array();
      for (const log::TopicInfo& topic : topics) list.push_back(call_json::FromTopicInfo(topic));
      return list;
    }
    if (method == "topics.describe") {
      MS_ASSIGN_OR_RETURN(const TopicDetail detail, access_->DescribeTopic(params.at("topic").get<std::string>()));
      return call_json::FromTopicDetail(detail);
    }
    if (method == "topics.create") {
      MS_RETURN_IF_ERROR(access_->CreateTopic(call_json::ToTopicSpec(params)));
      return Json();
    }
    if (method == "topics.delete") {
      MS_RETURN_IF_ERROR(access_->DeleteTopic(params.at("topic").get<std::string>()));
      return Json();
    }
    if (method == "state.get") {
      MS_ASSIGN_OR_RETURN(const std::vector<StateRow> rows, access_->GetState(call_json::ToStateQuery(params)));
      return call_json::FromStateRows(rows);
    }
    if (method == "state.scan") {
      MS_ASSIGN_OR_RETURN(const std::vector<StateRow> rows, access_->ScanState(call_json::ToStateQuery(params)));
      return call_json::FromStateRows(rows);
    }
    if (method == "tasks.list") {
      MS_ASSIGN_OR_RETURN(const std::vector<TaskRow> rows,
                          access_->ListTasks(params.at("processor").get<std::string>()));
      Json list = Json::array();
      for (const TaskRow& row : rows) list.push_back(call_json::FromTaskRow(row));
      return list;
    }
    if (method == "tasks.restart") {
      MS_ASSIGN_OR_RETURN(const std::vector<int32_t> tasks,
                          access_->RestartTasks(params.at("processor").get<std::string>(),
                                                params.at("tasks").get<std::vector<int32_t>>()));
      return Json(tasks);
    }
    if (method == "tasks.pause") {
      const absl::Status paused =
          access_->SetPaused(params.at("processor").get<std::string>(), params.at("paused").get<bool>());
      if (!paused.ok()) return paused;
      return Json();
    }
    if (method == "tool") {
      MS_ASSIGN_OR_RETURN(std::string answer, access_->RunTool(params.at("tool").get<std::string>(),
                                                               params.at("request").get<std::string>()));
      return Json(std::move(answer));
    }
    return absl::UnimplementedError(
        StrCat("control socket: no method ", method, "; both sides have to be the same version of millstream"));
  }

  void Produce(const std::string& payload) {
    if (!produce_error_.ok()) return;  // told at the next flush; what follows a failure must not overtake it
    produce_error_ = [&]() -> absl::Status {
      MS_ASSIGN_OR_RETURN(std::vector<log::OutgoingRecord> records, wire::DecodeRecords(payload));
      if (sink_ == nullptr) {
        MS_ASSIGN_OR_RETURN(sink_, access_->OpenSink());
      }
      return sink_->Append(std::move(records));
    }();
  }

  absl::StatusOr<Json> Flush() {
    absl::Status status = std::exchange(produce_error_, absl::OkStatus());
    if (status.ok() && sink_ != nullptr) status = sink_->Flush();
    if (!status.ok()) return status;
    return Json();
  }

  absl::StatusOr<Json> Consume(const ConsumeRequest& request) {
    MS_ASSIGN_OR_RETURN(source_, access_->OpenSource(request));
    return Json();
  }

  absl::Status Next(const std::string& payload) {
    if (source_ == nullptr || payload.size() != 4)
      return Reply(absl::InvalidArgumentError("control socket: next without consume"));
    uint32_t wait_ms = 0;
    for (int i = 0; i < 4; ++i) wait_ms |= uint32_t{static_cast<uint8_t>(payload[i])} << (8 * i);
    // Bounded, so that a client that has gone is noticed.
    absl::StatusOr<ConsumedChunk> chunk = source_->Next(absl::Milliseconds(std::min<uint32_t>(wait_ms, 1000)));
    if (!chunk.ok()) return Reply(chunk.status());
    return connection_.Send(FrameKind::kChunk, wire::EncodeChunk(*chunk));
  }

  wire::Connection connection_;
  const std::string program_;
  LogAccess* const access_;
  std::unique_ptr<RecordSink> sink_;
  absl::Status produce_error_;
  std::unique_ptr<RecordSource> source_;
};

}  // namespace

class ControlServer::Impl {
 public:
  Impl(int descriptor, std::string folder, std::string program, LogAccess* access)
      : listener_(descriptor),
        stop_event_(eventfd(0, EFD_CLOEXEC)),
        socket_path_(StrCat(folder, "/", wire::kSocketName)),
        program_(std::move(program)),
        access_(access),
        acceptor_([this] { Accept(); }) {}

  ~Impl() {
    const uint64_t one = 1;
    (void)!write(stop_event_, &one, sizeof(one));
    acceptor_.join();
    std::list<Client> clients;
    {
      std::lock_guard lock(mutex_);
      clients.swap(clients_);
      for (Client& client : clients) client.session->Shutdown();
    }
    for (Client& client : clients) client.thread.join();
    unlink(socket_path_.c_str());
    close(listener_);
    close(stop_event_);
  }

 private:
  struct Client {
    std::unique_ptr<Session> session;
    std::unique_ptr<std::atomic<bool>> ended;
    std::thread thread;
  };

  void Accept() {
    while (true) {
      pollfd waiting[2] = {{listener_, POLLIN, 0}, {stop_event_, POLLIN, 0}};
      if (poll(waiting, 2, -1) < 0) continue;  // EINTR
      if (waiting[1].revents != 0) return;
      const int descriptor = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (descriptor < 0) continue;
      Admit(descriptor);
    }
  }

  void Admit(int descriptor) {
    std::lock_guard lock(mutex_);
    clients_.remove_if([](Client& client) {
      if (!client.ended->load()) return false;
      client.thread.join();
      return true;
    });
    auto session = std::make_unique<Session>(descriptor, program_, access_);
    if (clients_.size() >= kMaxConnections) {
      session->Refuse(absl::ResourceExhaustedError(
          StrCat("the data folder already serves ", kMaxConnections, " commands; end one of them")));
      return;
    }
    Client client{std::move(session), std::make_unique<std::atomic<bool>>(false), {}};
    client.thread = std::thread([session = client.session.get(), ended = client.ended.get()] {
      session->Serve();
      session->Shutdown();
      ended->store(true);
    });
    clients_.push_back(std::move(client));
  }

  const int listener_;
  const int stop_event_;
  const std::string socket_path_;
  const std::string program_;
  LogAccess* const access_;
  std::mutex mutex_;
  std::list<Client> clients_;  // guarded by mutex_
  std::thread acceptor_;       // last: starts when everything else is there
};

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(const std::string& folder,
                                                                    const std::string& program, LogAccess* access) {
  MS_ASSIGN_OR_RETURN(const int descriptor, wire::ListenControlSocket(folder));
  return std::unique_ptr<ControlServer>(new ControlServer(std::make_unique<Impl>(descriptor, folder, program, access)));
}

ControlServer::ControlServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlServer::~ControlServer() = default;

}  // namespace millstream::cli
