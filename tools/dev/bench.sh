#!/usr/bin/env bash
# ./dev bench [NAME...]: every program $BUILD/bin/*_bench and every script bench/*.py, or the named ones. See bench/README.md.
# ./dev bench kafka [OPTION...]: on a real broker beside peers; it is not part of the others. See bench/kafka/README.md.
# ./dev bench operator [--processors N]: on a real API server; neither is it. See bench/operator/README.md.
set -euo pipefail
. tools/dev/lib.sh
. tools/dev/packages.sh
. tools/dev/build.sh
. tools/dev/python.sh
if [[ ${1:-} == kafka ]]; then
  shift
  need_packages build test kafka streams
  build_programs millstream counting_worker kafka_load rdkafka_loop
  use_python
  MILLSTREAM_BUILD_DIR=$BUILD exec python bench/kafka/run.py "$@"
fi
if [[ ${1:-} == operator ]]; then
  shift
  need_packages build test cluster
  . tools/dev/go.sh
  use_go 26
  build_programs millstream-operator
  use_python
  MILLSTREAM_BUILD_DIR=$BUILD exec python bench/operator/run.py "$@"
fi

need_packages build test sdk
build_programs
use_python

wanted() { [[ $# == 1 || " ${*:2} " == *" $1 "* ]]; }

echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(cores) cores, $(free -m | awk '/^Mem/ {print $2}') MB"
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
for program in "$BUILD"/bin/*_bench; do
  name=$(basename "$program" _bench)
  wanted "$name" "$@" || continue
  say "$name"
  "$program"
done
for script in bench/*.py; do
  [[ -e $script ]] || continue
  name=$(basename "$script" .py)
  wanted "$name" "$@" || continue
  say "$name"
  MILLSTREAM_BUILD_DIR=$BUILD python "$script"
done
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
