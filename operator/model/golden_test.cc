// Every manifest in tests/golden/children against its .golden file: all children as YAML, then the topics' Job. The
// first line of a manifest may choose chart values: "# options: openshift networkPolicies podMonitors". A refused one
// has the refusal as its golden text. MILLSTREAM_UPDATE_GOLDEN=1 rewrites the .golden files.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "gtest/gtest.h"
#include "operator/model/children.h"
#include "operator/model/testing/sample.h"
#include "operator/model/yaml.h"

namespace millstream::model {
namespace {

namespace fs = std::filesystem;

std::string Contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

ModelOptions OptionsIn(const std::string& manifest) {
  ModelOptions options = SampleOptions();
  const std::string line = manifest.substr(0, manifest.find('\n'));
  if (!absl::StartsWith(line, "# options:")) return options;
  options.openshift = absl::StrContains(line, "openshift");
  options.network_policies = absl::StrContains(line, "networkPolicies");
  options.pod_monitors = absl::StrContains(line, "podMonitors");
  if (options.pod_monitors) options.pod_monitor_labels = {{"release", "prometheus"}};
  return options;
}

absl::StatusOr<std::vector<Json>> ObjectsOf(const std::string& text, const std::string& name) {
  spec::ParseResult parsed = spec::ParseManifests(text, name);
  if (!parsed.ok() || parsed.manifests.size() != 1) return absl::InternalError("no valid manifest");
  MS_ASSIGN_OR_RETURN(const Processor processor,
                      MakeProcessor(std::move(parsed.manifests.front()), "11111111-2222-3333-4444-555555555555", ""));
  const ModelOptions options = OptionsIn(text);
  MS_ASSIGN_OR_RETURN(std::vector<Json> objects, ChildrenOf(processor, options));
  MS_ASSIGN_OR_RETURN(Json job, TopicsJobOf(processor, options));
  objects.push_back(std::move(job));
  return objects;
}

TEST(GoldenChildrenTest, Objects) {
  std::vector<fs::path> manifests;
  for (const auto& entry : fs::directory_iterator("tests/golden/children")) {
    if (entry.path().extension() == ".yaml") manifests.push_back(entry.path());
  }
  std::sort(manifests.begin(), manifests.end());
  ASSERT_GE(manifests.size(), 8u);
  for (fs::path path : manifests) {
    SCOPED_TRACE(path);
    const auto objects = ObjectsOf(Contents(path), path.filename().string());
    const std::string got =
        objects.ok() ? ToYaml(*objects) : StrCat("refused: ", std::string(objects.status().message()), "\n");
    const fs::path golden = path.replace_extension(".golden");
    if (std::getenv("MILLSTREAM_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(golden, std::ios::binary) << got;
      continue;
    }
    ASSERT_TRUE(fs::exists(golden)) << "run with MILLSTREAM_UPDATE_GOLDEN=1 and look at what it writes";
    EXPECT_EQ(got, Contents(golden));
  }
}

}  // namespace
}  // namespace millstream::model
