#ifndef MILLSTREAM_OPERATOR_KUBE_RESOURCE_H_
#define MILLSTREAM_OPERATOR_KUBE_RESOURCE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/kube/json.h"

namespace millstream::kube {

// One kind of object, as the API server's URLs name it. Plain constants; nothing is discovered.
struct Resource {
  std::string_view group;  // empty: core
  std::string_view version;
  std::string_view plural;
  std::string_view kind;

  std::string ApiVersion() const;  // "apps/v1", "v1"
  std::string Name() const;        // "apps/statefulsets", "pods": for messages
};

inline constexpr Resource kStreamProcessors{"millstream.dev", "v1alpha1", "streamprocessors", "StreamProcessor"};
inline constexpr Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap"};
inline constexpr Resource kPods{"", "v1", "pods", "Pod"};
inline constexpr Resource kPersistentVolumeClaims{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"};
inline constexpr Resource kServices{"", "v1", "services", "Service"};
inline constexpr Resource kServiceAccounts{"", "v1", "serviceaccounts", "ServiceAccount"};
inline constexpr Resource kStatefulSets{"apps", "v1", "statefulsets", "StatefulSet"};
inline constexpr Resource kJobs{"batch", "v1", "jobs", "Job"};
inline constexpr Resource kPodDisruptionBudgets{"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"};
inline constexpr Resource kNetworkPolicies{"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"};
inline constexpr Resource kPodMonitors{"monitoring.coreos.com", "v1", "podmonitors", "PodMonitor"};
inline constexpr Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease"};
inline constexpr Resource kEvents{"events.k8s.io", "v1", "events", "Event"};

// Namespace and name. An empty namespace: all of them, where objects are listed.
struct ObjectKey {
  std::string name_space;
  std::string name;

  std::string Text() const { return name_space + "/" + name; }
  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
};

ObjectKey KeyOf(const Json& object);
std::string UidOf(const Json& object);
std::string ResourceVersionOf(const Json& object);
// The object's apiVersion and kind are those of the resource.
bool IsOfKind(const Json& object, const Resource& resource);
// The uid of the owner that is marked as controller; empty: there is none.
std::string ControllerUidOf(const Json& object);

// "/apis/apps/v1/namespaces/orders/statefulsets", percent-encoded; over all namespaces when `name_space` is empty.
std::string CollectionPath(const Resource& resource, std::string_view name_space);
// The same and "/name", and "/subresource" unless that is empty.
std::string ObjectPath(const Resource& resource, const ObjectKey& key, std::string_view subresource = "");

// "?a=b&c=d", percent-encoded, without parameters whose value is empty; nothing when none is left.
std::string Query(const std::vector<std::pair<std::string_view, std::string>>& parameters);

}  // namespace millstream::kube

#endif  // MILLSTREAM_OPERATOR_KUBE_RESOURCE_H_
