#!/usr/bin/env bash
# ./dev soak [SECONDS] [SEED]: random kills of the sidecar and the worker under load, for that long (default 600).
set -euo pipefail
. tools/dev/lib.sh
. tools/dev/packages.sh
. tools/dev/build.sh
. tools/dev/python.sh
need_packages build test data
build_programs millstream
use_python
exec python tools/dev/soak.py "$@"
