#!/usr/bin/env bash
# against real Kafka brokers: the test bed itself, the log and group contracts, faults, windows beside Kafka Streams, a tiny bench (tests/testbed/kafka, tests/kafka, bench/kafka)
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build test kafka streams data
build_programs
use_python
python tests/testbed/kafka/command.py prepare
python -c 'import sys; sys.path.insert(0, "tests/testbed/kafka"); import kafka_streams; kafka_streams.libraries()'
python examples/flights/data.py >/dev/null

# Most of these tests wait for something most of the time (timeouts, failovers): four lanes, each with brokers of its own. What a lane
# prints is shown when it is done.
lane() {
  local name=$1
  shift
  SCRATCH=$SCRATCH/$name
  mkdir -p "$SCRATCH"
  "$@" >"$SCRATCH/output" 2>&1 || fail "lane $name: exit code $?" >>"$SCRATCH/output"
  cat "$SCRATCH/output"
}

# C++ tests that need a broker have the label kafka and find it by MILLSTREAM_TEST_KAFKA.
contracts() {
  if [[ -z $(ctest --test-dir "$BUILD" -N -L kafka | grep 'Test *#') ]]; then return; fi
  python tests/testbed/kafka/command.py run --secure -- \
    ctest --test-dir "$BUILD" --output-on-failure -L kafka --test-output-size-passed 4000000 --test-output-size-failed 4000000 \
    --output-junit "$SCRATCH/ctest.xml" || true
  python tools/dev/junit.py ctest "$SCRATCH/ctest.xml" "$MS_RESULTS"
}

brokers=(tests/kafka/test_seeds.py tests/kafka/test_streams_windows.py)
# While brokers are away, the clients of the tests themselves use all the CPU that there is: these run when the lanes are done.
lost=(tests/kafka/test_brokers_lost.py)
transactions=(tests/kafka/test_crash_points.py tests/kafka/test_commit_reply.py)
security=(tests/kafka/test_access.py tests/kafka/test_tools.py)
short() { run_pytest -m "not long" "$@"; }

contracts_and_security() { contracts; short "${security[@]}"; }
testbed_and_brokers() { run_pytest tests/testbed/kafka bench/kafka; short "${brokers[@]}"; }
transactions() { short "${transactions[@]}"; }
brokers_lost() { short "${lost[@]}"; }
the_rest() { short tests/kafka "${brokers[@]/#/--ignore=}" "${lost[@]/#/--ignore=}" "${transactions[@]/#/--ignore=}" "${security[@]/#/--ignore=}"; }

for name in contracts_and_security testbed_and_brokers transactions the_rest; do lane "$name" "$name" & done
wait
lane brokers_lost brokers_lost
