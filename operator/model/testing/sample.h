#ifndef MILLSTREAM_OPERATOR_MODEL_TESTING_SAMPLE_H_
#define MILLSTREAM_OPERATOR_MODEL_TESTING_SAMPLE_H_

#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "operator/model/processor.h"

namespace millstream::model {

// A processor from the text of its spec's fields, two blanks before each; image, input and Kafka are there already.
inline absl::StatusOr<Processor> TryProcessor(std::string_view more, std::string_view name = "totals") {
  const std::string text = StrCat("apiVersion: millstream.dev/v1alpha1\nkind: StreamProcessor\nmetadata: {name: ", name,
                                  ", namespace: orders}\nspec:\n", more);
  spec::ParseResult parsed = spec::ParseManifests(text, "sample.yaml");
  if (!parsed.ok()) {
    std::string problems;
    for (const spec::Diagnostic& diagnostic : parsed.diagnostics) StrAppend(&problems, diagnostic.message, "; ");
    return absl::InternalError(StrCat("the sample is no manifest: ", problems));
  }
  MS_CHECK(parsed.manifests.size() == 1);
  return MakeProcessor(std::move(parsed.manifests.front()), "uid-1", "");
}

inline constexpr std::string_view kMinimal =
    "  kafka: {bootstrapServers: \"kafka:9092\"}\n"
    "  inputs: [{topic: payments}]\n";
inline constexpr std::string_view kWorker = "  container: {image: \"registry.example.com/totals:1\"}\n";

inline Processor Sample(std::string_view more = "", std::string_view name = "totals") {
  absl::StatusOr<Processor> processor = TryProcessor(StrCat(kMinimal, kWorker, more), name);
  MS_CHECK_OK(processor);
  return *std::move(processor);
}

inline ModelOptions SampleOptions() {
  ModelOptions options;
  options.sidecar_image = "registry.example.com/millstream-sidecar:0.1.0";
  options.operator_namespace = "millstream-system";
  return options;
}

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_TESTING_SAMPLE_H_
