#!/usr/bin/env bash
# ./dev e2e [ARG..]: the product on a real node (tests/e2e): the tutorial, beginnings, security, failures under load. Arguments go to pytest: -k memory
# ./dev e2e figures: how long things take, and what a sidecar weighs
set -euo pipefail
ROOT=${ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
export ROOT
cd "$ROOT"
. tools/dev/lib.sh
. tools/dev/packages.sh
. tools/dev/build.sh
. tools/dev/python.sh
. tools/dev/go.sh
need_packages build test kafka cluster node
use_go 26
build_programs millstream millstream-sidecar millstream-operator
use_python
python tests/testbed/cluster/command.py prepare >/dev/null
# Sockets have short names.
scratch=$(mktemp -d /tmp/ms-e2e.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
export MILLSTREAM_BUILD_DIR=$BUILD
if [[ ${1:-} == figures ]]; then python tests/e2e/figures.py; exit; fi
python -m pytest -q -p no:cacheprovider --basetemp="$scratch/pytest" tests/e2e "$@" </dev/null
