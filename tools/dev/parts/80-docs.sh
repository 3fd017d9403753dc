#!/usr/bin/env bash
# what README and docs show: every command and program is run; generated pages are current
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build test sdk
build_programs
use_python
. tools/dev/go.sh
. tools/dev/node.sh
. tools/dev/rust.sh
. tools/dev/java.sh
# Documents run with a home folder of their own; where packages come from is known all the same.
NPM_CONFIG_USERCONFIG=${NPM_CONFIG_USERCONFIG:-$HOME/.npmrc}
use_go
use_rust
# A reader's `target` is beside the program. Tools of a home folder are found in it all the same.
unset CARGO_TARGET_DIR
[[ ! -d $HOME/.rustup ]] || export RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
use_local_maven "$SCRATCH/maven"
GOENV=$(go env GOENV)
export NPM_CONFIG_USERCONFIG GOENV CMAKE_CXX_COMPILER_LAUNCHER=ccache
# The checkout of a reader, $MILLSTREAM: the SDKs as copies, so that installing them leaves nothing in this one.
export MILLSTREAM=$SCRATCH/checkout
mkdir -p "$MILLSTREAM/sdk"
for folder in common sidecar; do ln -s "$ROOT/$folder" "$MILLSTREAM/$folder"; done
for sdk in sdk/*/; do cp -r "$sdk" "$MILLSTREAM/sdk/"; done
use_typescript "$MILLSTREAM/sdk/typescript"
for page in manifest metrics cli; do
  run_simple "docs/reference/$page.md is current" python "tools/docs/$page.py" --check
done
# Not operator.py: Python would take it for its own module of that name, in every script of that folder.
run_simple "docs/reference/operator.md is current" python tools/docs/operator_help.py --check
# docs/start/cluster.md is for a cluster with a node: tests/e2e runs it.
mapfile -t documents < <(grep -rl --include='*.md' --exclude-dir=.git --exclude-dir=build '^```console' . | sed 's|^\./||' | grep -vx docs/start/cluster.md | sort)
run_counted python tools/dev/run_docs.py "${documents[@]}"
