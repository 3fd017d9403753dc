#!/usr/bin/env bash
# the Helm chart and the plain YAML on a real API server; alerts, dashboard and metrics with a real Prometheus (tests/helm, tests/metrics)
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build test kafka cluster
. tools/dev/go.sh
. tools/dev/prometheus.sh
use_go 26
build_programs
use_python
use_prometheus
python tests/testbed/cluster/command.py prepare >/dev/null
python tests/testbed/kafka/command.py prepare

# Both wait for servers most of the time, so they run beside each other. What one prints is shown when it is done.
lane() {
  SCRATCH=$SCRATCH/$1
  mkdir -p "$SCRATCH"
  run_pytest "tests/$1" >"$SCRATCH/output" 2>&1 || fail "tests/$1: exit code $?" >>"$SCRATCH/output"
  cat "$SCRATCH/output"
}
for name in helm metrics; do lane "$name" & done
wait
