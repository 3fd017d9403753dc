#!/usr/bin/env bash
# Writes the flights to the topic `flights`: load.sh [--limit N] [--skip N] [--data DIR | --kafka HOST:PORT ...]
# For example: load.sh --data /tmp/flights
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
which=()
while [[ ${1:-} == --limit || ${1:-} == --skip ]]; do
  which+=("$1" "$2")
  shift 2
done
# The flights are of 2001, and a Kafka deletes what is older than a week unless the topic says otherwise.
millstream topics create flights --partitions 8 --config retention.ms=-1 --if-missing "$@"
python3 "$here/data.py" --json "${which[@]}" | millstream produce flights --key origin --timestamp date "$@"
