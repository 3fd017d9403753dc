#include "sidecar/server/http_endpoints.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/server/http_endpoints_json.h"
#include "sidecar/server/http_endpoints_query.h"
#include "sidecar/server/http_endpoints_scan.h"

namespace millstream::server {
namespace {

// A range holds a page of 1 MiB and a few partial ones while it is merged.
constexpr int kMaxRangesAtOnce = 4;

constexpr char kPaths[] =
    "/healthz, /readyz, /metrics, /v1/tasks, /v1/stores, /v1/stores/{store}/keys/{key}, /v1/stores/{store}/range";

http::Response ProbeResponse(const ProbeAnswer& answer) {
  std::string text = answer.reason.empty() ? (answer.ok ? "ok" : "not ready") : answer.reason;
  return {answer.ok ? 200 : 503, "text/plain; charset=utf-8", std::move(text) + "\n", {}};
}

// Answers requests; shared with the answers that are still to come.
class Router : public std::enable_shared_from_this<Router> {
 public:
  Router(QueryBackend* backend, const MetricsRegistry* metrics, const Clock* clock)
      : calls_(std::make_shared<BackendCalls>(backend)), metrics_(metrics), clock_(clock) {}

  void Handle(const http::Request& request, const http::Responder& respond) {
    const bool running = calls_->Run([&](QueryBackend* backend) { Route(backend, request, respond); });
    if (!running) respond(ErrorResponse(absl::UnavailableError("the sidecar is stopping")));
  }
  void Stop() { calls_->Stop(); }

 private:
  void Route(QueryBackend* backend, const http::Request& request, const http::Responder& respond) {
    if (request.method != "GET" && request.method != "HEAD") {
      http::Response refused =
          ErrorResponse(absl::InvalidArgumentError(StrCat(request.method, " is not possible here")), "use GET");
      refused.status = 405;
      refused.headers.emplace_back("Allow", "GET, HEAD");
      return respond(std::move(refused));
    }
    const std::vector<std::string>& path = request.segments;
    if (path.size() >= 3 && path[0] == "v1" && path[1] == "stores") return RouteStore(backend, request, respond);
    const std::string name = path.size() == 1 ? path[0] : path.size() == 2 ? StrCat(path[0], "/", path[1]) : "";
    if (name == "healthz" || name == "readyz")
      return respond(ProbeResponse(name == "healthz" ? backend->Health() : backend->Readiness()));
    if (name == "metrics") return respond({200, "text/plain; version=0.0.4; charset=utf-8", metrics_->Expose(), {}});
    if (name == "v1/tasks") return RespondChecked(request, respond, [&] { return TasksResponse(backend->Tasks()); });
    if (name == "v1/stores") return RespondChecked(request, respond, [&] { return StoresResponse(backend->Stores()); });
    RespondNoSuchPath(request, respond);
  }

  template <typename Make>
  void RespondChecked(const http::Request& request, const http::Responder& respond, const Make& make) {
    const absl::Status checked = CheckParameters(request, {});
    respond(checked.ok() ? make() : ErrorResponse(checked));
  }

  void RespondNoSuchPath(const http::Request& request, const http::Responder& respond) {
    respond(ErrorResponse(absl::NotFoundError(StrCat("there is no ", Readable(request.path, 200))),
                          StrCat("there are: ", std::string(kPaths))));
  }

  // /v1/stores/{store}/...
  void RouteStore(QueryBackend* backend, const http::Request& request, const http::Responder& respond) {
    const std::vector<std::string>& path = request.segments;
    const bool keys = path.size() >= 4 && path[3] == "keys";
    if (keys && path.size() > 5) {
      return respond(
          ErrorResponse(absl::InvalidArgumentError("a key is one part of the path"), "write / in a key as %2F"));
    }
    if (!(keys && path.size() == 5) && !(path.size() == 4 && path[3] == "range"))
      return RespondNoSuchPath(request, respond);
    const std::vector<std::string> stores = backend->Stores();
    const auto found = std::find(stores.begin(), stores.end(), path[2]);
    if (found == stores.end()) {
      std::string list;
      for (const std::string& store : stores) StrAppend(&list, list.empty() ? "" : ", ", store);
      return respond(ErrorResponse(absl::NotFoundError(StrCat("there is no store '", Readable(path[2]), "'")),
                                   list.empty() ? "this processor has no stores" : StrCat("stores: ", list)));
    }
    const auto store = static_cast<store::StoreIndex>(found - stores.begin());
    keys ? RespondKey(backend, store, *found, request, respond)
         : RespondRange(backend, store, *found, request, respond);
  }

  void RespondKey(QueryBackend* backend, store::StoreIndex store, const std::string& name, const http::Request& request,
                  const http::Responder& respond) {
    auto query = ParseKeyQuery(request, request.segments[4]);
    if (!query.ok()) return respond(ErrorResponse(query.status()));
    if (const spec::StoreSpec* windowed = backend->Windowed(store))
      return RespondWindows(backend, store, *windowed, name, *query, respond);
    backend->GetKey(store, query->key, query->task,
                    [self = shared_from_this(), name, query = *query, respond](absl::StatusOr<KeyAnswer> answer) {
                      respond(answer.ok() ? KeyResponse(name, query, *answer, self->clock_->WallMillis())
                                          : ErrorResponse(answer.status(), HintFor(answer.status())));
                    });
  }

  void RespondWindows(QueryBackend* backend, store::StoreIndex store, const spec::StoreSpec& windowed,
                      const std::string& name, const KeyQuery& query, const http::Responder& respond) {
    FindWindows(calls_, store, &windowed, query.key, query.task ? *query.task : backend->TaskOf(query.key),
                [self = shared_from_this(), name, query, respond](absl::StatusOr<KeyWindows> windows) {
                  respond(windows.ok() ? WindowsResponse(name, query, *windows, self->clock_->WallMillis())
                                       : ErrorResponse(windows.status(), HintFor(windows.status())));
                });
  }

  void RespondRange(QueryBackend* backend, store::StoreIndex store, const std::string& name,
                    const http::Request& request, const http::Responder& respond) {
    auto query = ParseRangeQuery(request);
    if (!query.ok()) return respond(ErrorResponse(query.status()));
    if (ranges_.fetch_add(1) >= kMaxRangesAtOnce) {
      ranges_.fetch_sub(1);
      return respond(
          ErrorResponse(absl::ResourceExhaustedError("too many range queries at once"), "ask again in a moment"));
    }
    MergedScan scan;
    if (backend->IsLookup(store)) {
      scan.tasks = {TaskId(0)};
    } else {
      scan.tasks = query->task ? std::vector<TaskId>{*query->task} : backend->TasksToScan();
    }
    scan.range = query->range;
    scan.range.store = store;
    scan.after = query->cursor;
    scan.max_rows = query->limit;
    RunMergedScan(calls_, std::move(scan),
                  [self = shared_from_this(), name, windowed = backend->Windowed(store), query = *query,
                   respond](absl::StatusOr<MergedPage> page) {
                    self->ranges_.fetch_sub(1);
                    respond(page.ok() ? RangeResponse(name, windowed, query, *page, self->clock_->WallMillis())
                                      : ErrorResponse(page.status(), HintFor(page.status())));
                  });
  }

  static std::string HintFor(const absl::Status& status) {
    if (absl::IsUnavailable(status)) return "the task may be restoring or moving: /v1/tasks tells; ask again";
    if (absl::IsNotFound(status)) return "/v1/tasks lists the tasks that are here";
    return "";
  }

  const std::shared_ptr<BackendCalls> calls_;
  const MetricsRegistry* const metrics_;
  const Clock* const clock_;
  std::atomic<int> ranges_{0};
};

class HttpEndpointsImpl : public HttpEndpoints {
 public:
  HttpEndpointsImpl(std::shared_ptr<Router> router, std::unique_ptr<http::Server> server)
      : router_(std::move(router)), server_(std::move(server)) {}
  ~HttpEndpointsImpl() override { Stop(absl::Seconds(1)); }
  int port() const override { return server_->port(); }
  std::string authority() const override { return server_->authority(); }
  void Stop(absl::Duration deadline) override {
    server_->Stop(deadline);
    router_->Stop();
  }

 private:
  const std::shared_ptr<Router> router_;
  const std::unique_ptr<http::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpEndpoints>> HttpEndpoints::Start(const HttpEndpointsOptions& options,
                                                                    QueryBackend* backend,
                                                                    const MetricsRegistry* metrics) {
  auto router = std::make_shared<Router>(backend, metrics, options.clock);
  MS_ASSIGN_OR_RETURN(auto server,
                      http::Server::Start(options.listen, [router](http::Request request, http::Responder respond) {
                        router->Handle(request, respond);
                      }));
  return std::make_unique<HttpEndpointsImpl>(std::move(router), std::move(server));
}

}  // namespace millstream::server
