#!/usr/bin/env bash
# what comes from outside, fuzzed for a short while with address and undefined-behaviour sanitizers (tests/fuzz)
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build test
use_ccache
# Seconds for each target; a night gives it hours: FUZZ_SECONDS=28800 ./dev test fuzz
run_simple "protocol fuzzing" tests/fuzz/smoke.sh "${FUZZ_SECONDS:-20}" "$BUILD/fuzz"
run_simple "group fuzzing" tests/fuzz/smoke.sh "${FUZZ_SECONDS:-20}" "$BUILD/fuzz-group" group
run_simple "watch fuzzing" tests/fuzz/smoke.sh "${FUZZ_SECONDS:-20}" "$BUILD/fuzz-watch" watch
