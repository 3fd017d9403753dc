#include "cli/command_line.h"

int main(int argc, char** argv) { return millstream::cli::RunCommandLine(argc, argv); }
