#!/usr/bin/env bash
# Tests of ./dev itself: what it installs where, how it stops, how the driver of ./dev test counts. Nothing is installed or built.
set -euo pipefail
ROOT=${ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
export ROOT
cd "$ROOT"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/millstream-dev.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0

# check NAME EXPECTED ACTUAL: EXPECTED is a pattern of [[ == ]].
check() {
  # shellcheck disable=SC2053  # a pattern on purpose
  if [[ $3 == $2 ]]; then
    echo "passed dev: $1"; passed=$((passed + 1))
  else
    echo "FAILED dev: $1"; printf '  expected %s\n  got      %s\n' "$2" "$3"; failed=$((failed + 1))
  fi
}

# A copy of ./dev with its pieces and parts of its own, so that the driver can be tried.
mkdir -p "$scratch/copy/tools/dev/parts"
cp dev "$scratch/copy/"
cp tools/packages "$scratch/copy/tools/"
cp tools/dev/*.sh tools/dev/*.py "$scratch/copy/tools/dev/"
part() { { printf '#!/usr/bin/env bash\n# %s\n. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"\n' "$1"; cat; } >"$scratch/copy/tools/dev/parts/$1.sh"; }
part 10-good <<<'run_simple one true; run_counted bash -c "echo 2 passed, 0 failed"'
part 20-bad <<<'run_simple wrong false; run_simple right true'
part 30-empty <<<'true'
part 40-broken <<<'count 5 0; exit 3'
part 50-skips <<<'count 1 0; skip namespaces "needs root"'
part 60-liar <<<'run_counted bash -c "echo 4 passed, 0 failed; exit 1"'
part 70-silent <<<'run_counted true'
whole_driver() { (cd "$scratch/copy"; CI=${2:-} ROOT= bash tools/dev/test.sh $1 2>/dev/null || echo "exit $?"); }
driver() { whole_driver "$@" | tail -2 | tr '\n' ';'; }

check "a good part" "*3 passed, 0 failed;" "$(driver good)"
check "a failing part" "1 passed, 1 failed;exit 1;" "$(driver bad)"
check "a part that runs no test" "0 passed, 1 failed;exit 1;" "$(driver empty)"
check "a part that breaks after counting" "5 passed, 1 failed;exit 1;" "$(driver broken)"
check "a skip" "*1 passed, 0 failed, 1 skipped;" "$(driver skips)"
check "a skip in CI" "1 passed, 1 failed;exit 1;" "$(driver skips true)"
check "a program that fails with a good closing line" "4 passed, 1 failed;exit 1;" "$(driver liar)"
check "a program without a closing line" "0 passed, 1 failed;exit 1;" "$(driver silent)"
check "several parts" "4 passed, 1 failed;exit 1;" "$(driver "good bad")"
check "failed tests are named at the end" "*total *FAILED bad: wrong*FAILED broken: the part ended with exit code 3*FAILED liar: bash *: exit code 1*" \
  "$(whole_driver "bad broken liar")"
check "skipped tests too, in CI" "*total *FAILED skips: (skipped, which CI=true forbids) namespaces: needs root*" "$(whole_driver skips true)"
check "an unknown part" "*exit 1;" "$(driver nothing)"

packages() { MILLSTREAM_RELEASE=$1 bash -c '. tools/dev/lib.sh; . tools/dev/packages.sh; MS_ASSUME_NO_COMMANDS=1 listed_packages build test kafka data lint' | tr '\n' ' '; }
check "Debian 12 gets clang 14" "*clang-14 libclang-rt-14-dev *npm*" "$(packages debian-12)"
check "Debian 13 gets its own clang" "*clang libclang-rt-dev *npm*" "$(packages debian-13)"
check "Ubuntu 24.04 gets its own clang" "*clang libclang-rt-18-dev *npm*" "$(packages ubuntu-24.04)"
check "another system is offered a container" "*dev --in-container*exit 1" "$(MILLSTREAM_RELEASE=fedora-40 ./dev build 2>&1 || echo "exit $?")"

# Nothing installed, not root: id and dpkg-query are replaced.
mkdir "$scratch/bin"
printf '#!/bin/sh\necho 1000\n' >"$scratch/bin/id"
printf '#!/bin/sh\nexit 0\n' >"$scratch/bin/dpkg-query"
chmod +x "$scratch/bin/"*
check "without root there is one sudo line" "*sudo apt-get update && sudo apt-get install -y --no-install-recommends *g++*exit 1" \
  "$(PATH=$scratch/bin:$PATH MILLSTREAM_RELEASE=debian-12 ./dev build 2>&1 || echo "exit $?")"

# --in-container with a docker that only says what it was asked for.
cat >"$scratch/bin/docker" <<'DOCKER'
#!/bin/sh
echo "docker $*"
case $1 in image) exit 1 ;; build) cat ;; esac
DOCKER
chmod +x "$scratch/bin/docker"
output=$(PATH=$scratch/bin:$PATH XDG_CACHE_HOME=$scratch/cache ./dev --in-container test tidy 2>/dev/null </dev/null)
check "the image is Debian 12 with every package" "*FROM docker.io/library/debian:12*librocksdb-dev*clang-14*npm*" "$output"
check "the checkout is mounted, the command passed on" "*docker run --rm *--user 1000:1000 *--volume $ROOT:$ROOT *./dev test tidy" "$output"
check "without docker and podman it says so" "*neither docker nor podman*exit 1" \
  "$(MILLSTREAM_CONTAINER=no-such-program ./dev --in-container test 2>&1 || echo "exit $?")"

# junit.py: GoogleTest programs are counted test by test, skipped ones are found, crashes are failures.
cat >"$scratch/ctest.xml" <<'XML'
<testsuite><testcase name="a_test" status="run"><system-out>[==========] 3 tests from 1 test suite ran. (0 ms total)
[  PASSED  ] 2 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] A.Root
</system-out></testcase>
<testcase name="b_test" status="fail"><failure message=""/><system-out>[==========] 2 tests from 1 test suite ran. (0 ms total)
[  PASSED  ] 1 test.
[  FAILED  ] 1 test, listed below:
[  FAILED  ] B.Two
</system-out></testcase>
<testcase name="crash_test" status="fail"><failure message=""/><system-out>Segmentation fault</system-out></testcase>
<testcase name="plain" status="run"><system-out>ok</system-out></testcase></testsuite>
XML
: >"$scratch/results"
python3 tools/dev/junit.py ctest "$scratch/ctest.xml" "$scratch/results" >/dev/null
check "counting of GoogleTest programs" "count 4 2;fail b_test: B.Two;fail crash_test;skip a_test: A.Root;" "$(tr '\n' ';' <"$scratch/results")"

# The runner of the documents: a wrong line, a failing command, a background command are seen.
cat >"$scratch/right.md" <<'MD'
```text file=a.txt
hello
```
```console background
$ bash -c 'trap "exit 0" INT; echo up at 12:30; while :; do sleep 0.1; done'
up at ...
```
```console
$ cat a.txt
hello
```
MD
printf '```console\n$ echo one\ntwo\n```\n' >"$scratch/wrong.md"
printf '```console\n$ false\n```\n' >"$scratch/fails.md"
printf '```console background\n$ false\nup\n```\n' >"$scratch/down.md"
check "documents: a right one" "*2 passed, 0 failed" "$(python3 tools/dev/run_docs.py "$scratch/right.md")"
check "documents: another output" "*lacks: two*0 passed, 1 failed*" "$(python3 tools/dev/run_docs.py "$scratch/wrong.md" || true)"
check "documents: a failing command" "*exit code 1*0 passed, 1 failed*" "$(python3 tools/dev/run_docs.py "$scratch/fails.md" || true)"
check "documents: a background command that ends" "*0 passed, 1 failed*" "$(python3 tools/dev/run_docs.py "$scratch/down.md" || true)"

echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
