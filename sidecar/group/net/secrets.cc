#include "sidecar/group/net/secrets.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include "absl/strings/escaping.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::group {
namespace {

const EVP_MD* Digest(HashKind kind) { return kind == HashKind::kSha256 ? EVP_sha256() : EVP_sha512(); }
const unsigned char* Raw(std::string_view bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }
unsigned char* Raw(std::string* bytes) { return reinterpret_cast<unsigned char*>(bytes->data()); }

}  // namespace

std::string Hash(HashKind kind, std::string_view bytes) {
  std::string out(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  MS_CHECK(EVP_Digest(bytes.data(), bytes.size(), Raw(&out), &size, Digest(kind), nullptr) == 1);
  out.resize(size);
  return out;
}

std::string Hmac(HashKind kind, std::string_view key, std::string_view bytes) {
  std::string out(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  MS_CHECK(HMAC(Digest(kind), key.data(), static_cast<int>(key.size()), Raw(bytes), bytes.size(), Raw(&out), &size) !=
           nullptr);
  out.resize(size);
  return out;
}

std::string StretchPassword(HashKind kind, std::string_view password, std::string_view salt, int iterations) {
  std::string out(static_cast<size_t>(EVP_MD_size(Digest(kind))), '\0');
  MS_CHECK(PKCS5_PBKDF2_HMAC(password.data(), static_cast<int>(password.size()), Raw(salt),
                             static_cast<int>(salt.size()), iterations, Digest(kind), static_cast<int>(out.size()),
                             Raw(&out)) == 1);
  return out;
}

bool SecretsEqual(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string RandomText(size_t bytes) {
  std::string raw(bytes, '\0');
  MS_CHECK(getrandom(raw.data(), raw.size(), 0) == static_cast<ssize_t>(raw.size()));
  return Base64Encode(raw);
}

std::string Base64Encode(std::string_view bytes) {
  std::string text;
  absl::Base64Escape(ToAbsl(bytes), &text);
  return text;
}

absl::StatusOr<std::string> Base64Decode(std::string_view text) {
  std::string bytes;
  if (!absl::Base64Unescape(ToAbsl(text), &bytes)) return absl::InvalidArgumentError("not base64");
  return bytes;
}

}  // namespace millstream::group
