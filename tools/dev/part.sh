# Sourced first by every part of ./dev test (tools/dev/parts/NN-name.sh). What a part may use:
#
#   need_packages GROUP...      install packages of tools/packages
#   build_programs [TARGET...]  build into $BUILD
#   use_python                  the Python environment of the cache, the SDK, the built programs on the PATH
#   count PASSED FAILED         report results (may be called several times)
#   fail NAME                   report one failed test, which the end of ./dev test lists by that name
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
# A `millstream run` that is killed leaves the folder of its socket behind: here, not in /tmp. The path must be short.
XDG_RUNTIME_DIR=$(mktemp -d /tmp/ms-run.XXXXXX)
export XDG_RUNTIME_DIR
trap 'rm -rf "$SCRATCH" "$XDG_RUNTIME_DIR"' EXIT

count() { echo "count $1 $2" >>"$MS_RESULTS"; }
fail() {
  echo "FAILED $1"
  printf 'count 0 1\nfail %s\n' "$1" >>"$MS_RESULTS"
}
skip() {
  echo "SKIPPED $1: $2"
  echo "skip $1: $2" >>"$MS_RESULTS"
}

run_simple() {
  local name=$1
  shift
  if "$@"; then echo "passed $name"; count 1 0; else fail "$name"; fi
}

run_counted() {
  local log=$SCRATCH/counted.log status=0 line
  "$@" 2>&1 | tee "$log" || status=$?
  line=$(grep -E '^([a-z-]+: )?[0-9]+ passed, [0-9]+ failed' "$log" | tail -1) || true
  if [[ ! $line =~ ([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
    fail "$*: no line of the form 'N passed, N failed' (exit code $status)"
    return
  fi
  local passed=${BASH_REMATCH[1]} failed=${BASH_REMATCH[2]}
  if [[ $status != 0 && $failed == 0 ]]; then fail "$*: exit code $status"; fi
  count "$passed" "$failed"
  # Skipped and failed tests are named on lines "SKIPPED name: reason" and "FAILED name".
  sed -nE 's/^SKIPPED /skip /p; s/^(FAILED:?|failed|fixed) /fail /p' "$log" >>"$MS_RESULTS"
}

run_pytest() {
  local status=0 summary=$SCRATCH/pytest.xml
  MILLSTREAM_BUILD_DIR=$BUILD python -m pytest -q -p no:cacheprovider --basetemp="$SCRATCH/pytest" --junitxml="$summary" -o junit_family=xunit2 \
    --durations=10 --durations-min=10 "$@" </dev/null || status=$?
  python "$ROOT/tools/dev/junit.py" pytest "$summary" "$MS_RESULTS" || fail "pytest $*: no report"
  if [[ $status -gt 1 ]]; then fail "pytest $*: exit code $status"; fi
}
