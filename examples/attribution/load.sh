#!/usr/bin/env bash
# Writes impressions and clicks to their topics: load.sh [--users N] [--data DIR | --kafka HOST:PORT ...]
# For example: load.sh --data /tmp/attribution
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
users=()
if [[ ${1:-} == --users ]]; then
  users=(--users "$2")
  shift 2
fi
for topic in impressions clicks; do
  millstream topics create "$topic" --partitions 4 --config retention.ms=-1 --if-missing "$@"  # their times are long ago: a Kafka would delete them
  python3 "$here/events.py" "$topic" "${users[@]}" | millstream produce "$topic" --key user --timestamp time "$@"
done
