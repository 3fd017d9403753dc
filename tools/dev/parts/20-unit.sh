#!/usr/bin/env bash
# C++ unit tests, with all programs built first (ctest)
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build
build_programs
status=0
# Fault tests and tests that need a Kafka broker have parts of their own.
ctest --test-dir "$BUILD" --output-on-failure -j "$(cores)" --label-exclude "^(faults|kafka)$" \
  --test-output-size-passed 4000000 --test-output-size-failed 4000000 --output-junit "$SCRATCH/ctest.xml" || status=$?
python3 tools/dev/junit.py ctest "$SCRATCH/ctest.xml" "$MS_RESULTS"
exit $status
