#include "cli/command_line.h"
#include "cli/kubernetes/command_line.h"

// Two arenas are enough for a dozen threads, and an idle process gives its memory back.
extern "C" const char* malloc_conf;
const char* malloc_conf = "narenas:2,dirty_decay_ms:2000,muzzy_decay_ms:0";

int main(int argc, char** argv) {
  if (argc > 0 && millstream::cli::IsKubectlPlugin(argv[0])) return millstream::cli::RunKubectlPlugin(argc, argv);
  return millstream::cli::RunCommandLine(argc, argv);
}
