#ifndef MILLSTREAM_TESTS_SIM_OPERATOR_RULES_H_
#define MILLSTREAM_TESTS_SIM_OPERATOR_RULES_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/resource.h"
#include "operator/kube/transport.h"
#include "tests/sim/operator/cluster.h"

namespace millstream::sim {

// What a call is about, read from its path.
struct CallTarget {
  std::string plural, subresource;
  kube::ObjectKey key;  // an empty name: the collection

  const kube::Resource* resource() const;  // nullptr: none that an operator knows
};
CallTarget TargetOf(const kube::HttpCall& call);
bool IsWatch(const kube::HttpCall& call);

// What no write of an operator may ever do, whatever the weather; and how many writes there were.
class Rules {
 public:
  // `trace` is told of each write; may be none.
  Rules(Cluster* cluster, std::function<void(const std::string& write)> trace)
      : cluster_(cluster), trace_(std::move(trace)) {}

  // A write that is about to be carried out. `writer`: which operator; `alone`: it leads and nobody else does.
  void OnWrite(const std::string& writer, bool alone, const kube::HttpCall& call);
  // Somebody took away what operators keep in mind of a processor: its Job, its StatefulSet.
  void Tampered(const kube::ObjectKey& processor) { tampered_.insert(processor); }

  const std::vector<std::string>& broken() const { return broken_; }
  // Writes by "METHOD plural[/subresource] namespace/name"; leases and events apart.
  const std::map<std::string, int>& writes() const { return writes_; }
  void ForgetWrites() { writes_.clear(); }
  int total() const { return total_; }

 private:
  void Break(const std::string& writer, const kube::HttpCall& call, const std::string& rule);
  void CheckApply(const std::string& writer, const kube::HttpCall& call, const CallTarget& target, const Json& there);
  void CheckJob(const std::string& writer, const kube::HttpCall& call, const Json& job);
  void CheckProcessorWrite(const std::string& writer, const kube::HttpCall& call, const CallTarget& target);

  Cluster* const cluster_;
  const std::function<void(const std::string& write)> trace_;
  std::vector<std::string> broken_;
  std::map<std::string, int> writes_;
  int total_ = 0;
  std::set<kube::ObjectKey> tampered_;
  std::map<std::string, std::string> last_job_;  // by uid of the processor: the Job made last and not removed since
};

}  // namespace millstream::sim

#endif  // MILLSTREAM_TESTS_SIM_OPERATOR_RULES_H_
