#include "operator/model/set_change.h"

#include <utility>

#include "common/base/strings.h"
#include "operator/model/json_path.h"
#include "operator/model/pod_template.h"

namespace millstream::model {
namespace {

int64_t SizeOf(const Json& claim) { return BytesAt(claim, {"spec", "resources", "requests", "storage"}); }

std::string SizeText(const Json& claim) {
  const Json* size = Find(claim, {"spec", "resources", "requests", "storage"});
  if (size == nullptr) return "none";
  return size->is_string() ? size->get<std::string>() : size->dump();
}

void Recreate(std::string why, SetChange* change) {
  if (!change->recreate) change->why = std::move(why);
  change->recreate = true;
}

// One claim template that is on both sides. Fields that only the API server fills in are not compared.
void CompareClaims(const Json& wanted, const Json& there, SetChange* change) {
  Json merged = wanted;
  if (SizeOf(wanted) < SizeOf(there)) {
    merged["spec"]["resources"]["requests"]["storage"] = *Find(there, {"spec", "resources", "requests", "storage"});
    change->refused.push_back(StrCat("spec.storage.size is ", SizeText(wanted), ", but the volumes have ",
                                     SizeText(there),
                                     " and a volume never shrinks; to get smaller ones make a new "
                                     "processor, or set replicas to 0, remove spec.storage, delete the claims and add "
                                     "it again"));
  } else if (SizeOf(wanted) > SizeOf(there)) {
    Recreate(StrCat("the volumes grow from ", SizeText(there), " to ", SizeText(wanted)), change);
  }
  for (const auto& [field, name] : {std::pair{"storageClassName", "spec.storage.storageClassName"},
                                    std::pair{"accessModes", "spec.storage.accessModes"}}) {
    const Json* is = Find(there, {"spec", field});
    const Json* asked = Find(wanted, {"spec", field});
    if ((is == nullptr) == (asked == nullptr) && (is == nullptr || *is == *asked)) continue;
    if (is == nullptr) {
      merged["spec"].erase(field);
    } else {
      merged["spec"][field] = *is;
    }
    change->refused.push_back(StrCat(name, " is ", asked == nullptr ? "absent" : asked->dump(),
                                     ", but the volumes were made with ", is == nullptr ? "none" : is->dump(),
                                     " and keep it; to change it remove spec.storage, delete the claims and add it "
                                     "again: the state is restored from the changelogs"));
  }
  const Json* labels = Find(wanted, {"metadata", "labels"});
  const Json* labels_there = Find(there, {"metadata", "labels"});
  if (labels != nullptr && (labels_there == nullptr || *labels != *labels_there)) {
    Recreate("the labels of the claims change", change);
  }
  change->claim_templates.push_back(std::move(merged));
}

}  // namespace

SetChange CompareSets(const Json& wanted, const Json& there) {
  SetChange change;
  for (const char* field : {"serviceName", "podManagementPolicy", "selector"}) {
    const Json* asked = Find(wanted, {field});
    const Json* is = Find(there, {field});
    if (asked != nullptr && (is == nullptr || *is != *asked)) {
      Recreate(StrCat("spec.", field, " of the StatefulSet is ", is == nullptr ? "absent" : is->dump(),
                      " and has to be ", asked->dump()),
               &change);
    }
  }
  const Json& claims = ListAt(wanted, {"volumeClaimTemplates"});
  const Json& claims_there = ListAt(there, {"volumeClaimTemplates"});
  for (const Json& claim : claims) {
    const std::string name = TextAt(claim, {"metadata", "name"});
    bool found = false;
    for (const Json& other : claims_there) {
      if (TextAt(other, {"metadata", "name"}) != name) continue;
      found = true;
      CompareClaims(claim, other, &change);
    }
    if (found) continue;
    change.claim_templates.push_back(claim);
    Recreate("the state moves from the pods' own folders to volumes, pod by pod", &change);
  }
  if (claims.size() < claims_there.size()) {
    Recreate("the state moves from volumes to the pods' own folders, pod by pod; the claims are left alone", &change);
  }
  return change;
}

}  // namespace millstream::model
