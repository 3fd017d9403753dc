#ifndef MILLSTREAM_COMMON_BASE_PROTECTED_CONFIG_H_
#define MILLSTREAM_COMMON_BASE_PROTECTED_CONFIG_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace millstream {

// A property of librdkafka that kafka.config of the manifest must not set, because a promise of Millstream hangs on it
// or because the group client, which is not librdkafka, could not honour it.
struct ProtectedProperty {
  enum class Match { kName, kPrefix, kSuffix };
  std::string_view name;    // the whole name, or how the names of a family begin or end
  std::string_view field;   // of the manifest's spec that says the same; empty where Millstream alone decides
  std::string_view reason;  // ends the sentence "leave it out: ..."
  Match match = Match::kName;
};

// The whole list: exact names first, families last. crds/streamprocessors.yaml repeats it in CEL (a test compares).
// Names are those of librdkafka 2.8 (its CONFIGURATION.md), deprecated ones and aliases included.
std::span<const ProtectedProperty> ProtectedProperties();

// nullptr: the property may be set. Thread-safe; lives forever.
const ProtectedProperty* FindProtectedProperty(std::string_view name);

// "use spec.group" or "leave it out: acknowledgements must not be left out".
std::string WayOut(const ProtectedProperty& property);

// INVALID_ARGUMENT that names `name` and the way out, for configuration that did not come from a checked manifest.
absl::Status CheckNotProtected(std::string_view name);

}  // namespace millstream

#endif  // MILLSTREAM_COMMON_BASE_PROTECTED_CONFIG_H_
