#!/usr/bin/env bash
# what README and docs show: every command and program is run; generated pages are current
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build test
build_programs
use_python
for page in manifest metrics cli; do
  run_simple "docs/reference/$page.md is current" python "tools/docs/$page.py" --check
done
mapfile -t documents < <(grep -rl --include='*.md' --exclude-dir=.git --exclude-dir=build '^```console' . | sed 's|^\./||' | sort)
run_counted python tools/dev/run_docs.py "${documents[@]}"
