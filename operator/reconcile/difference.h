#ifndef MILLSTREAM_OPERATOR_RECONCILE_DIFFERENCE_H_
#define MILLSTREAM_OPERATOR_RECONCILE_DIFFERENCE_H_

#include "operator/kube/json.h"

namespace millstream::reconcile {

// Whether an object is as wanted already: everything that `wanted` says is in `live`, which may have more (defaults of
// the API server, fields of other managers, annotations of anybody). Items of lists are found by name where they have
// names, else by their place. What the API server writes in another way counts as the same: quantities ("1024Mi",
// "1Gi"), numbers as text, empty maps and lists that it leaves out.
bool IsAsWanted(const kube::Json& wanted, const kube::Json& live);

// What of `live` is at the places of `wanted`: to notice that somebody changed it, where the API server does not keep
// what it was given as it was given.
kube::Json PartOf(const kube::Json& wanted, const kube::Json& live);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_DIFFERENCE_H_
