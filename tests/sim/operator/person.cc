#include "tests/sim/operator/person.h"

#include "common/base/strings.h"

namespace millstream::sim {
namespace {

constexpr const char* kForeignLabel = "example.com/foreign";

std::string Image(int64_t version) { return StrCat("registry.example.com/totals:", version); }

}  // namespace

kube::ObjectKey Person::AnyKey() {
  constexpr const char* kNames[] = {"orders", "totals"};
  constexpr const char* kNamespaces[] = {"east", "west"};
  return {kNamespaces[Chance(2)], kNames[Chance(2)]};
}

bool Person::Exists(const kube::ObjectKey& key) const {
  return !cluster_->api().Read(kube::kStreamProcessors, key).is_null();
}

Json Person::AnySpec() {
  Json spec = {{"kafka", {{"bootstrapServers", "kafka:9092"}}},
               {"inputs", Json::array({{{"topic", StrCat("payments-", Chance(3))}}})},
               {"container", {{"image", Image(1 + Chance(3))}}},
               {"replicas", Chance(4)}};
  if (Chance(3) == 0) spec["stores"] = Json::array({{{"name", "sums"}}});
  if (Chance(3) == 0) spec["storage"] = Json{{"size", "10Gi"}};
  if (Chance(5) == 0) spec["group"] = "shared";
  if (Chance(4) == 0) spec["internalTopics"] = Json{{"whenDeleted", "Delete"}};
  if (Chance(8) == 0) spec["autoscale"] = Json{{"minReplicas", 1}, {"maxReplicas", 3}, {"targetLag", "20s"}};
  return spec;
}

std::string Person::Create(const kube::ObjectKey& key) {
  if (Exists(key) || cluster_->IsTerminating(key.name_space)) return "";
  cluster_->api().Edit(kube::kStreamProcessors, key, [&](Json* object) { (*object)["spec"] = AnySpec(); });
  return "create";
}

std::string Person::EditSpec(const kube::ObjectKey& key) {
  if (!Exists(key)) return "";
  std::string what;
  cluster_->api().Edit(kube::kStreamProcessors, key, [&](Json* object) {
    Json& spec = (*object)["spec"];
    switch (Chance(11)) {
      case 0:
        spec["container"]["image"] = Image(1 + Chance(3));
        what = "image";
        break;
      case 1:
      case 2:
        spec["replicas"] = Chance(5);
        what = StrCat("replicas ", spec["replicas"].get<int>());
        break;
      case 3:
        spec["desiredState"] = Chance(2) == 0 ? "Paused" : "Running";
        what = "desiredState";
        break;
      case 4:
        spec["standbyReplicas"] = Chance(2);
        what = "standbyReplicas";
        break;
      case 5:
        // Sizes only grow.
        spec["storage"] = Json{{"size", StrCat(10 + ++edits_, "Gi")}};
        what = "storage";
        break;
      case 6:
        spec.erase("storage");
        what = "no storage";
        break;
      case 7:
        spec["inputs"][0] =
            Json{{"topic", Chance(4) == 0 ? std::string("missing-topic") : StrCat("payments-", Chance(3))}};
        what = "input";
        break;
      case 8:
        spec["container"]["image"] = Chance(2) == 0 ? std::string("registry.example.com/broken:1") : Image(4);
        what = "broken image";
        break;
      case 9:
        // As an old definition would have let in.
        if (Chance(2) == 0) {
          spec["inputs"][0]["partitioner"] = "Sometimes";
        } else {
          spec["inputs"][0].erase("partitioner");
        }
        what = "invalid";
        break;
      default:
        spec["internalTopics"] = Json{{"whenDeleted", Chance(2) == 0 ? "Delete" : "Retain"}};
        what = "whenDeleted";
    }
  });
  return "edit " + what;
}

std::string Person::Annotate(const kube::ObjectKey& key) {
  if (!Exists(key)) return "";
  const int64_t which = Chance(3);
  cluster_->api().Edit(kube::kStreamProcessors, key, [&](Json* object) {
    Json& annotations = (*object)["metadata"]["annotations"];
    if (which == 0) annotations["millstream.dev/pause-reconciliation"] = Chance(2) == 0 ? "true" : "false";
    if (which == 1) annotations["millstream.dev/restartedAt"] = StrCat("2026-01-01T00:00:", 10 + ++edits_ % 50, "Z");
    if (which == 2) annotations["example.com/note"] = StrCat(++edits_);
  });
  return StrCat("annotate ", which);
}

std::string Person::Delete(const kube::ObjectKey& key) {
  if (!Exists(key)) return "";
  (void)cluster_->admin().Delete(kube::kStreamProcessors, key, {});
  if (Chance(3) != 0) return "delete";
  // Gone at once unless a finalizer holds it.
  return Exists(key) ? "delete" : StrCat("delete and ", Create(key));
}

std::string Person::ChurnWithinASecond(const kube::ObjectKey& key) {
  std::string what;
  for (int i = 0; i < 4; ++i) {
    StrAppend(&what, Exists(key) ? (Chance(2) == 0 ? Delete(key) : EditSpec(key)) : Create(key), ", ");
  }
  return what;
}

std::string Person::TouchChild(const kube::ObjectKey& key) {
  const std::vector<kube::Resource>& kinds = ChildKinds();
  const kube::Resource& kind = kinds[static_cast<size_t>(Chance(static_cast<int64_t>(kinds.size())))];
  std::vector<Json> children;
  for (const Json& object : cluster_->api().All(kind)) {
    if (kube::KeyOf(object).name_space == key.name_space &&
        kube::TextAt(object, {"metadata", "labels", "app.kubernetes.io/instance"}) == key.name) {
      children.push_back(object);
    }
  }
  if (children.empty()) return "";
  const Json& child = children[static_cast<size_t>(Chance(static_cast<int64_t>(children.size())))];
  const std::string named = StrCat(kind.kind, " ", kube::KeyOf(child).Text());
  switch (Chance(3)) {
    case 0:
      if (kind.plural == "jobs" || kind.plural == "statefulsets") rules_->Tampered(key);
      (void)cluster_->admin().Delete(kind, kube::KeyOf(child), {});
      return "delete " + named;
    case 1:
      cluster_->api().Edit(kind, kube::KeyOf(child), [this](Json* object) {
        (*object)["metadata"]["annotations"][kForeignLabel] = StrCat(++edits_);
        (*object)["metadata"]["labels"][kForeignLabel] = "yes";
      });
      return "mark " + named;
    default:
      cluster_->api().Edit(kind, kube::KeyOf(child), [&](Json* object) {
        if (kind.plural == "statefulsets") (*object)["spec"]["replicas"] = 5;
        if (kind.plural == "services") (*object)["spec"]["ports"] = Json::array();
        if (kind.plural == "configmaps") (*object)["data"]["processor.yaml"] = "{}";
        if (kind.plural == "poddisruptionbudgets") (*object)["spec"]["maxUnavailable"] = 7;
        if (kind.plural == "networkpolicies") (*object)["metadata"]["labels"].erase("app.kubernetes.io/part-of");
      });
      return "change " + named;
  }
}

std::string Person::PutInTheWay(const kube::ObjectKey& key) {
  const kube::Resource& kind = Chance(2) == 0 ? kube::kConfigMaps : kube::kServices;
  if (!cluster_->api().Read(kind, key).is_null() || cluster_->IsTerminating(key.name_space)) return "";
  cluster_->api().Edit(kind, key, [](Json* object) {
    (*object)["metadata"]["labels"] = Json{{kForeignLabel, "owner"}};
  });
  return StrCat("in the way: ", kind.kind);
}

std::string Person::Act() {
  const kube::ObjectKey key = AnyKey();
  std::string what;
  const int64_t which = Chance(100);
  if (which < 25) {
    what = Create(key);
  } else if (which < 55) {
    what = EditSpec(key);
  } else if (which < 62) {
    what = Annotate(key);
  } else if (which < 70) {
    what = Delete(key);
  } else if (which < 75) {
    what = ChurnWithinASecond(key);
  } else if (which < 93) {
    what = TouchChild(key);
  } else if (which < 96) {
    what = PutInTheWay(key);
  } else if (which == 96) {
    cluster_->TerminateNamespace(key.name_space);
    what = "namespace goes";
  } else {
    what = Create(key);
  }
  return what.empty() ? "" : StrCat(key.Text(), ": ", what);
}

void Person::Tidy() {
  for (const kube::Resource& kind : {kube::kConfigMaps, kube::kServices}) {
    for (const Json& object : cluster_->api().All(kind)) {
      if (kube::TextAt(object, {"metadata", "labels", kForeignLabel}) != "owner") continue;
      (void)cluster_->admin().Delete(kind, kube::KeyOf(object), {});
    }
  }
  for (const Json& processor : cluster_->api().All(kube::kStreamProcessors)) {
    if (kube::TextAt(processor, {"metadata", "annotations", "millstream.dev/pause-reconciliation"}) != "true") continue;
    cluster_->api().Edit(kube::kStreamProcessors, kube::KeyOf(processor), [](Json* object) {
      (*object)["metadata"]["annotations"].erase("millstream.dev/pause-reconciliation");
    });
  }
}

}  // namespace millstream::sim
