#include "cli/kafka_properties.h"

#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/protected_config.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

struct Property {
  std::string name, value;
  int line = 0;
};

std::string Trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return std::string(text);
}

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// As java.util.Properties: "\n", "\t" and the like, otherwise the character behind the backslash.
std::string Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char next = text[++i];
    out += next == 'n' ? '\n' : next == 't' ? '\t' : next == 'r' ? '\r' : next;
  }
  return out;
}

bool Continues(std::string_view line) {
  size_t backslashes = 0;
  while (backslashes < line.size() && line[line.size() - 1 - backslashes] == '\\') ++backslashes;
  return backslashes % 2 == 1;
}

absl::StatusOr<std::vector<Property>> ParseLines(std::string_view text, const std::string& name) {
  std::vector<Property> properties;
  std::string logical;
  int number = 0, first = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = Trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (logical.empty()) first = number;
    if (logical.empty() && (line.empty() || line[0] == '#' || line[0] == '!')) continue;
    const bool more = Continues(line) && begin <= text.size();
    if (more) line.pop_back();
    logical += line;
    if (more) continue;
    const size_t separator = logical.find_first_of("=:");
    if (separator == std::string::npos || separator == 0)
      return absl::InvalidArgumentError(StrCat(name, ":", first, ": expected NAME=VALUE"));
    properties.push_back({Trimmed(std::string_view(logical).substr(0, separator)),
                          Unescaped(Trimmed(std::string_view(logical).substr(separator + 1))), first});
    logical.clear();
  }
  return properties;
}

absl::StatusOr<std::string> FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(StrCat("cannot read ", path));
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// NAME="VALUE" in a JAAS line; values may be without quotes.
std::optional<std::string> JaasOption(std::string_view line, std::string_view option) {
  for (size_t at = 0; (at = line.find(option, at)) != std::string_view::npos; at += option.size()) {
    const bool word = at > 0 && (std::isspace(static_cast<unsigned char>(line[at - 1])) != 0);
    size_t value = at + option.size();
    while (value < line.size() && std::isspace(static_cast<unsigned char>(line[value]))) ++value;
    if (!word || value >= line.size() || line[value] != '=') continue;
    ++value;
    while (value < line.size() && std::isspace(static_cast<unsigned char>(line[value]))) ++value;
    if (value >= line.size()) return std::nullopt;
    const char quote = line[value];
    if (quote != '"' && quote != '\'')
      return std::string(line.substr(value, line.find_first_of(" \t;", value) - value));
    std::string out;
    for (++value; value < line.size() && line[value] != quote; ++value) {
      if (line[value] == '\\' && value + 1 < line.size()) ++value;
      out += line[value];
    }
    return out;
  }
  return std::nullopt;
}

// Takes the properties one by one; what it has no place for goes to librdkafka.
class Builder {
 public:
  explicit Builder(std::string name) : name_(std::move(name)) {}

  absl::Status Take(const Property& property) {
    const std::string& key = property.name;
    const std::string& value = property.value;
    if (key == "bootstrap.servers" || key == "metadata.broker.list") {
      access_.bootstrap_servers = value;
    } else if (key == "security.protocol") {
      protocol_ = Upper(value);
      const bool known =
          protocol_ == "PLAINTEXT" || protocol_ == "SSL" || protocol_ == "SASL_PLAINTEXT" || protocol_ == "SASL_SSL";
      if (!known) return Wrong(property, "give PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL");
    } else if (key.starts_with("ssl.")) {
      return TakeTls(property);
    } else if (key.starts_with("sasl.")) {
      return TakeSasl(property);
    } else if (const ProtectedProperty* refused = FindProtectedProperty(key)) {
      return Wrong(property, StrCat("leave it out: ", refused->reason));
    } else {
      access_.config[key] = value;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<kafka::ClusterAccess> Finish() && {
    if (protocol_ == "SSL" || protocol_ == "SASL_SSL") access_.tls = std::move(tls_);
    if (protocol_ == "SASL_PLAINTEXT" || protocol_ == "SASL_SSL") {
      if (!mechanism_.has_value()) return Missing("sasl.mechanism");
      sasl_.mechanism = *mechanism_;
      const bool oauth = sasl_.mechanism == kafka::SaslMechanism::kOauthBearer;
      if (!oauth && sasl_.username.empty()) return Missing("sasl.username (or sasl.jaas.config)");
      if (oauth && sasl_.token_endpoint.empty()) return Missing("sasl.oauthbearer.token.endpoint.url");
      access_.sasl = std::move(sasl_);
    } else if (mechanism_.has_value() || !sasl_.username.empty()) {
      return Missing("security.protocol=SASL_SSL (or SASL_PLAINTEXT), as sasl settings are there,");
    }
    if (access_.tls.has_value() && access_.tls->certificate_pem.empty() != access_.tls->key_pem.empty())
      return Missing("one of certificate and private key, which belong together,");
    return std::move(access_);
  }

 private:
  absl::Status Wrong(const Property& property, std::string_view why) const {
    return absl::InvalidArgumentError(StrCat(name_, ":", property.line, ": ", property.name, ": ", why));
  }
  absl::Status Missing(std::string_view what) const {
    return absl::InvalidArgumentError(StrCat(name_, ": ", what, " is missing"));
  }

  absl::Status ReadInto(const Property& property, std::string* pem) {
    absl::StatusOr<std::string> text = FileText(property.value);
    if (!text.ok()) return Annotate(text.status(), StrCat(name_, ":", property.line, ": ", property.name));
    *pem = *std::move(text);
    if (pem->find("-----BEGIN ") != std::string::npos) return absl::OkStatus();
    return Wrong(property, StrCat(property.value,
                                  " is not in PEM form; of a PKCS#12 store `openssl pkcs12 -in STORE -nodes` makes "
                                  "it, of a JKS store `keytool -importkeystore` makes a PKCS#12 one"));
  }

  absl::Status TakeTls(const Property& property) {
    const std::string& key = property.name;
    if (key == "ssl.ca.location" || key == "ssl.truststore.location") return ReadInto(property, &tls_.ca_pem);
    if (key == "ssl.certificate.location") return ReadInto(property, &tls_.certificate_pem);
    if (key == "ssl.key.location") return ReadInto(property, &tls_.key_pem);
    if (key == "ssl.keystore.location") {  // PEM: the key and its certificates in one file
      MS_RETURN_IF_ERROR(ReadInto(property, &tls_.certificate_pem));
      tls_.key_pem = tls_.certificate_pem;
      return absl::OkStatus();
    }
    const std::map<std::string_view, std::string*> texts = {{"ssl.ca.pem", &tls_.ca_pem},
                                                            {"ssl.truststore.certificates", &tls_.ca_pem},
                                                            {"ssl.key.pem", &tls_.key_pem},
                                                            {"ssl.keystore.key", &tls_.key_pem},
                                                            {"ssl.certificate.pem", &tls_.certificate_pem},
                                                            {"ssl.keystore.certificate.chain", &tls_.certificate_pem}};
    if (const auto text = texts.find(key); text != texts.end()) {
      *text->second = property.value;
      return absl::OkStatus();
    }
    const bool type = key == "ssl.truststore.type" || key == "ssl.keystore.type";
    if (type && Upper(property.value) == "PEM") return absl::OkStatus();
    if (type) return Wrong(property, "only PEM is read: convert the store");
    if (key == "ssl.endpoint.identification.algorithm") {
      if (property.value == "https") return absl::OkStatus();
      return Wrong(property, "the names of brokers are always verified: leave it out");
    }
    return Wrong(property, "not supported: leave it out, or decrypt the key");
  }

  absl::Status TakeSasl(const Property& property) {
    const std::string& key = property.name;
    if (key == "sasl.mechanism" || key == "sasl.mechanisms") {
      const std::map<std::string, kafka::SaslMechanism> known = {{"PLAIN", kafka::SaslMechanism::kPlain},
                                                                 {"SCRAM-SHA-256", kafka::SaslMechanism::kScramSha256},
                                                                 {"SCRAM-SHA-512", kafka::SaslMechanism::kScramSha512},
                                                                 {"OAUTHBEARER", kafka::SaslMechanism::kOauthBearer}};
      const auto found = known.find(Upper(property.value));
      if (found == known.end()) return Wrong(property, "give PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER");
      mechanism_ = found->second;
      return absl::OkStatus();
    }
    if (key == "sasl.jaas.config") return TakeJaas(property);
    const std::map<std::string_view, std::string*> texts = {
        {"sasl.username", &sasl_.username},
        {"sasl.password", &sasl_.password},
        {"sasl.oauthbearer.token.endpoint.url", &sasl_.token_endpoint},
        {"sasl.oauthbearer.client.id", &sasl_.client_id},
        {"sasl.oauthbearer.client.secret", &sasl_.client_secret},
        {"sasl.oauthbearer.client.credentials.client.id", &sasl_.client_id},
        {"sasl.oauthbearer.client.credentials.client.secret", &sasl_.client_secret},
        {"sasl.oauthbearer.scope", &sasl_.scope}};
    if (const auto text = texts.find(key); text != texts.end()) {
      *text->second = property.value;
      return absl::OkStatus();
    }
    // Says in Java and in librdkafka what is done here anyway: the client credentials flow.
    if (key == "sasl.login.callback.handler.class" || (key == "sasl.oauthbearer.method" && property.value == "oidc"))
      return absl::OkStatus();
    return Wrong(property, "not supported: leave it out");
  }

  absl::Status TakeJaas(const Property& property) {
    const std::string& line = property.value;
    const std::map<std::string_view, std::string*> options = {{"username", &sasl_.username},
                                                              {"password", &sasl_.password},
                                                              {"clientId", &sasl_.client_id},
                                                              {"clientSecret", &sasl_.client_secret},
                                                              {"scope", &sasl_.scope}};
    bool any = false;
    for (const auto& [option, text] : options) {
      std::optional<std::string> value = JaasOption(line, option);
      any = any || value.has_value();
      if (value.has_value()) *text = *std::move(value);
    }
    if (any) return absl::OkStatus();
    return Wrong(property, "expected a login module with username and password, or clientId and clientSecret");
  }

  const std::string name_;
  kafka::ClusterAccess access_;
  kafka::TlsAccess tls_;
  kafka::SaslAccess sasl_;
  std::optional<kafka::SaslMechanism> mechanism_;
  std::string protocol_ = "PLAINTEXT";
};

}  // namespace

absl::StatusOr<kafka::ClusterAccess> ParseKafkaProperties(std::string_view text, const std::string& name) {
  MS_ASSIGN_OR_RETURN(const std::vector<Property> properties, ParseLines(text, name));
  Builder builder(name);
  for (const Property& property : properties) MS_RETURN_IF_ERROR(builder.Take(property));
  return std::move(builder).Finish();
}

absl::StatusOr<kafka::ClusterAccess> ReadKafkaProperties(const std::string& path) {
  MS_ASSIGN_OR_RETURN(const std::string text, FileText(path));
  return ParseKafkaProperties(text, path);
}

}  // namespace millstream::cli
