#include "operator/kube/client.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "operator/kube/api_error.h"
#include "operator/kube/time_limit.h"

namespace millstream::kube {
namespace {

constexpr absl::Duration kListDeadline = absl::Seconds(60);
// Between the end the server has promised and the one we enforce.
constexpr absl::Duration kWatchMargin = absl::Seconds(30);
constexpr char kJsonType[] = "application/json";
constexpr char kMergeType[] = "application/merge-patch+json";
constexpr char kApplyType[] = "application/apply-patch+yaml";  // JSON is YAML

bool IsSuccess(int code) { return code >= 200 && code <= 299; }

// Strings of ours are UTF-8; what came from outside may not be, and must not make dump throw.
std::string Dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string_view PropagationOf(DeleteOptions::Dependents dependents) {
  switch (dependents) {
    case DeleteOptions::Dependents::kBackground:
      return "Background";
    case DeleteOptions::Dependents::kForeground:
      return "Foreground";
    case DeleteOptions::Dependents::kOrphan:
      return "Orphan";
  }
  return "Background";
}

}  // namespace

std::string Client::Named::Text() const {
  std::string text = StrCat(verb, " ", resource.Name());
  if (!key.name_space.empty() || !key.name.empty()) StrAppend(&text, " ", key.name_space);
  if (!key.name.empty()) StrAppend(&text, "/", key.name);
  return text;
}

Client::Client(std::unique_ptr<Transport> transport, ClientOptions options)
    : transport_(std::move(transport)), options_(std::move(options)) {}

void Client::Observe(const Named& named, int code) const {
  if (options_.on_call) options_.on_call(named.verb, named.resource, code);
}

absl::StatusOr<Json> Client::Send(const Named& named, HttpCall call) {
  const absl::Duration left = TimeLimit::Left();
  if (left <= absl::ZeroDuration()) {
    return absl::DeadlineExceededError(StrCat(
        named.Text(), ": not begun, the time for all calls of this pass is over; the next one goes on from here"));
  }
  call.deadline = std::min(call.deadline, left);
  const absl::StatusOr<HttpAnswer> answer = transport_->Do(call);
  Observe(named, answer.ok() ? answer->status : 0);
  if (!answer.ok()) return Annotate(answer.status(), named.Text());
  if (!IsSuccess(answer->status)) {
    return ToStatus(ReadApiError(answer->status, answer->body, answer->retry_after), named.Text());
  }
  absl::StatusOr<Json> object = ParseJson(answer->body, "the answer");
  // A proxy's page with 200: the API server may be back next time.
  if (!object.ok()) return absl::UnavailableError(StrCat(named.Text(), ": ", std::string(object.status().message())));
  return object;
}

absl::StatusOr<Json> Client::Write(const Named& named, HttpCall call) {
  call.deadline = options_.deadline;
  if (options_.write_allowance) {
    const absl::Duration allowed = options_.write_allowance();
    if (allowed <= absl::ZeroDuration()) {
      return absl::FailedPreconditionError(StrCat(named.Text(), ": not the leader (any more), nothing is written"));
    }
    call.deadline = std::min(call.deadline, allowed);
  }
  return Send(named, std::move(call));
}

absl::StatusOr<Json> Client::Get(const Resource& resource, const ObjectKey& key) {
  HttpCall call;
  call.method = "GET";
  call.target = ObjectPath(resource, key);
  call.deadline = options_.deadline;
  call.repeatable = true;
  return Send({"get", resource, key}, std::move(call));
}

absl::StatusOr<ObjectList> Client::ListPage(const Resource& resource, const Selection& selection, std::string* token) {
  HttpCall call;
  call.method = "GET";
  call.target = CollectionPath(resource, selection.name_space) + Query({{"limit", StrCat(kPageSize)},
                                                                        {"continue", *token},
                                                                        {"labelSelector", selection.label_selector},
                                                                        {"fieldSelector", selection.field_selector}});
  call.deadline = kListDeadline;
  call.repeatable = true;
  const ObjectKey where{selection.name_space, ""};
  const Named named{"list", resource, where};
  MS_ASSIGN_OR_RETURN(Json page, Send(named, std::move(call)));
  ObjectList list;
  list.resource_version = ResourceVersionOf(page);
  *token = TextAt(page, {"metadata", "continue"});
  if (list.resource_version.empty()) {
    return absl::UnavailableError(StrCat(named.Text(), ": the answer is no list, it has no resource version"));
  }
  const auto items = page.find("items");
  if (items == page.end() || !items->is_array()) return list;  // null: none
  for (Json& item : *items) {
    if (!item.is_object()) continue;
    // Items of a list do not say what they are.
    item["apiVersion"] = resource.ApiVersion();
    item["kind"] = std::string(resource.kind);
    list.items.push_back(std::move(item));
  }
  return list;
}

absl::StatusOr<ObjectList> Client::List(const Resource& resource, const Selection& selection) {
  std::string token;
  MS_ASSIGN_OR_RETURN(ObjectList list, ListPage(resource, selection, &token));
  for (int page = 1; !token.empty(); ++page) {
    if (page == kMaxPages) {
      return absl::ResourceExhaustedError(StrCat("list ", resource.Name(), ": more than ", kMaxPages, " pages"));
    }
    MS_ASSIGN_OR_RETURN(ObjectList more, ListPage(resource, selection, &token));
    std::move(more.items.begin(), more.items.end(), std::back_inserter(list.items));
    list.resource_version = more.resource_version;
  }
  return list;
}

absl::Status Client::Watch(const Resource& resource, const Selection& selection, const WatchOptions& options,
                           const http::Interruption& interruption, const WatchDecoder::Sink& sink) {
  HttpCall call;
  call.method = "GET";
  call.target = CollectionPath(resource, selection.name_space) +
                Query({{"watch", "true"},
                       {"allowWatchBookmarks", "true"},
                       {"resourceVersion", options.resource_version},
                       {"timeoutSeconds", StrCat(absl::ToInt64Seconds(options.timeout))},
                       {"labelSelector", selection.label_selector},
                       {"fieldSelector", selection.field_selector}});
  call.deadline = options.timeout + kWatchMargin;
  call.repeatable = true;
  const ObjectKey where{selection.name_space, ""};
  const Named named{"watch", resource, where};
  WatchDecoder decoder(sink);
  const absl::StatusOr<HttpAnswer> answer = transport_->Stream(
      call, options.idle, interruption, [&decoder](std::string_view piece) { return decoder.Feed(piece); });
  Observe(named, answer.ok() ? answer->status : 0);
  if (!answer.ok()) return Annotate(answer.status(), named.Text());
  if (!IsSuccess(answer->status)) {
    return ToStatus(ReadApiError(answer->status, answer->body, answer->retry_after), named.Text());
  }
  return decoder.Finish();
}

absl::StatusOr<Json> Client::Apply(const Resource& resource, const Json& object, std::string_view subresource) {
  const ObjectKey key = KeyOf(object);
  HttpCall call;
  call.method = "PATCH";
  call.target =
      ObjectPath(resource, key, subresource) + Query({{"fieldManager", options_.field_manager}, {"force", "true"}});
  call.content_type = kApplyType;
  call.body = Dump(object);
  call.repeatable = true;
  return Write({"apply", resource, key}, std::move(call));
}

absl::StatusOr<Json> Client::Create(const Resource& resource, const Json& object) {
  const ObjectKey key = KeyOf(object);
  HttpCall call;
  call.method = "POST";
  call.target = CollectionPath(resource, key.name_space) + Query({{"fieldManager", options_.field_manager}});
  call.content_type = kJsonType;
  call.body = Dump(object);
  return Write({"create", resource, key}, std::move(call));
}

absl::StatusOr<Json> Client::Replace(const Resource& resource, const Json& object) {
  const ObjectKey key = KeyOf(object);
  HttpCall call;
  call.method = "PUT";
  call.target = ObjectPath(resource, key) + Query({{"fieldManager", options_.field_manager}});
  call.content_type = kJsonType;
  call.body = Dump(object);
  return Write({"replace", resource, key}, std::move(call));
}

absl::StatusOr<Json> Client::ReplaceStatus(const Resource& resource, const Json& object_with_status) {
  const ObjectKey key = KeyOf(object_with_status);
  HttpCall call;
  call.method = "PUT";
  call.target = ObjectPath(resource, key, "status") + Query({{"fieldManager", options_.field_manager}});
  call.content_type = kJsonType;
  call.body = Dump(object_with_status);
  return Write({"replace status of", resource, key}, std::move(call));
}

absl::StatusOr<Json> Client::Patch(const Resource& resource, const ObjectKey& key, const Json& patch,
                                   std::string_view subresource) {
  HttpCall call;
  call.method = "PATCH";
  call.target = ObjectPath(resource, key, subresource) + Query({{"fieldManager", options_.field_manager}});
  call.content_type = kMergeType;
  call.body = Dump(patch);
  return Write({"patch", resource, key}, std::move(call));
}

absl::Status Client::Delete(const Resource& resource, const ObjectKey& key, const DeleteOptions& options) {
  Json body = {{"apiVersion", "v1"},
               {"kind", "DeleteOptions"},
               {"propagationPolicy", std::string(PropagationOf(options.dependents))}};
  if (!options.uid.empty()) body["preconditions"] = {{"uid", options.uid}};
  HttpCall call;
  call.method = "DELETE";
  call.target = ObjectPath(resource, key);
  call.content_type = kJsonType;
  call.body = Dump(body);
  call.repeatable = true;
  const absl::Status status = Write({"delete", resource, key}, std::move(call)).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status Client::Evict(const ObjectKey& pod, const std::string& uid) {
  Json body = {{"apiVersion", "policy/v1"},
               {"kind", "Eviction"},
               {"metadata", {{"name", pod.name}, {"namespace", pod.name_space}}}};
  if (!uid.empty()) body["deleteOptions"] = {{"preconditions", {{"uid", uid}}}};
  HttpCall call;
  call.method = "POST";
  call.target = ObjectPath(kPods, pod, "eviction");
  call.content_type = kJsonType;
  call.body = Dump(body);
  const absl::Status status = Write({"evict", kPods, pod}, std::move(call)).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace millstream::kube
