#!/usr/bin/env bash
# the examples: their tests, and a run of each that must agree with an independent computation
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build test data sdk
build_programs
use_python
. tools/dev/go.sh
. tools/dev/node.sh
use_go
export MILLSTREAM_TYPESCRIPT=$SCRATCH/typescript
use_typescript "$MILLSTREAM_TYPESCRIPT"
run_pytest examples
