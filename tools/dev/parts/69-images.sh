#!/usr/bin/env bash
# the images without a registry: they run alone, as nobody, and say what is in them (images)
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
need_packages build test sdk
. tools/dev/go.sh
. tools/dev/node.sh
build_programs millstream-operator millstream-sidecar millstream
use_python
use_go 24
use_typescript "$SCRATCH/typescript"
export MILLSTREAM_TYPESCRIPT=$SCRATCH/typescript
run_pytest images
