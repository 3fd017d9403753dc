#include "sidecar/group/net/scram.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::group {
namespace {

constexpr int kLeastIterations = 4096;       // RFC 7677 asks for no less
constexpr int kMostIterations = 1'000'000;   // half a second of work: more is an attack
constexpr std::string_view kHeader = "n,,";  // no channel binding, nobody else's identity

std::string Xor(std::string a, std::string_view b) {
  MS_CHECK(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<char>(a[i] ^ b[i]);
  return a;
}

absl::Status Malformed(std::string_view what) {
  return absl::FailedPreconditionError(StrCat("SCRAM: the server's message ", what));
}

// The value of the attribute at the head of `message` ("r=..."), which is taken off.
absl::StatusOr<std::string_view> Take(std::string_view* message, char name) {
  if (message->size() < 2 || (*message)[0] != name || (*message)[1] != '=') {
    return Malformed(StrCat("has no attribute ", std::string(1, name), " where it belongs"));
  }
  const size_t end = message->find(',');
  const std::string_view value = message->substr(2, end == message->npos ? end : end - 2);
  message->remove_prefix(end == message->npos ? message->size() : end + 1);
  return value;
}

}  // namespace

ScramClient::ScramClient(HashKind kind, std::string username, std::string password, std::string nonce)
    : kind_(kind), username_(std::move(username)), password_(std::move(password)), nonce_(std::move(nonce)) {}

std::string ScramClient::FirstMessage() {
  first_bare_ = StrCat("n=", absl::StrReplaceAll(username_, {{"=", "=3D"}, {",", "=2C"}}), ",r=", nonce_);
  return StrCat(kHeader, first_bare_);
}

absl::StatusOr<std::string> ScramClient::FinalMessage(std::string_view server_first) {
  std::string_view rest = server_first;
  MS_ASSIGN_OR_RETURN(const std::string_view nonce, Take(&rest, 'r'));
  MS_ASSIGN_OR_RETURN(const std::string_view salt_text, Take(&rest, 's'));
  MS_ASSIGN_OR_RETURN(const std::string_view count, Take(&rest, 'i'));
  if (nonce.size() <= nonce_.size() || nonce.substr(0, nonce_.size()) != nonce_) {
    return Malformed("answers another exchange");
  }
  int iterations = 0;
  if (!absl::SimpleAtoi(ToAbsl(count), &iterations) || iterations < kLeastIterations || iterations > kMostIterations) {
    return Malformed(StrCat("asks for '", count, "' iterations; between ", kLeastIterations, " and ", kMostIterations,
                            " are accepted"));
  }
  absl::StatusOr<std::string> salt = Base64Decode(salt_text);
  if (!salt.ok() || salt->empty()) return Malformed("has no salt");

  const std::string salted = StretchPassword(kind_, password_, *salt, iterations);
  const std::string client_key = Hmac(kind_, salted, "Client Key");
  const std::string without_proof = StrCat("c=", Base64Encode(kHeader), ",r=", nonce);
  const std::string signed_text = StrCat(first_bare_, ",", server_first, ",", without_proof);
  const std::string proof = Xor(client_key, Hmac(kind_, Hash(kind_, client_key), signed_text));
  server_signature_ = Hmac(kind_, Hmac(kind_, salted, "Server Key"), signed_text);
  return StrCat(without_proof, ",p=", Base64Encode(proof));
}

absl::Status ScramClient::Verify(std::string_view server_final) const {
  if (absl::StartsWith(ToAbsl(server_final), "e=")) {
    return absl::UnauthenticatedError(StrCat("SCRAM: the server refuses: ", server_final.substr(2)));
  }
  MS_ASSIGN_OR_RETURN(const std::string_view text, Take(&server_final, 'v'));
  const absl::StatusOr<std::string> signature = Base64Decode(text);
  if (server_signature_.empty() || !signature.ok() || !SecretsEqual(*signature, server_signature_)) {
    return absl::UnauthenticatedError("SCRAM: the server does not know the password either: it may not be the broker");
  }
  return absl::OkStatus();
}

}  // namespace millstream::group
