#!/usr/bin/env bash
# Writes the flights to the topic `flights`: load.sh [--limit N] [--data DIR | --kafka HOST:PORT ...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
limit=()
if [[ ${1:-} == --limit ]]; then
  limit=(--limit "$2")
  shift 2
fi
# The flights are of 2001, and a Kafka deletes what is older than a week unless the topic says otherwise.
millstream topics create flights --partitions 4 --config retention.ms=-1 --if-missing "$@"
python3 "$here/../flights/data.py" --json "${limit[@]}" | millstream produce flights --key origin --timestamp date "$@"
