#!/usr/bin/env bash
# rules of the code base: dependency direction, file sizes, folder READMEs, marks, scripts (tests/tidy)
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build
run_counted python3 tests/tidy/selftest.py
run_counted python3 tests/tidy/tidy.py
