#!/usr/bin/env bash
# the Python SDK: its own tests, no sidecar needed (pytest)
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build
use_python
run_pytest sdk/python/tests
