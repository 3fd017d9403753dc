#!/usr/bin/env bash
# against real Kafka brokers: the test bed itself, the log contract, faults (tests/testbed/kafka, tests/kafka)
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build test kafka
build_programs
use_python
# C++ tests that need a broker have the label kafka and find it by MILLSTREAM_TEST_KAFKA.
if [[ -n $(ctest --test-dir "$BUILD" -N -L kafka | grep 'Test *#') ]]; then
  python tests/testbed/kafka/command.py run --secure -- \
    ctest --test-dir "$BUILD" --output-on-failure -L kafka --test-output-size-passed 4000000 --test-output-size-failed 4000000 \
    --output-junit "$SCRATCH/ctest.xml" || true
  python tools/dev/junit.py ctest "$SCRATCH/ctest.xml" "$MS_RESULTS"
fi
run_pytest tests/testbed/kafka
