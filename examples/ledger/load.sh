#!/usr/bin/env bash
# Writes the postings to the topic `postings`: load.sh [--postings N] [--data DIR | --kafka HOST:PORT ...]
# For example: load.sh --data /tmp/ledger
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
count=()
if [[ ${1:-} == --postings ]]; then
  count=(--postings "$2")
  shift 2
fi
millstream topics create postings --partitions 4 --if-missing "$@"
python3 "$here/postings.py" "${count[@]}" | millstream produce postings --key account "$@"
