#ifndef MILLSTREAM_CLI_RUN_SPAWN_H_
#define MILLSTREAM_CLI_RUN_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace millstream::cli {

struct SpawnRequest {
  std::vector<std::string> command;               // program (searched for in PATH) and arguments
  std::vector<std::string> environment;           // NAME=VALUE, all of it
  std::string working_directory;                  // empty: ours
  int standard_output = -1, standard_error = -1;  // descriptors of ours; it gets no other ones but standard input
};

// Starts a program in a process group of its own that the kernel kills when the calling thread ends, whatever ends it.
// Returns once the program runs: NOT_FOUND or PERMISSION_DENIED if it cannot.
//
// Not by fork: in a process with many threads that takes the locks of the allocator, of stdio and of every library that
// asked for it, in an order nobody can vouch for. The child shares our memory, as with vfork, and makes nothing but
// system calls.
absl::StatusOr<pid_t> Spawn(const SpawnRequest& request);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_RUN_SPAWN_H_
