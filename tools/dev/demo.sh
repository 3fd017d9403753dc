#!/usr/bin/env bash
# ./dev demo [--kafka [BOOTSTRAP]] [--keep DIR]: installs, builds the programs, fetches the data, runs the main job and kills it on the way (tools/dev/demo.py).
set -euo pipefail
. tools/dev/lib.sh
. tools/dev/packages.sh
. tools/dev/build.sh
. tools/dev/python.sh
need_packages build data
if [[ " $* " == *" --kafka "* ]]; then need_packages kafka; fi
build_programs millstream
use_python
exec python tools/dev/demo.py "$@"
