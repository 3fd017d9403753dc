#include "common/spec/pattern.h"

#include <regex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/node_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/base/strings.h"

namespace millstream::spec {
namespace {

constexpr std::pair<std::string_view, std::string_view> kMeanings[] = {
    {R"(^([0-9]{1,9}(ms|s|m|h)){1,4}$)", "a duration: numbers with ms, s, m or h, for example 1h30m"},
    {R"(^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$)",
     "a Kubernetes quantity, for example 500m or 512Mi"},
    {R"(^[0-9]{1,12}(\.[0-9]{1,3})?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$)", "a number of bytes, for example 64Mi or 1.5Gi"},
    {R"(^(\[[0-9a-fA-F:.]+\]|[a-zA-Z0-9._-]+):[0-9]{1,5}(,(\[[0-9a-fA-F:.]+\]|[a-zA-Z0-9._-]+):[0-9]{1,5})*$)",
     "host:port, several separated by commas without spaces, for example kafka-0:9092,kafka-1:9092"},
    {R"(^[-._a-zA-Z0-9]+$)", "a key of a Secret or ConfigMap: letters, digits, `-`, `_` and `.`"},
    {R"(^[.]*[a-zA-Z0-9_-][a-zA-Z0-9._-]*$)", "a name of letters, digits, `.`, `_` and `-`, and not only of dots"},
    {R"(^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$)",
     "a time in the form of RFC 3339, for example 2024-05-01T00:00:00Z"},
    {R"(^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$)",
     "a Kubernetes name: lower-case letters, digits, `-` and `.`, first and last a letter or digit"},
    {R"(^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$)",
     "a name of letters, digits, `.`, `_` and `-`, first and last a letter or digit"},
    {R"(^https?://[^\s]+$)", "a URL that starts with https:// or http://"},
};

class PatternCache {
 public:
  const std::regex& Get(const std::string& pattern) {
    absl::MutexLock lock(&mutex_);
    auto found = patterns_.find(pattern);
    if (found == patterns_.end()) {
      found = patterns_.emplace(pattern, std::regex(pattern, std::regex::ECMAScript | std::regex::optimize)).first;
    }
    return found->second;
  }

 private:
  absl::Mutex mutex_;
  absl::node_hash_map<std::string, std::regex> patterns_ ABSL_GUARDED_BY(mutex_);  // as many as the schema has
};

}  // namespace

bool MatchesPattern(const std::string& pattern, std::string_view text) {
  static PatternCache* const cache = new PatternCache();
  return std::regex_search(text.begin(), text.end(), cache->Get(pattern));
}

std::string PatternMeaning(std::string_view pattern) {
  for (const auto& [known, meaning] : kMeanings) {
    if (known == pattern) return std::string(meaning);
  }
  return StrCat("a text that matches ", pattern);
}

}  // namespace millstream::spec
