#include "sidecar/host/cluster_access.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "common/base/protected_config.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::host {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxSecretBytes = 1 << 20;  // what a Kubernetes Secret can hold

// One secret the manifest refers to.
struct Wanted {
  std::string_view field;  // "kafka.tls.caSecretRef"
  const spec::SecretRef& ref;
  bool config_map = false;

  std::string Kind() const { return config_map ? "ConfigMap" : "Secret"; }
  // "kafka.tls.caSecretRef: Secret main-ca, key ca.crt"
  std::string Name() const { return StrCat(field, ": ", Kind(), " ", ref.name, ", key ", ref.key); }
};

std::string WhatIsThere(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("..")) names.push_back(name);  // Kubernetes' own links
  }
  std::sort(names.begin(), names.end());
  std::string list;
  for (const std::string& name : names) StrAppend(&list, list.empty() ? "" : ", ", name);
  return list.empty() ? "" : StrCat("; ", folder.string(), " holds ", list);
}

absl::StatusOr<std::string> ReadSecret(const Wanted& wanted, const std::string& secrets_folder) {
  if (secrets_folder.empty()) {
    return absl::InvalidArgumentError(StrCat(wanted.Name(),
                                             " is needed, and no folder of secrets is given: write it to the file DIR/",
                                             wanted.ref.name, "/", wanted.ref.key, " and pass --secrets DIR"));
  }
  const fs::path folder = fs::path(secrets_folder) / wanted.ref.name;
  const fs::path path = folder / wanted.ref.key;
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) {
    const std::string there = WhatIsThere(fs::exists(folder, error) ? folder : fs::path(secrets_folder));
    return absl::NotFoundError(StrCat(wanted.Name(), ": there is no file ", path.string(), there,
                                      "; write it there, or pass another folder with --secrets"));
  }
  std::ifstream file(path, std::ios::binary);
  if (error || !file) {
    const std::string reason = error ? error.message() : std::strerror(errno);
    return absl::PermissionDeniedError(
        StrCat(wanted.Name(), ": ", path.string(), " cannot be read: ", reason, "; make it readable for this user"));
  }
  if (size > kMaxSecretBytes) {
    return absl::InvalidArgumentError(
        StrCat(wanted.Name(), ": ", path.string(), " has ", size, " bytes; a Secret has at most ", kMaxSecretBytes));
  }
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (text.empty()) return absl::InvalidArgumentError(StrCat(wanted.Name(), ": ", path.string(), " is empty"));
  return text;
}

// A user name or password. Editors and `echo` end files with a line end that is not part of it.
absl::StatusOr<std::string> ReadWord(const Wanted& wanted, const std::string& secrets_folder) {
  MS_ASSIGN_OR_RETURN(std::string word, ReadSecret(wanted, secrets_folder));
  if (word.ends_with('\n')) word.pop_back();
  if (word.ends_with('\r')) word.pop_back();
  if (!word.empty()) return word;
  return absl::InvalidArgumentError(StrCat(wanted.Name(), ": the file holds nothing but a line end"));
}

absl::StatusOr<std::string> ReadPem(const Wanted& wanted, const std::string& secrets_folder) {
  MS_ASSIGN_OR_RETURN(std::string text, ReadSecret(wanted, secrets_folder));
  if (text.find("-----BEGIN ") != std::string::npos) return text;
  return absl::InvalidArgumentError(
      StrCat(wanted.Name(), ": not in PEM form, which begins with -----BEGIN; of a PKCS#12 or JKS store export it, or ",
             "name the key that holds the PEM form (with Strimzi ca.crt, user.crt, user.key)"));
}

absl::StatusOr<kafka::TlsAccess> ResolveTls(const spec::KafkaTlsSpec& tls, const std::string& folder) {
  kafka::TlsAccess access;
  if (tls.ca.has_value()) {
    const Wanted ca{tls.ca_is_config_map ? "kafka.tls.caConfigMapRef" : "kafka.tls.caSecretRef", *tls.ca,
                    tls.ca_is_config_map};
    MS_ASSIGN_OR_RETURN(access.ca_pem, ReadPem(ca, folder));
  }
  if (tls.certificate.has_value() && tls.key.has_value()) {
    MS_ASSIGN_OR_RETURN(access.certificate_pem, ReadPem({"kafka.tls.certSecretRef", *tls.certificate}, folder));
    MS_ASSIGN_OR_RETURN(access.key_pem, ReadPem({"kafka.tls.keySecretRef", *tls.key}, folder));
  }
  return access;
}

kafka::SaslMechanism MechanismOf(spec::SaslMechanism mechanism) {
  switch (mechanism) {
    case spec::SaslMechanism::kPlain:
      return kafka::SaslMechanism::kPlain;
    case spec::SaslMechanism::kScramSha256:
      return kafka::SaslMechanism::kScramSha256;
    case spec::SaslMechanism::kScramSha512:
      return kafka::SaslMechanism::kScramSha512;
    case spec::SaslMechanism::kOauthBearer:
      return kafka::SaslMechanism::kOauthBearer;
  }
  return kafka::SaslMechanism::kScramSha512;
}

absl::StatusOr<kafka::SaslAccess> ResolveSasl(const spec::KafkaSaslSpec& sasl, const std::string& folder) {
  kafka::SaslAccess access;
  access.mechanism = MechanismOf(sasl.mechanism);
  access.username = sasl.username;
  if (sasl.username_ref.has_value()) {
    MS_ASSIGN_OR_RETURN(access.username, ReadWord({"kafka.sasl.usernameSecretRef", *sasl.username_ref}, folder));
  }
  if (sasl.password.has_value()) {
    MS_ASSIGN_OR_RETURN(access.password, ReadWord({"kafka.sasl.passwordSecretRef", *sasl.password}, folder));
  }
  if (sasl.oauth.has_value()) {
    access.token_endpoint = sasl.oauth->token_endpoint;
    access.client_id = sasl.oauth->client_id;
    access.scope = sasl.oauth->scope;
    MS_ASSIGN_OR_RETURN(access.client_secret,
                        ReadWord({"kafka.sasl.oauth.clientSecretRef", sasl.oauth->client_secret}, folder));
  }
  return access;
}

absl::Status CheckServer(std::string_view server) {
  const size_t colon = server.rfind(':');
  const bool bracketed = server.starts_with('[');
  const std::string_view host = server.substr(0, colon == std::string_view::npos ? server.size() : colon);
  const std::string_view port = colon == std::string_view::npos ? "" : server.substr(colon + 1);
  int number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool port_fits = error == std::errc() && end == port.data() + port.size() && number > 0 && number <= 65535;
  const bool host_fits = bracketed ? host.size() > 2 && host.ends_with(']')
                                   : !host.empty() && host.find_first_of(":/ []") == std::string_view::npos;
  if (port_fits && host_fits) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat("bootstrap server \"", server,
                                           "\": give it as HOST:PORT, several separated by commas, for example "
                                           "kafka-0:9092,kafka-1:9092"));
}

}  // namespace

absl::Status CheckBootstrapServers(std::string_view servers) {
  for (size_t begin = 0; begin <= servers.size();) {
    const size_t end = std::min(servers.find(',', begin), servers.size());
    MS_RETURN_IF_ERROR(CheckServer(servers.substr(begin, end - begin)));
    begin = end + 1;
  }
  return absl::OkStatus();
}

absl::StatusOr<kafka::ClusterAccess> ResolveClusterAccess(const spec::KafkaSpec& kafka, const AccessSources& sources) {
  kafka::ClusterAccess access;
  access.bootstrap_servers = sources.bootstrap_servers.empty() ? kafka.bootstrap_servers : sources.bootstrap_servers;
  if (access.bootstrap_servers.empty()) {
    return absl::InvalidArgumentError(
        "no Kafka to go to: pass --kafka HOST:PORT, or give the manifest spec.kafka.bootstrapServers");
  }
  MS_RETURN_IF_ERROR(CheckBootstrapServers(access.bootstrap_servers));
  for (const auto& [name, value] : kafka.config) MS_RETURN_IF_ERROR(CheckNotProtected(name));
  access.config = kafka.config;
  if (kafka.tls.has_value()) {
    MS_ASSIGN_OR_RETURN(access.tls, ResolveTls(*kafka.tls, sources.secrets_folder));
  }
  if (kafka.sasl.has_value()) {
    MS_ASSIGN_OR_RETURN(access.sasl, ResolveSasl(*kafka.sasl, sources.secrets_folder));
  }
  return access;
}

}  // namespace millstream::host
