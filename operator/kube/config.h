#ifndef MILLSTREAM_OPERATOR_KUBE_CONFIG_H_
#define MILLSTREAM_OPERATOR_KUBE_CONFIG_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace millstream::kube {

// Where the API server is, whom to trust and who we are. A plain value. Of each pair of text and file one is set at
// most; files are read again while the client runs (watched_file.h).
struct ClientConfig {
  std::string server;  // "https://10.96.0.1:443", perhaps with a path
  std::string ca_pem, ca_file;
  std::string certificate_pem, certificate_file;
  std::string key_pem, key_file;
  std::string token, token_file;
  std::string name_space;  // of the context or the pod; "default" where neither says
  std::string source;      // where all of that was found, for messages
};

// What a variable of the environment holds; nullopt: it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment ProcessEnvironment();

// The folder that the kubelet projects into a pod.
inline constexpr std::string_view kServiceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

// From a pod: KUBERNETES_SERVICE_HOST and _PORT, and the files `token`, `ca.crt` and `namespace` of `folder`.
// FAILED_PRECONDITION: not in a pod, or one without a service account's token; says what is missing.
absl::StatusOr<ClientConfig> InClusterConfig(const Environment& environment,
                                             const std::string& folder = std::string(kServiceAccountFolder));

// From the text of a kubeconfig; `path` names it and is what relative files in it are relative to. `context` empty: its
// current one. Understood: server, certificate-authority(-data), client-certificate(-data), client-key(-data), token,
// tokenFile, namespace. Refused by name, with a way out (INVALID_ARGUMENT): exec and auth-provider, user and password,
// insecure-skip-tls-verify, tls-server-name, proxy-url, impersonation. NOT_FOUND: no such context, cluster or user.
absl::StatusOr<ClientConfig> ParseKubeconfig(std::string_view text, const std::string& path, std::string_view context);
absl::StatusOr<ClientConfig> LoadKubeconfig(const std::string& path, std::string_view context);

// As kubectl looks: `path` if it is not empty, else the one file of KUBECONFIG, else the pod, else ~/.kube/config. A
// KUBECONFIG of several files is refused: merge them with `kubectl config view --flatten`.
absl::StatusOr<ClientConfig> FindConfig(const std::string& path, std::string_view context,
                                        const Environment& environment);

}  // namespace millstream::kube

#endif  // MILLSTREAM_OPERATOR_KUBE_CONFIG_H_
