#!/usr/bin/env bash
# tests/fuzz/smoke.sh [SECONDS [FOLDER [TARGET]]]: builds the fuzzer of TARGET (protocol, group or watch) and runs it for that long (default
# 20) on new inputs, after the seeds and the kept findings. FOLDER (default: a temporary one) keeps the program and what it learned for the next run.
# A finding is written to FOLDER/finding-*; once repaired, it belongs into tests/fuzz/corpus (or corpus-TARGET) with a name that says what it was.
set -euo pipefail
HERE=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
SECONDS_TO_RUN=${1:-20}
TARGET=${3:-protocol}
CORPUS=$HERE/corpus
[[ $TARGET == protocol ]] || CORPUS=$HERE/corpus-$TARGET
if [[ -n ${2:-} ]]; then
  FOLDER=$2
  mkdir -p "$FOLDER"
else
  FOLDER=$(mktemp -d)
  trap 'rm -rf "$FOLDER"' EXIT
fi
"$HERE/build.sh" "$FOLDER" "$TARGET"
mkdir -p "$FOLDER/learned"
# -malloc_limit_mb: no input of 100 KB may make the decoder ask for more at once than its bounds allow.
if ! "$FOLDER/${TARGET}_fuzz" -max_total_time="$SECONDS_TO_RUN" -max_len=100000 -len_control=50 -timeout=5 -rss_limit_mb=1024 \
    -malloc_limit_mb=64 -print_final_stats=1 -verbosity=0 -artifact_prefix="$FOLDER/finding-" \
    "$FOLDER/learned" "$FOLDER/seeds" "$CORPUS" >"$FOLDER/log" 2>&1; then
  tail -n 60 "$FOLDER/log" >&2
  for finding in "$FOLDER"/finding-*; do
    if [[ -e $finding ]]; then echo "the input, base64: $(base64 -w0 "$finding" | head -c 4000)" >&2; fi
  done
  echo "FAILED: the fuzzer found an input that breaks the code of $TARGET" >&2
  exit 1
fi
echo "$TARGET fuzzing: nothing found in $SECONDS_TO_RUN s, $(sed -n 's/^stat::number_of_executed_units: *//p' "$FOLDER/log") inputs"
