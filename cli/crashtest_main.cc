#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include "cli/command_line.h"
#include "common/base/crash_point_armed.h"
#include "sidecar/engine/engine.h"

// Two arenas are enough for a dozen threads, and an idle process gives its memory back.
extern "C" const char* malloc_conf;
const char* malloc_conf = "narenas:2,dirty_decay_ms:2000,muzzy_decay_ms:0";

namespace {

// MILLSTREAM_MUTATION switches a rule of the engine off, so that tests/kafka can show that its verifier notices.
bool MutateFromEnvironment() {
  using Options = millstream::engine::EngineOptions;
  using Mutation = Options::Mutation;
  const char* name = std::getenv("MILLSTREAM_MUTATION");
  if (name == nullptr) return true;
  static const std::map<std::string, Mutation> mutations = {
      {"R3", Mutation::kR3}, {"R4", Mutation::kR4}, {"R6", Mutation::kR6}, {"R7", Mutation::kR7}};
  const auto found = mutations.find(name);
  if (found == mutations.end()) return false;
  Options::default_mutation = found->second;
  return true;
}

}  // namespace

// The same program for tests/faults and tests/kafka: dies at the crash point named by MILLSTREAM_CRASH_AT
// (common/base/crash_point.h).
int main(int argc, char** argv) {
  millstream::ArmCrashPointsFromEnvironment();
  if (!MutateFromEnvironment()) {
    std::cerr << "MILLSTREAM_MUTATION: R3, R4, R6 or R7\n";
    return 2;
  }
  return millstream::cli::RunCommandLine(argc, argv);
}
