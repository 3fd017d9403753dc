#!/usr/bin/env bash
# injected faults against the real programs: kills, broken frames, broken disks (tests/faults)
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build test
build_programs
use_python
if [[ -n $(ctest --test-dir "$BUILD" -N -L faults | grep 'Test *#') ]]; then
  ctest --test-dir "$BUILD" --output-on-failure -L faults --test-output-size-passed 4000000 --test-output-size-failed 4000000 \
    --output-junit "$SCRATCH/ctest.xml" || true
  python tools/dev/junit.py ctest "$SCRATCH/ctest.xml" "$MS_RESULTS"
fi
if compgen -G "tests/faults/test_*.py" >/dev/null; then run_pytest tests/faults; fi
