#!/usr/bin/env bash
# Writes the flights to the topic `flights`: load.sh [--limit N] [OPTION OF millstream produce...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
limit=()
if [[ ${1:-} == --limit ]]; then
  limit=(--limit "$2")
  shift 2
fi
python3 "$here/../flights/data.py" --json "${limit[@]}" | millstream produce flights --key origin --timestamp date --partitions 4 "$@"
