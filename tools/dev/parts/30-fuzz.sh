#!/usr/bin/env bash
# fuzz targets over their seeds and for a short while beyond, with address and undefined-behaviour sanitizers
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build test
build_fuzzers
# Seconds for each target; a night gives it hours: FUZZ_SECONDS=28800 ./dev test fuzz
seconds=${FUZZ_SECONDS:-20}

fuzz() {
  local target=$1 name seeds new
  name=$(basename "$target")
  seeds=$(find tests sidecar common -type d -path "*/corpus/$name" | head -1)
  new=$SCRATCH/$name
  mkdir -p "$new"
  echo "$name: ${seeds:-no seeds}, $seconds s"
  "$target" -runs=0 $seeds 2>"$SCRATCH/log" &&
    "$target" -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="$BUILD/fuzz/" "$new" $seeds 2>"$SCRATCH/log"
  local status=$?
  if [[ $status == 0 ]]; then grep -E 'number_of_executed_units|new_units_added' "$SCRATCH/log"; else tail -50 "$SCRATCH/log"; fi
  return $status
}

for target in "$BUILD"/fuzz/bin/fuzz/*; do
  run_simple "$(basename "$target")" fuzz "$target"
done
