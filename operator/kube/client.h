#ifndef MILLSTREAM_OPERATOR_KUBE_CLIENT_H_
#define MILLSTREAM_OPERATOR_KUBE_CLIENT_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/kube/resource.h"
#include "operator/kube/transport.h"
#include "operator/kube/watch_decoder.h"

namespace millstream::kube {

// Which objects of a resource.
struct Selection {
  std::string name_space;  // empty: all
  std::string label_selector;
  std::string field_selector;
};

struct ObjectList {
  std::vector<Json> items;       // each with apiVersion and kind
  std::string resource_version;  // where a watch may begin
};

struct WatchOptions {
  std::string resource_version;  // what is known already; only what came later is sent
  // The server ends the watch after that; a connection that stays open for ever would hide a change of servers.
  absl::Duration timeout = absl::Seconds(300);
  // Bookmarks come about once a minute, so a longer silence is a connection whose other side is gone.
  absl::Duration idle = absl::Seconds(90);
};

struct DeleteOptions {
  std::string uid;  // only the object of that uid (ABORTED: another has the name by now); empty: whichever has the name
  enum class Dependents { kBackground, kForeground, kOrphan };
  Dependents dependents = Dependents::kBackground;
};

// How long writes are still allowed; zero or less: not at all. A leader election's word (operator/runtime).
using WriteAllowance = std::function<absl::Duration()>;

struct ClientOptions {
  std::string field_manager = "millstream-operator";
  absl::Duration deadline = absl::Seconds(30);  // of each call; pages of lists and watches apart
  WriteAllowance write_allowance;               // none: always
  // Told of each call when it is over; `code` 0: no answer. For metrics. Called by any thread.
  std::function<void(std::string_view verb, const Resource& resource, int code)> on_call;
};

// The calls of the Kubernetes API that the operator makes. Each has a deadline and blocks the caller. Thread-safe.
// Errors are those of api_error.h and of the transport, with call and object named: "apply apps/statefulsets
// orders/totals". FAILED_PRECONDITION: a write while none is allowed; a write's deadline ends with the allowance.
// DEADLINE_EXCEEDED: also when the TimeLimit of the thread is over.
class Client {
 public:
  Client(std::unique_ptr<Transport> transport, ClientOptions options);

  // Pages of a list hold so many objects.
  static constexpr int kPageSize = 500;
  // A server that hands out continue tokens for ever is broken: 5 million objects.
  static constexpr int kMaxPages = 10'000;

  absl::StatusOr<Json> Get(const Resource& resource, const ObjectKey& key);
  // All pages. OUT_OF_RANGE: a continue token has expired, begin anew.
  absl::StatusOr<ObjectList> List(const Resource& resource, const Selection& selection);
  // Events in their order, on the thread of the caller, until the server ends the watch (OK) or something breaks.
  // OUT_OF_RANGE: the resource version is too old, list again. Errors of the sink pass through.
  absl::Status Watch(const Resource& resource, const Selection& selection, const WatchOptions& options,
                     const http::Interruption& interruption, const WatchDecoder::Sink& sink);

  // Server-side apply of a whole object (apiVersion, kind, name, namespace): makes it, or makes its fields so, and
  // drops those that this manager once set and that are no longer in it. Takes fields from other managers. Returns what
  // the object is now. `subresource`: "status", or empty.
  absl::StatusOr<Json> Apply(const Resource& resource, const Json& object, std::string_view subresource = "");
  // ALREADY_EXISTS.
  absl::StatusOr<Json> Create(const Resource& resource, const Json& object);
  // Writes over an object; with a resourceVersion in it only over that version (ABORTED: it has changed meanwhile).
  absl::StatusOr<Json> Replace(const Resource& resource, const Json& object);
  // JSON merge patch (RFC 7386).
  absl::StatusOr<Json> Patch(const Resource& resource, const ObjectKey& key, const Json& patch,
                             std::string_view subresource = "");
  // Makes the status as it is given, keys that are not in it included; ABORTED when the object is no longer of that
  // resource version, so that nothing is decided on an old one.
  absl::StatusOr<Json> ReplaceStatus(const Resource& resource, const Json& object_with_status);
  // An object that is gone already is OK.
  absl::Status Delete(const Resource& resource, const ObjectKey& key, const DeleteOptions& options);
  // Through the Eviction API: RESOURCE_EXHAUSTED while a disruption budget forbids it. A pod that is gone is OK.
  absl::Status Evict(const ObjectKey& pod, const std::string& uid);

  const std::string& field_manager() const { return options_.field_manager; }

 private:
  struct Named {
    std::string_view verb;
    const Resource& resource;
    const ObjectKey& key;
    std::string Text() const;
  };
  absl::StatusOr<Json> Send(const Named& named, HttpCall call);
  absl::StatusOr<Json> Write(const Named& named, HttpCall call);
  absl::StatusOr<ObjectList> ListPage(const Resource& resource, const Selection& selection, std::string* token);
  void Observe(const Named& named, int code) const;

  const std::unique_ptr<Transport> transport_;
  const ClientOptions options_;
};

}  // namespace millstream::kube

#endif  // MILLSTREAM_OPERATOR_KUBE_CLIENT_H_
