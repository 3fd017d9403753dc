#include "operator/model/processor.h"

#include <cstdint>
#include <utility>

#include "common/base/strings.h"
#include "operator/model/merge.h"

namespace millstream::model {
namespace {

constexpr size_t kJobHashDigits = 8;

}  // namespace

absl::StatusOr<Processor> MakeProcessor(spec::Manifest manifest, std::string uid, std::string restarted_at) {
  const spec::StreamProcessorSpec& typed = manifest.processor;
  if (typed.kafka.bootstrap_servers.empty()) {
    return absl::InvalidArgumentError(
        "spec.kafka.bootstrapServers is needed in a cluster: the embedded log is for local runs");
  }
  if (!typed.is_view() && typed.container.image.empty()) {
    return absl::InvalidArgumentError("spec.container.image is needed in a cluster: it holds the program");
  }
  Processor processor;
  // Written by ourselves from a manifest that was read: nothing to be refused.
  processor.spec = Json::parse(manifest.canonical_json).at("spec");
  processor.replicas = typed.replicas;
  processor.manifest = std::move(manifest);
  processor.uid = std::move(uid);
  processor.restarted_at = std::move(restarted_at);
  return processor;
}

std::string PodNameOf(const Processor& processor, int ordinal) { return StrCat(processor.typed().name, "-", ordinal); }

std::string ClaimNameOf(const Processor& processor, int ordinal) {
  return StrCat(kStateVolume, "-", PodNameOf(processor, ordinal));
}

std::string TopicsJobNameOf(const Processor& processor) {
  std::string hash = ManifestHash(processor);
  if (const Json overrides = JobOverridesOf(processor); !overrides.empty()) hash = HashOf(hash + overrides.dump());
  return StrCat(processor.typed().name, "-t-", hash.substr(0, kJobHashDigits));
}

Json SelectorOf(const Processor& processor) {
  return {{"app.kubernetes.io/name", "streamprocessor"},
          {"app.kubernetes.io/instance", processor.typed().name},
          {"app.kubernetes.io/component", "processor"}};
}

Json PodLabelsOf(const Processor& processor) {
  Json labels = SelectorOf(processor);
  labels["app.kubernetes.io/part-of"] = "millstream";
  labels["app.kubernetes.io/managed-by"] = "millstream-operator";
  return labels;
}

Json LabelsOf(const Processor& processor, const ModelOptions& options) {
  Json labels = PodLabelsOf(processor);
  labels["app.kubernetes.io/version"] = options.operator_version;
  return labels;
}

Json MetadataOf(const Processor& processor, const ModelOptions& options, const std::string& name) {
  const Json owner = {{"apiVersion", "millstream.dev/v1alpha1"},
                      {"kind", "StreamProcessor"},
                      {"name", processor.typed().name},
                      {"uid", processor.uid},
                      {"controller", true},
                      {"blockOwnerDeletion", true}};
  return {{"name", name},
          {"namespace", processor.typed().name_space},
          {"labels", LabelsOf(processor, options)},
          {"ownerReferences", Json::array({owner})}};
}

std::string ManifestHash(const Processor& processor) {
  Json spec = processor.spec;
  for (const char* field :
       {"replicas", "autoscale", "desiredState", "standbyReplicas", "storage", "podTemplate", "container"}) {
    spec.erase(field);
  }
  if (const auto sidecar = spec.find("sidecar"); sidecar != spec.end()) {
    sidecar->erase("image");
    sidecar->erase("resources");
  }
  if (const auto internal = spec.find("internalTopics"); internal != spec.end()) internal->erase("whenDeleted");
  return HashOf(spec.dump());
}

std::string SpecHash(const Processor& processor) {
  Json spec = processor.spec;
  for (const char* field : {"replicas", "autoscale", "desiredState", "standbyReplicas"}) spec.erase(field);
  // Its size and what happens to it later are nothing to a pod.
  if (spec.contains("storage")) spec["storage"] = true;
  if (const auto internal = spec.find("internalTopics"); internal != spec.end()) internal->erase("whenDeleted");
  return HashOf(StrCat(processor.restarted_at, spec.dump()));
}

std::string HashOf(std::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211u;
  }
  return StrCat(absl::Hex(hash, absl::kZeroPad16));
}

}  // namespace millstream::model
