#!/usr/bin/env bash
# ./dev lint [--all | FILE...]: format, clang-tidy, and the rules of tests/tidy. clang-tidy takes 5 to 20 s for each source file.
set -euo pipefail
. tools/dev/lib.sh
. tools/dev/packages.sh
. tools/dev/build.sh
. tools/dev/files.sh
need_packages build lint
status=0

python3 tests/tidy/tidy.py | grep -v '^passed' || true
python3 tests/tidy/tidy.py >/dev/null || status=1

mapfile -t files < <(cpp_files "$@")
if [[ ${#files[@]} == 0 ]]; then say "no changed C++ files; --all looks at every one"; exit $status; fi

say "clang-format over ${#files[@]} files"
clang-format --dry-run --Werror "${files[@]}" || { status=1; say "./dev fmt puts that right"; }

sources=()
for file in "${files[@]}"; do
  if [[ $file == *.cc ]]; then sources+=("$file"); fi
done
if [[ ${#sources[@]} -gt 0 ]]; then
  say "clang-tidy over ${#sources[@]} sources"
  # clang-tidy reads the compile commands and the generated sources of a build.
  build_programs
  printf '%s\0' "${sources[@]}" |
    xargs -0 -n 1 -P "$(cores)" clang-tidy -p "$BUILD" --quiet --extra-arg=-Wno-unknown-warning-option 2>/dev/null || status=1
fi
exit $status
