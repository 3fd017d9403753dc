#!/usr/bin/env bash
# every SDK against the worker protocol (millstream conform), and the SDKs' own tests beside Python's
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build
build_programs millstream conformance_worker
use_python

# conform NAME PROFILE COMMAND...: the conformance cases against one worker. Cases for features that its profile says are
# missing are not counted.
conform() {
  local name=$1 profile=$2
  shift 2
  echo "conformance: $name"
  run_counted "$BUILD/bin/millstream" conform --profile "$profile" -- "$@"
}

conform python sdk/python/conformance/profile.yaml python sdk/python/conformance/conformance_worker.py
conform python-async sdk/python/conformance/profile.yaml python sdk/python/conformance/conformance_worker.py --async
conform cpp tests/workers/conformance.yaml "$BUILD/bin/conformance_worker"
