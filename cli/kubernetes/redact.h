#ifndef MILLSTREAM_CLI_KUBERNETES_REDACT_H_
#define MILLSTREAM_CLI_KUBERNETES_REDACT_H_

#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

namespace millstream::cli {

// Kubernetes objects without what may be secret, for showing them to strangers. Taken out: every value of an
// environment variable, every value whose name sounds like a secret (password, token, key ...), the same within
// arguments
// (--password=...), user and password within URLs, PEM private keys, managed fields, and what kubectl keeps of the last
// apply. References to Secrets stay: they are names.
nlohmann::json Redacted(nlohmann::json object);
// The same within a text, as a log.
std::string RedactedText(std::string_view text);

inline constexpr char kRedacted[] = "<redacted>";

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_KUBERNETES_REDACT_H_
