#!/usr/bin/env bash
# Writes the events to the topic `order-events`: load.sh [--orders N] [--data DIR | --kafka HOST:PORT ...]
# For example: load.sh --data /tmp/orders
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
orders=()
if [[ ${1:-} == --orders ]]; then
  orders=(--orders "$2")
  shift 2
fi
millstream topics create order-events --partitions 4 --config retention.ms=-1 --if-missing "$@"  # their times are long ago: a Kafka would delete them
python3 "$here/events.py" "${orders[@]}" | millstream produce order-events --key order --timestamp time "$@"
