#!/usr/bin/env bash
# Writes impressions and clicks to their topics: load.sh [--users N] [OPTION OF millstream produce...]
# For example: load.sh --data /tmp/attribution
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
users=()
if [[ ${1:-} == --users ]]; then
  users=(--users "$2")
  shift 2
fi
for topic in impressions clicks; do
  python3 "$here/events.py" "$topic" "${users[@]}" | millstream produce "$topic" --key user --timestamp time --partitions 4 "$@"
done
