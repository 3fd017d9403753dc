#!/usr/bin/env bash
# Writes the tables or the flights to their topics: load.sh tables|flights [--limit N] [--data DIR | --kafka HOST:PORT ...]
# For example: load.sh tables --data /tmp/arrivals
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
what=$1
shift
limit=()
if [[ ${1:-} == --limit ]]; then
  limit=(--limit "$2")
  shift 2
fi
case $what in
  tables)
    millstream topics create airports --partitions 4 --config cleanup.policy=compact "$@"
    millstream topics create regions --partitions 1 --config cleanup.policy=compact "$@"
    python3 "$here/../flights/data.py" --airports | millstream produce airports --key iata "$@"
    sed -E 's/=/ /' "$here/regions.txt" | while read -r region states; do
      for state in $states; do echo "$state=\"$region\""; done
    done | millstream produce regions --format keyvalue "$@"
    ;;
  flights)
    # The flights are of 2001, and a Kafka deletes what is older than a week unless the topic says otherwise.
    millstream topics create flights --partitions 4 --config retention.ms=-1 --if-missing "$@"
    python3 "$here/../flights/data.py" --json "${limit[@]}" | millstream produce flights --key origin --timestamp date "$@"
    ;;
  *) echo "load.sh tables|flights" >&2; exit 2 ;;
esac
