#!/usr/bin/env bash
# ./dev soak [SECONDS] [SEED]: random kills of the sidecar and the worker under load, for that long (default 600), and beside it
# the engine's simulation with seeds that no run before has had.
# ./dev soak kafka [ROUNDS] [SECONDS] [SEED]: random kills with several members on three real brokers, which are killed and paused too.
# ./dev soak operator [SEEDS] [FIRST]: the operator's simulation (tests/sim/operator) with so many seeds (default 10000), new ones unless FIRST is given.
set -euo pipefail
. tools/dev/lib.sh
. tools/dev/packages.sh
. tools/dev/build.sh
. tools/dev/python.sh
need_packages build test data
# Whatever is killed leaves the folder of its socket here.
XDG_RUNTIME_DIR=$(mktemp -d /tmp/ms-run.XXXXXX)
export XDG_RUNTIME_DIR
trap 'rm -rf "$XDG_RUNTIME_DIR"' EXIT
if [[ ${1:-} == kafka ]]; then
  need_packages kafka
  build_programs millstream-crashtest
  use_python
  export MILLSTREAM_BUILD_DIR=$BUILD
  KAFKA_LATE=1,3,10,20,29,31,45,60,75,90 python -m pytest -q -p no:cacheprovider tests/kafka -k "late" </dev/null
  python -m pytest -q -p no:cacheprovider -m long tests/kafka </dev/null
  python tests/kafka/soak.py "${@:2}"
  exit
fi
if [[ ${1:-} == operator ]]; then
  build_programs operator_simulation_test
  first=${3:-$(( ($(date +%s) % 100000000) * 10000 ))}
  say "seeds ${first} and the next ${2:-10000}"
  MILLSTREAM_SIM_FIRST=$first MILLSTREAM_SIM_SEEDS=${2:-10000} "$BUILD/bin/operator_simulation_test"
  exit
fi
build_programs millstream engine_simulation_test
use_python
python tools/dev/soak.py "$@"
