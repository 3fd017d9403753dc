#ifndef MILLSTREAM_TESTS_SIM_OPERATOR_PERSON_H_
#define MILLSTREAM_TESTS_SIM_OPERATOR_PERSON_H_

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/sim/operator/cluster.h"
#include "tests/sim/operator/rules.h"

namespace millstream::sim {

// People (and whatever else acts on processors and their children from outside): creates, edits, scales, pauses,
// deletes, puts objects where they are in the way, and changes children by hand. One random act at a time.
class Person {
 public:
  Person(Cluster* cluster, std::mt19937_64* random, Rules* rules) : cluster_(cluster), random_(random), rules_(rules) {}

  // What was done, for a trace.
  std::string Act();
  // Takes back what would keep anything from coming to rest: objects in the way, paused reconciliation.
  void Tidy();

 private:
  int64_t Chance(int64_t bound) { return static_cast<int64_t>((*random_)() % static_cast<uint64_t>(bound)); }
  kube::ObjectKey AnyKey();
  Json AnySpec();
  std::string Create(const kube::ObjectKey& key);
  std::string EditSpec(const kube::ObjectKey& key);
  std::string Annotate(const kube::ObjectKey& key);
  std::string Delete(const kube::ObjectKey& key);
  std::string ChurnWithinASecond(const kube::ObjectKey& key);
  std::string TouchChild(const kube::ObjectKey& key);
  std::string PutInTheWay(const kube::ObjectKey& key);
  bool Exists(const kube::ObjectKey& key) const;

  Cluster* const cluster_;
  std::mt19937_64* const random_;
  Rules* const rules_;
  int edits_ = 0;
};

}  // namespace millstream::sim

#endif  // MILLSTREAM_TESTS_SIM_OPERATOR_PERSON_H_
