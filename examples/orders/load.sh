#!/usr/bin/env bash
# Writes the events to the topic `order-events`: load.sh [--orders N] [OPTION OF millstream produce...]
# For example: load.sh --data /tmp/orders
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
orders=()
if [[ ${1:-} == --orders ]]; then
  orders=(--orders "$2")
  shift 2
fi
python3 "$here/events.py" "${orders[@]}" | millstream produce order-events --key order --timestamp time --partitions 4 "$@"
