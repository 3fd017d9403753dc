#!/usr/bin/env bash
# ./dev fmt [--all | FILE...]: clang-format in place.
set -euo pipefail
. tools/dev/lib.sh
. tools/dev/packages.sh
. tools/dev/files.sh
need_packages lint
mapfile -t files < <(cpp_files "$@")
if [[ ${#files[@]} == 0 ]]; then say "no changed C++ files; --all formats every one"; exit; fi
clang-format -i "${files[@]}"
say "formatted ${#files[@]} files"
