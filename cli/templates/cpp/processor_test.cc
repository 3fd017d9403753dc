// Without a sidecar: ctest.
#include <cstdio>
#include <string>

#include <millstream/testing.h>

#include "processor.h"

int main() {
  millstream::worker::App app;
  AddHandlers(app);
  millstream::worker::TestKit kit(app, {.stores = {"counts"}, .outputs = {"word-counts"}});
  const absl::Status status = kit.FeedBatch("words", {{.key = "tea"}, {.key = "milk"}, {.key = "tea"}});
  const auto outputs = kit.Outputs("word-counts");
  const bool good = status.ok() && kit.State("counts").at("tea") == "2" && outputs.size() == 3 &&
                    outputs[2].value == R"({"count":2})";
  if (!good) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return good ? 0 : 1;
}
