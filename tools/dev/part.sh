# Sourced first by every part of ./dev test (tools/dev/parts/NN-name.sh). What a part may use:
#
#   need_packages GROUP...      install packages of tools/packages
#   build_programs [TARGET...]  build into $BUILD
#   use_python                  the Python environment of the cache, the SDK, the built programs on the PATH
#   count PASSED FAILED         report results (may be called several times)
#   skip NAME REASON            report one test that could not run here; with CI=true that fails the run
#   run_pytest ARG...           run pytest and count what it ran
#   run_counted COMMAND...      run a program whose last output line is "N passed, N failed[, N skipped]" and count that
#   run_simple NAME COMMAND...  run a command that is one test by itself
#
# A part shows its own result lines and exits 0 unless it broke before it could count. One that counts nothing has failed.
set -euo pipefail
ROOT=${ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
export ROOT
cd "$ROOT"
. tools/dev/lib.sh
. tools/dev/packages.sh
. tools/dev/build.sh
. tools/dev/python.sh
# The driver collects results here; run by hand, a part shows them only.
MS_RESULTS=${MS_RESULTS:-/dev/null}
export MS_RESULTS
# Scratch files of this part, removed at its end.
SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/millstream-test.XXXXXX")
export SCRATCH
trap 'rm -rf "$SCRATCH"' EXIT

count() { echo "count $1 $2" >>"$MS_RESULTS"; }
skip() {
  echo "SKIPPED $1: $2"
  echo "skip $1: $2" >>"$MS_RESULTS"
}

run_simple() {
  local name=$1
  shift
  if "$@"; then echo "passed $name"; count 1 0; else echo "FAILED $name"; count 0 1; fi
}

run_counted() {
  local log=$SCRATCH/counted.log status=0 line
  "$@" 2>&1 | tee "$log" || status=$?
  line=$(grep -E '^([a-z-]+: )?[0-9]+ passed, [0-9]+ failed' "$log" | tail -1) || true
  if [[ ! $line =~ ([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
    echo "FAILED $*: no line of the form 'N passed, N failed' (exit code $status)"
    count 0 1
    return
  fi
  local passed=${BASH_REMATCH[1]} failed=${BASH_REMATCH[2]}
  if [[ $status != 0 && $failed == 0 ]]; then
    echo "FAILED $*: exit code $status"
    failed=1
  fi
  count "$passed" "$failed"
  # Skipped tests are named on lines "SKIPPED name: reason".
  grep -E '^SKIPPED ' "$log" | sed 's/^SKIPPED /skip /' >>"$MS_RESULTS" || true
}

run_pytest() {
  local status=0 summary=$SCRATCH/pytest.xml
  MILLSTREAM_BUILD_DIR=$BUILD python -m pytest -q -p no:cacheprovider --junitxml="$summary" -o junit_family=xunit2 "$@" </dev/null || status=$?
  python "$ROOT/tools/dev/junit.py" pytest "$summary" "$MS_RESULTS" || count 0 1
  if [[ $status -gt 1 ]]; then echo "FAILED pytest: exit code $status"; count 0 1; fi
}
