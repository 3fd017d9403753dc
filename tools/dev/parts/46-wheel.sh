#!/usr/bin/env bash
# the Python wheel: pip alone gives the program and a running sample
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build test
build_programs millstream
use_python
. tools/dev/wheel.sh

FRESH=$SCRATCH/fresh

wheel_is_made() {
  build_wheel "$SCRATCH/wheel" || return 1
  echo "$(basename "$WHEEL"): $(stat -c %s "$WHEEL") bytes"
  [[ $(basename "$WHEEL") =~ ^millstream-.*-py3-none-manylinux_[0-9_]+_$(uname -m)\.whl$ ]]
}

# Into an environment that has nothing of this checkout.
wheel_is_installed() {
  /usr/bin/python3 -m venv "$FRESH" && env -u PYTHONPATH "$FRESH/bin/pip" install --quiet --disable-pip-version-check "$WHEEL"
}

fresh() { (cd "$SCRATCH" && env -u PYTHONPATH -u VIRTUAL_ENV PATH="$FRESH/bin:/usr/bin:/bin" "$@"); }

# All but glibc and the compiler's runtime comes from the wheel: the tag promises no more of a machine.
libraries_come_along() {
  local program foreign
  program=$(echo "$FRESH"/lib/python*/site-packages/millstream/program/millstream)
  foreign=$(fresh ldd "$program" | awk '$3 ~ "^/" {print $1, $3}' | grep -vF "$FRESH/" |
    grep -vE '^(libc|libm|libpthread|libdl|librt|libresolv|libgcc_s|libstdc\+\+|libz)\.so\.[0-9]+ ') || true
  [[ -z $foreign ]] || { echo "not in the wheel: $foreign"; return 1; }
}

sample_runs() {
  fresh bash -euo pipefail -c '
    millstream init hello >init.log
    cd hello
    millstream run -f processor.yaml -- python app.py >run.log 2>&1 &
    run=$!
    trap "kill -KILL $run 2>/dev/null || true" EXIT
    produced=
    for _ in $(seq 600); do
      if [[ -z $produced ]] && printf "{\"word\": \"tea\"}\n{\"word\": \"tea\"}\n" | millstream produce words --key word >produce.log 2>&1; then produced=yes; fi
      if [[ -n $produced ]] && millstream state get counts tea 2>/dev/null | grep -qw 2; then break; fi
      kill -0 $run || break
      sleep 0.1
    done
    millstream state get counts tea | grep -w 2 || { cat produce.log run.log; exit 1; }
    kill -TERM $run
    wait $run
    trap - EXIT
  '
}

sample_test_passes() { fresh bash -c 'cd hello && pip install --quiet --disable-pip-version-check pytest PyYAML && python -m pytest -q -p no:cacheprovider'; }

run_simple "the wheel is made" wheel_is_made
run_simple "the wheel installs into a fresh environment" wheel_is_installed
run_simple "the wheel's program brings its libraries" libraries_come_along
run_simple "init, run, produce, state with pip alone" sample_runs
run_simple "the test that init writes passes with pip alone" sample_test_passes
