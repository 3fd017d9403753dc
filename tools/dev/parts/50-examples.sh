#!/usr/bin/env bash
# the examples: their tests, and a run of each that must agree with an independent computation
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build test data
build_programs
use_python
run_pytest examples
