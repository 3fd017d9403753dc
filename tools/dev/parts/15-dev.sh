#!/usr/bin/env bash
# ./dev itself: what it installs where, how it stops, how it counts
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build
run_counted bash tools/dev/selftest.sh
