#!/usr/bin/env bash
# ./dev test: installs, builds, runs the parts in tools/dev/parts, adds up what they report.
set -euo pipefail
ROOT=${ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
export ROOT
cd "$ROOT"
. tools/dev/lib.sh

part_name() { basename "$1" .sh | sed 's/^[0-9]*-//'; }

if [[ ${1:-} == --list ]]; then
  for part in tools/dev/parts/*.sh; do
    printf '%-14s %s\n' "$(part_name "$part")" "$(sed -n '2s/^# //p' "$part")"
  done
  exit
fi

selected=()
for part in tools/dev/parts/*.sh; do
  name=$(part_name "$part")
  if [[ $# == 0 || " $* " == *" $name "* ]]; then selected+=("$part"); fi
done
for wanted in "$@"; do
  compgen -G "tools/dev/parts/*-$wanted.sh" >/dev/null ||
    die "there is no part '$wanted'; the parts are:
$(bash tools/dev/test.sh --list)"
done

results=$(mktemp -d "${TMPDIR:-/tmp}/millstream-results.XXXXXX")
trap 'rm -rf "$results"' EXIT

total_passed=0 total_failed=0 total_skipped=0
table=() failures=()
for part in "${selected[@]}"; do
  name=$(part_name "$part")
  say "$name: $(sed -n '2s/^# //p' "$part")"
  export MS_RESULTS=$results/$name
  : >"$MS_RESULTS"
  started=$SECONDS status=0
  bash "$part" </dev/null || status=$?
  read -r passed failed < <(awk '$1 == "count" { p += $2; f += $3 } END { print p + 0, f + 0 }' "$MS_RESULTS")
  skipped=$(grep -c '^skip ' "$MS_RESULTS") || true
  if [[ $status != 0 && $failed == 0 ]]; then echo "fail the part ended with exit code $status" >>"$MS_RESULTS"; failed=1; fi
  if [[ $((passed + failed + skipped)) == 0 ]]; then echo "fail it ran no test" >>"$MS_RESULTS"; failed=1; fi
  if in_ci && [[ $skipped != 0 ]]; then
    sed -n 's/^skip /fail (skipped, which CI=true forbids) /p' "$MS_RESULTS" >"$results/.skipped"
    cat "$results/.skipped" >>"$MS_RESULTS"
    failed=$((failed + skipped)) skipped=0
  fi
  mapfile -t -O "${#failures[@]}" failures < <(sed -n "s/^fail /FAILED $name: /p" "$MS_RESULTS")
  named=$(grep -c '^fail ' "$MS_RESULTS") || true
  if [[ $named -lt $failed ]]; then failures+=("FAILED $name: $((failed - named)) without a name (the output above shows them)"); fi
  total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed)) total_skipped=$((total_skipped + skipped))
  table+=("$(printf '%-14s %7d %7d %8d %8d' "$name" "$passed" "$failed" "$skipped" $((SECONDS - started)))")
done

echo
printf '%-14s %7s %7s %8s %8s\n' part passed failed skipped seconds
printf '%s\n' "${table[@]}"
printf '%-14s %7d %7d %8d %8d\n' total $total_passed $total_failed $total_skipped $SECONDS
echo
# Once more at the very end, since where the output is long nobody sees its middle.
if [[ ${#failures[@]} -gt 0 ]]; then printf '%s\n' "${failures[@]}" ""; fi
if [[ $total_skipped == 0 ]]; then
  echo "$total_passed passed, $total_failed failed"
else
  echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
fi
[[ $total_failed == 0 ]]
