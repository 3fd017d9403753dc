#!/usr/bin/env bash
# tests/fuzz/build.sh FOLDER [TARGET]: builds the libFuzzer program FOLDER/TARGET_fuzz with ASan and UBSan, and FOLDER/seeds.
# TARGET is protocol (default), group or watch. Only its code and the two files of common/base under it are compiled: no CMake, no other
# library than Abseil.
# Needs clang with its runtime libraries (tools/packages); CLANGXX chooses one.
set -euo pipefail
ROOT=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
OUT=$(mkdir -p "${1:?usage: build.sh FOLDER [TARGET]}" && cd "$1" && pwd)
TARGET=${2:-protocol}
FILES=()
case $TARGET in
  protocol) FOLDERS=(sidecar/protocol) MAKE_SEEDS=make_corpus.py ;;
  group) FOLDERS=(sidecar/group/wire sidecar/group/plan) MAKE_SEEDS=make_group_corpus.py ;;
  watch)
    FOLDERS=()
    FILES=(operator/kube/{api_error,json,resource,watch_decoder}.cc common/http/message.cc)
    MAKE_SEEDS=make_watch_corpus.py ;;
  *) echo "build.sh: no target $TARGET; protocol, group or watch" >&2; exit 1 ;;
esac
CLANGXX=${CLANGXX:-$(command -v clang++ || command -v clang++-18 || command -v clang++-14 || true)}
[[ -n $CLANGXX ]] || { echo "no clang++ found: install clang (see tools/packages)" >&2; exit 1; }

SOURCES=("tests/fuzz/${TARGET}_fuzz.cc" "tests/fuzz/${TARGET}_fuzz_main.cc" common/base/bytes.cc common/base/status.cc "${FILES[@]}")
cd "$ROOT"
for source in "${FOLDERS[@]/%//*.cc}"; do
  for file in $source; do
    [[ $file == *_test.cc || $file == *_bench.cc ]] || SOURCES+=("$file")
  done
done
FLAGS=(-std=c++20 -O1 -g -I. -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
CACHE=$(command -v ccache || true)
mkdir -p "$OUT/objects"
build_one() {
  local object=$OUT/objects/${1//\//_}.o
  [[ $object -nt $1 && -z ${HEADERS_NEWER:-} ]] || $CACHE "$CLANGXX" "${FLAGS[@]}" -c "$1" -o "$object"
}
# A header newer than the program: everything again (ccache makes that cheap).
if [[ ! -e $OUT/${TARGET}_fuzz || -n $(find "${FOLDERS[@]}" operator/kube common/http common/base tests/fuzz -name '*.h' -newer "$OUT/${TARGET}_fuzz") ]]; then HEADERS_NEWER=1; fi
pids=()
for source in "${SOURCES[@]}"; do
  build_one "$source" &
  pids+=($!)
  if (( ${#pids[@]} == 2 )); then wait "${pids[0]}"; pids=("${pids[@]:1}"); fi
done
for pid in "${pids[@]}"; do wait "$pid"; done
"$CLANGXX" -fsanitize=fuzzer,address,undefined "$OUT"/objects/*.o -o "$OUT/${TARGET}_fuzz" $(pkg-config --libs absl_status absl_statusor absl_strings absl_str_format absl_time absl_cord)
python3 "tests/fuzz/$MAKE_SEEDS" "$OUT/seeds"
