#include "operator/kube/config.h"

#include <cstdlib>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/reader.h"
#include "operator/kube/watched_file.h"

namespace millstream::kube {
namespace {

using spec::Value;

std::string Text(const Value* map, std::string_view key) { return std::string(spec::StringIn(map, key).value_or("")); }

std::string Trimmed(std::string_view text) { return std::string(absl::StripAsciiWhitespace(ToAbsl(text))); }

// One kubeconfig while it is read.
class Kubeconfig {
 public:
  Kubeconfig(std::string path, const Value& root) : path_(std::move(path)), root_(root) {}

  absl::StatusOr<ClientConfig> Resolve(std::string_view wanted) const {
    const std::string name = wanted.empty() ? Text(&root_, "current-context") : std::string(wanted);
    if (name.empty()) {
      return absl::NotFoundError(StrCat(path_, ": no current-context; set one with `kubectl config use-context NAME`"));
    }
    MS_ASSIGN_OR_RETURN(const Value* context, Named("contexts", "context", name));
    MS_ASSIGN_OR_RETURN(const Value* cluster, Named("clusters", "cluster", Text(context, "cluster")));
    ClientConfig config;
    config.source = StrCat(path_, ", context ", name);
    config.name_space = Text(context, "namespace");
    if (config.name_space.empty()) config.name_space = "default";
    MS_RETURN_IF_ERROR(ReadCluster(*cluster, &config));
    if (Text(context, "user").empty()) return config;
    MS_ASSIGN_OR_RETURN(const Value* user, Named("users", "user", Text(context, "user")));
    MS_RETURN_IF_ERROR(ReadUser(*user, &config));
    return config;
  }

 private:
  absl::StatusOr<const Value*> Named(std::string_view list, std::string_view block, const std::string& name) const {
    for (const Value& item : spec::ItemsIn(&root_, list)) {
      if (Text(&item, "name") != name) continue;
      if (const Value* found = item.Find(block); found != nullptr && found->is_map()) return found;
      return absl::InvalidArgumentError(StrCat(path_, ": ", list, ": '", name, "' has no ", block));
    }
    return absl::NotFoundError(StrCat(path_, ": there is no '", name, "' among its ", list));
  }

  absl::Status Refuse(const Value& block, std::string_view key, std::string_view way_out) const {
    const Value* found = block.Find(key);
    if (found == nullptr || found->is_null() || (found->kind == Value::Kind::kBool && !found->boolean) ||
        (found->is_string() && found->text.empty())) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(StrCat(path_, ":", found->at.line, ": ", key, " is not supported; ", way_out));
  }

  // KEY-data in base64, or the file KEY.
  absl::Status TextOrFile(const Value& block, const std::string& key, std::string* text, std::string* file) const {
    if (const std::string data = Text(&block, key + "-data"); !data.empty()) {
      if (!absl::Base64Unescape(data, text)) {
        return absl::InvalidArgumentError(StrCat(path_, ": ", key, "-data is not base64"));
      }
      return absl::OkStatus();
    }
    *file = FileOf(Text(&block, key));
    return absl::OkStatus();
  }

  std::string FileOf(const std::string& name) const {
    if (name.empty() || name.front() == '/') return name;
    return (std::filesystem::path(path_).parent_path() / name).string();
  }

  absl::Status ReadCluster(const Value& cluster, ClientConfig* config) const {
    MS_RETURN_IF_ERROR(
        Refuse(cluster, "insecure-skip-tls-verify", "put the server's authority into certificate-authority-data"));
    MS_RETURN_IF_ERROR(Refuse(cluster, "tls-server-name", "use a server name that its certificate has"));
    MS_RETURN_IF_ERROR(Refuse(cluster, "proxy-url", "use an address that needs no proxy"));
    config->server = Text(&cluster, "server");
    if (!absl::StartsWith(config->server, "https://") && !absl::StartsWith(config->server, "http://")) {
      return absl::InvalidArgumentError(
          StrCat(path_, ": '", config->server, "' is no server such as https://HOST:6443"));
    }
    return TextOrFile(cluster, "certificate-authority", &config->ca_pem, &config->ca_file);
  }

  absl::Status ReadUser(const Value& user, ClientConfig* config) const {
    constexpr std::string_view kWayOut =
        "use a client certificate or a token, for example of `kubectl create token SERVICEACCOUNT`";
    for (const std::string_view key : {"exec", "auth-provider", "username", "password", "as", "as-groups", "as-uid"}) {
      MS_RETURN_IF_ERROR(Refuse(user, key, kWayOut));
    }
    MS_RETURN_IF_ERROR(TextOrFile(user, "client-certificate", &config->certificate_pem, &config->certificate_file));
    MS_RETURN_IF_ERROR(TextOrFile(user, "client-key", &config->key_pem, &config->key_file));
    const bool has_certificate = !config->certificate_pem.empty() || !config->certificate_file.empty();
    if (has_certificate != (!config->key_pem.empty() || !config->key_file.empty())) {
      return absl::InvalidArgumentError(StrCat(path_, ": client-certificate and client-key belong together"));
    }
    // As kubectl: the file wins, the text is what it held once.
    config->token_file = FileOf(Text(&user, "tokenFile"));
    if (config->token_file.empty()) config->token = Text(&user, "token");
    return absl::OkStatus();
  }

  const std::string path_;
  const Value& root_;
};

}  // namespace

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

absl::StatusOr<ClientConfig> InClusterConfig(const Environment& environment, const std::string& folder) {
  const std::string host = environment("KUBERNETES_SERVICE_HOST").value_or("");
  const std::string port = environment("KUBERNETES_SERVICE_PORT").value_or("");
  if (host.empty() || port.empty()) {
    return absl::FailedPreconditionError(
        "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; give a kubeconfig");
  }
  ClientConfig config;
  config.source = StrCat("the pod's service account in ", folder);
  config.server =
      absl::StrContains(host, ":") ? StrCat("https://[", host, "]:", port) : StrCat("https://", host, ":", port);
  config.token_file = folder + "/token";
  config.ca_file = folder + "/ca.crt";
  for (const std::string& file : {config.token_file, config.ca_file}) {
    if (const auto bytes = ReadSmallFile(file); !bytes.ok()) {
      return absl::FailedPreconditionError(
          StrCat(std::string(bytes.status().message()),
                 "; the pod needs a service account with automountServiceAccountToken: true"));
    }
  }
  const absl::StatusOr<std::string> name_space = ReadSmallFile(folder + "/namespace");
  config.name_space = name_space.ok() ? Trimmed(*name_space) : "default";
  return config;
}

absl::StatusOr<ClientConfig> ParseKubeconfig(std::string_view text, const std::string& path, std::string_view context) {
  const spec::ReadResult read = spec::ReadDocuments(text);
  if (read.error) {
    return absl::InvalidArgumentError(StrCat(path, ":", read.error->at.line, ": ", read.error->message));
  }
  if (read.documents.empty() || !read.documents.front().is_map()) {
    return absl::InvalidArgumentError(StrCat(path, " is no kubeconfig: it holds no map"));
  }
  return Kubeconfig(path, read.documents.front()).Resolve(context);
}

absl::StatusOr<ClientConfig> LoadKubeconfig(const std::string& path, std::string_view context) {
  MS_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path));
  return ParseKubeconfig(text, path, context);
}

absl::StatusOr<ClientConfig> FindConfig(const std::string& path, std::string_view context,
                                        const Environment& environment) {
  if (!path.empty()) return LoadKubeconfig(path, context);
  if (const std::string listed = environment("KUBECONFIG").value_or(""); !listed.empty()) {
    if (absl::StrContains(listed, ":")) {
      return absl::InvalidArgumentError(StrCat("KUBECONFIG names several files (", listed,
                                               "); merge them with `kubectl config view --flatten` into one"));
    }
    return LoadKubeconfig(listed, context);
  }
  absl::StatusOr<ClientConfig> pod = InClusterConfig(environment);
  if (pod.ok()) return pod;
  const std::string home = environment("HOME").value_or("");
  absl::StatusOr<ClientConfig> config = LoadKubeconfig(home + "/.kube/config", context);
  if (absl::IsNotFound(config.status()) && environment("KUBERNETES_SERVICE_HOST")) return pod.status();
  return config;
}

}  // namespace millstream::kube
