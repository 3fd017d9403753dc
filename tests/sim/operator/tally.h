#ifndef MILLSTREAM_TESTS_SIM_OPERATOR_TALLY_H_
#define MILLSTREAM_TESTS_SIM_OPERATOR_TALLY_H_

#include <cstdint>
#include <map>
#include <string>

namespace millstream::sim {

// What went wrong how often. A fault that never happens proves nothing.
using Tally = std::map<std::string, int64_t>;

// What has to happen now and then in a few hundred lives.
inline constexpr const char* kMustHappen[] = {
    "answer 401",
    "answer 403",
    "answer 409",
    "answer 410",
    "answer 429",
    "answer 500",
    "answer 503",
    "answer 504",
    "no connection",
    "answer lost",
    "call past its deadline",
    "watch cut",
    "watch silent",
    "watch in pieces",
    "list in pages",
    "list expired between pages",
    "history forgotten",
    "news out of order",
    "pass on stale caches",
    "partition",
    "token not taken any more",
    "API server away",
    "API server away for ten minutes",
    "operator killed",
    "operator ended in order",
    "operator stands still",
    "work behind the end of its term",
    "change of leader",
    "Kafka away",
    "namespace deleted",
    "accident of a pod",
};

}  // namespace millstream::sim

#endif  // MILLSTREAM_TESTS_SIM_OPERATOR_TALLY_H_
